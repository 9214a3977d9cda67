"""What packages and models say of themselves, well or badly; and what they require."""

import hashlib
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packageurl import PackageURL

from bundler.papers import (
    gathering_edges,
    gathering_kept,
    gathering_models,
    gathering_purls,
    gathering_said,
    sbom,
)
from manifests.lock import Adapter, CondaPackage, Model, ModelFile, Target
from tests.support.bills import bill

HERE = gathering_edges.environment(Target(("cpu",), "2.28", "3.12"), "3.12.9")
PROSE = "Everybody who is kind may use it.\n        Whoever sells it asks first.\n        " * 9


def wheel(head, **files):
    data = {name.replace("__", "/"): text.encode() for name, text in files.items()}
    return gathering_said.of_wheel(
        {"METADATA": f"Metadata-Version: 2.4\nName: a\n{head}\n\nLicense: none\n".encode(), **data}
    )


@pytest.mark.parametrize(
    ("head", "declared", "family"),
    [
        ("License-Expression: MIT\nLicense: other", "MIT", "permissive"),
        ("Classifier: License :: OSI Approved :: MIT License", "MIT License", "permissive"),
        (
            "Classifier: License :: OSI Approved :: MIT License\n"
            "Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",
            "MIT License and GNU General Public License v3 (GPLv3)",
            "strong copyleft",
        ),
        (  # as NVIDIA's wheels have it
            "Classifier: License :: Other/Proprietary License\n"
            "License: NVIDIA Proprietary Software",
            "NVIDIA Proprietary Software",
            "proprietary",
        ),
        (
            "Classifier: License :: Other/Proprietary License",
            "Other/Proprietary License",
            "proprietary",
        ),
        ("Classifier: License :: OSI Approved\nLicense: BSD", "BSD", "permissive"),
        (f"License: {PROSE}", PROSE.strip(), "unknown"),
        ("License: UNKNOWN", "UNKNOWN", "unknown"),
        ("", "", "unknown"),
        ("no header at all\nLicense: MIT", "", "unknown"),
    ],
)
def test_what_a_wheel_declares(head, declared, family):
    said = wheel(head)
    assert (said.declared, said.licence.family) == (declared, family)


def test_a_wheel_without_metadata():
    said = gathering_said.of_wheel({"LICENSE": b"MIT\n"})
    assert (said.declared, said.needs, len(said.texts)) == ("", (), 1)


def test_where_licence_texts_lie():
    said = wheel(
        "License-File: AUTHORS.rst",
        **{"AUTHORS.rst": "a", "README": "b", "licenses__sub__x.txt": "c", "COPYING.LESSER": "d"},
    )
    paths = [text.path for text in said.texts]
    assert paths == ["AUTHORS.rst", "COPYING.LESSER", "licenses/sub/x.txt"]


def test_a_licence_that_is_no_text():
    text = gathering_said.text("licenses/LICENSE.pdf", b"%PDF\0")
    assert text.content == ""
    assert text.sha256 == hashlib.sha256(b"%PDF\0").hexdigest()
    assert gathering_said.is_wanted("licenses/LICENSE", 10)
    assert not gathering_said.is_wanted("RECORD", 10)
    assert not gathering_said.is_wanted("licenses/LICENSE", 1 << 30)


@pytest.mark.parametrize(
    "index", [{}, {"license": ["MIT"], "depends": "python"}, {"depends": None}]
)
def test_a_conda_package_that_says_nothing_that_can_be_understood(index):
    said = gathering_said.of_conda(index)
    assert (said.declared, said.needs, said.licence.family) == ("", (), "unknown")


def test_halves_of_characters_do_not_reach_a_paper():
    """JSON may escape them and tar names may hold them; UTF-8 can't."""
    text = gathering_said.text("licenses/\udce9", b"MIT")
    said = gathering_said.of_conda({"license": "MIT \ud800 x"}, [text])
    assert (said.declared, said.texts[0].path) == ("MIT ? x", "licenses/?")
    assert gathering_said.of_model("", {}, "a/\ud800").base == "a/?"
    made = replace(bill().components[0], declared=said.declared, texts=said.texts)
    made = replace(bill(), components=(made,))
    assert gathering_kept.dump(made) and sbom.render(made)


# Who needs whom


def edges(**needs):
    found = gathering_edges.of_wheels({name: tuple(lines) for name, lines in needs.items()}, HERE)
    return {name: sorted(others) for name, others in found.items()}


@pytest.mark.parametrize(
    ("line", "holds"),
    [
        ("b", True),
        ("B>=1,<2", True),
        ("b; python_version >= '3.12'", True),
        ("b; python_version < '3.12'", False),
        ("b; python_full_version >= '3.12.9'", True),
        ("b; sys_platform == 'win32' or platform_machine == 'aarch64'", False),
        ("b; platform_system == 'Linux' and implementation_name == 'cpython'", True),
        ("b; extra == 'fast'", False),
        ("b; platform_release >= '5.0~weird'", False),
        ("b @ https://example.invalid/b.whl", True),
        ("(((", False),
        ("", False),
        ("nobody", False),
        ("a", False),  # itself
    ],
)
def test_a_requirement(line, holds):
    assert edges(a=[line], b=[])["a"] == (["b"] if holds else [])


def test_markers_ask_nothing_of_this_machine():
    names = {"platform_release", "platform_version", "implementation_version", "python_version"}
    assert names < HERE.keys()
    assert sys.version not in HERE.values()
    assert HERE["python_version"] == "3.12"


def test_extras_are_passed_on_also_in_a_circle():
    found = edges(
        a=["b[one]"],
        b=["c[two]; extra == 'one'", "a"],
        c=["d; extra == 'two'", "b[three]; extra == 'two'"],
        d=["d"],
    )
    assert found == {"a": ["b"], "b": ["a", "c"], "c": ["b", "d"], "d": []}


@given(st.lists(st.text(max_size=30)))
def test_any_lines_at_all(lines):
    assert edges(a=lines, b=[])["b"] == []
    gathering_edges.of_conda({"a": lines, "b": ()})


def test_conda_specs():
    needs = {
        "a": ("b >=1,<2", "conda-forge::c", "D=1.0=h0", "__glibc >=2.17", "", "a", "e>=1"),
        **dict.fromkeys("bcde", ()),
    }
    assert sorted(gathering_edges.of_conda(needs)["a"]) == ["b", "c", "d", "e"]


# Models


@pytest.mark.parametrize(
    ("front", "base"),
    [
        ("base_model: Qwen/Qwen3.5-9B-Base", "Qwen/Qwen3.5-9B-Base"),
        ("base_model: 'Qwen/x'  ", "Qwen/x"),
        ("base_model:\n- a/b\n- c/d\nlicense: mit", "a/b, c/d"),
        ("base_model:\n  - a/b\n", "a/b"),
        ("base_model: [a/b, 'c/d']", "a/b, c/d"),
        ("base_model: some words <b>here</b>", ""),
        ("base_model: /home/somebody/model", ""),
        ("license: mit", ""),
        ("base_model:", ""),
    ],
)
def test_the_base_that_a_card_names(front, base):
    assert gathering_models.base_of(f"---\n{front}\n---\nbase_model: not/this\n") == base
    assert gathering_models.base_of(f"---\r\n{front}\r\n---\r\n".replace("\r\n", "\n")) == base
    assert gathering_models.base_of(front) == ""  # no front matter


@pytest.mark.parametrize(
    ("config", "base"),
    [
        (b'{"base_model_name_or_path": "Qwen/x"}', "Qwen/x"),
        (b'{"base_model_name_or_path": "/home/somebody/models/x/"}', "x"),
        (b'{"base_model_name_or_path": null}', ""),
        (b"[]", ""),
        (b"{", ""),
        (b"", ""),
    ],
)
def test_what_an_adapter_was_trained_on(config, base):
    files = (ModelFile("adapter_config.json", 1), ModelFile("weights.safetensors", 1))
    one = Adapter("style", "folder:style", "0" * 40, "served", 8, files)
    assert [file.path for file in gathering_models.papers(one)] == ["adapter_config.json"]
    assert gathering_models.said(one, {"adapter_config.json": config}).base == base


def test_papers_of_a_model():
    paths = ("LICENSE", "README.md", "USE_POLICY.md", "config.json", "sub/NOTICE", "license_plate")
    one = Model("m", "hf:o/m", "0" * 40, tuple(ModelFile(path, 1) for path in paths))
    papers = [file.path for file in gathering_models.papers(one)]
    assert papers == ["LICENSE", "README.md", "USE_POLICY.md", "sub/NOTICE", "license_plate"]


# Package URLs


def test_package_urls_are_those_of_the_specification():
    package = CondaPackage(
        *("absl-py", "0.4.1", "py36h06a4308_0", "linux-64"),
        *("https://repo.example/pkgs/main/linux-64/absl-py-0.4.1-py36h06a4308_0.tar.bz2", "0" * 64),
        1,
    )
    found = PackageURL.from_string(gathering_purls.conda(package)).to_dict()
    assert (found["type"], found["name"], found["version"]) == ("conda", "absl-py", "0.4.1")
    assert found["qualifiers"] == {
        "build": "py36h06a4308_0",
        "channel": "main",
        "checksum": f"sha256:{'0' * 64}",
        "subdir": "linux-64",
        "type": "tar.bz2",
    }
    assert gathering_purls.wheel("torch", "2.9+cpu") == "pkg:pypi/torch@2.9%2Bcpu"
    commit = "559062ad13d311b87b2c455e67dcd5f1c8f65111"
    purl = gathering_purls.model("hf:microsoft/deberta-v3-base", commit)
    assert purl == f"pkg:huggingface/microsoft/deberta-v3-base@{commit}"
    assert gathering_purls.model("folder:my model", "1") == "pkg:generic/my%20model@1"


@pytest.mark.parametrize("url", ["file:linux-64/a-1-0.conda", "host:linux-64/a-1-0.conda"])
def test_a_channel_that_is_a_folder_has_no_name(url):
    package = CondaPackage("a", "1", "0", "linux-64", url, "0" * 64, 1)
    channel = PackageURL.from_string(gathering_purls.conda(package)).to_dict()["qualifiers"]
    assert channel.get("channel", "") == ("host" if url.startswith("host") else "")
