import re
from importlib.metadata import distributions

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler.papers import licences, licences_declared, licences_found
from bundler.papers.licences import MORE, OTHER, SAME
from bundler.plan import spdx
from bundler.plan.licences import family_names, of_identifier
from tests.support import bills
from tests.support.licencetexts import TEXTS


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_texts_are_known_by_their_phrases(name):
    assert licences_found.licences(TEXTS[name]) == (name,)


@pytest.mark.parametrize("name", sorted(TEXTS))
def test_how_a_text_is_laid_out_does_not_count(name):
    altered = TEXTS[name].replace('"', "\u201c").replace(".", " .\n#").replace("(c)", "\u00a9")
    assert licences_found.licences(f"\ufeff{altered.upper()}") == (name,)
    assert licences_found.licences("\r\n".join(altered.split())) == (name,)


def test_the_agreement_of_cuda_s_wheels_is_known():
    preface = """End User License Agreement
--------------------------


Preface
-------

The Software License Agreement in Chapter 1 and the Supplement
in Chapter 2 contain license terms and conditions that govern
the use of NVIDIA software. By accepting this agreement, you
agree to comply with all the terms and conditions applicable to
the product(s) included herein.
"""
    assert licences_found.licences(preface) == (EULA,)


def test_a_file_of_several_licences_holds_them_all():
    together = f"{TEXTS['BSD-2-Clause']}\n----\n{TEXTS['BSD-3-Clause']}\n{TEXTS['MIT']}"
    assert licences_found.licences(together) == ("BSD-2-Clause", "BSD-3-Clause", "MIT")
    turned = f"{TEXTS['MIT']}\n{TEXTS['X11']}\n{TEXTS['BSD-3-Clause']}\n{TEXTS['BSD-2-Clause']}"
    assert licences_found.licences(turned) == ("BSD-2-Clause", "BSD-3-Clause", "MIT", "X11")


@pytest.mark.parametrize(
    "content",
    ["", "\0\x01\ufffd", "This is under the MIT licence, see LICENSE.", "GPL", bills.PROSE],
)
def test_nothing_is_guessed(content):
    assert licences_found.licences(content) == ()


def test_tags_are_believed_when_they_are_expressions():
    content = "# SPDX-License-Identifier: (MIT OR Apache-2.0)\n/* SPDX-License-Identifier: 0BSD */"
    assert licences_found.licences(content) == ("0BSD", "Apache-2.0", "MIT")
    assert licences_found.licences("SPDX-License-Identifier: see (below") == ()
    assert licences_found.licences("SPDX-License-Identifier: MINE") == ()


def test_exceptions_go_with_their_licence_across_files():
    assert licences_found.joined(["GPL-3.0", "GCC-exception-3.1", "MIT"]) == (
        "GPL-3.0 WITH GCC-exception-3.1",
        "MIT",
    )
    assert licences_found.joined(["LLVM-exception"]) == ("Apache-2.0 WITH LLVM-exception",)


def test_every_name_that_can_be_found_is_a_real_one_with_a_family():
    for rule in licences_found._rules():
        assert spdx.known(rule.spdx), rule.spdx
        if rule.spdx not in ("GCC-exception-3.1", "LLVM-exception", "JSON"):
            assert of_identifier(rule.spdx) != "unknown" or rule.spdx.startswith("GFDL"), rule.spdx


def test_what_packages_here_declare_as_an_expression_is_what_their_texts_are():
    """Real packages: this Python's own. Their texts may hold more, of what they brought along."""
    compared = 0
    for one in distributions():
        stated = one.metadata.get("License-Expression", "")
        if not stated or not all(map(spdx.known, spdx.leaves(stated))):
            continue
        texts = [
            str(path.locate().read_text("utf-8", "replace"))
            for path in one.files or ()
            if ".dist-info" in str(path.parent) and re.match("licen[cs]e", path.name, re.IGNORECASE)
        ]
        found = licences_found.joined(
            name for text in texts for name in licences_found.licences(text)
        )
        if found:
            fitting = [name for name in found if licences_declared.fits(name, spdx.leaves(stated))]
            assert fitting or "PSF" in stated, (one.name, stated, found)
            compared += 1
    assert compared >= 10


@pytest.mark.parametrize(
    ("declared", "identifiers"),
    [
        ("MIT", ("MIT",)),
        ("mit", ("mit",)),
        ("MIT License and Apache Software License", ("MIT", "Apache-*")),
        ("BSD", ("BSD-*",)),
        ("PSF-2.0", ("PSF-2.0", "Python-2.0")),
        ("LicenseRef-NVIDIA-Proprietary", ("LicenseRef-NVIDIA-*",)),
        ("Apache-2.0 WITH LLVM-exception", ("Apache-2.0 WITH LLVM-exception",)),
        ("GNU Lesser General Public License v3 (LGPLv3)", ("LGPL-*",)),
        ("other", ()),
        ("Dual License", ()),
        ("", ()),
        (bills.PROSE, ()),
        (TEXTS["MIT"], ("MIT",)),
    ],
)
def test_declared_words_become_identifiers(declared, identifiers):
    assert licences_declared.identifiers(bills.wheel("a", declared=declared)) == identifiers


EULA = "LicenseRef-NVIDIA-End-User-License-Agreement"
GCC = ("GPL-3.0", "GCC-exception-3.1")


def line(declared: str, *found: str, **changes):
    texts = tuple(bills.text(f"licenses/{name}", TEXTS[name]) for name in found)
    component = bills.wheel("a", declared=declared, texts=texts, **changes)
    return licences.read(bills.bill(components=(component,))).lines[0]


@pytest.mark.parametrize(
    ("declared", "found", "agreement", "beyond"),
    [
        ("MIT", ["MIT"], SAME, ()),
        ("MIT OR Apache-2.0", ["MIT"], SAME, ()),
        ("BSD License", ["BSD-3-Clause"], SAME, ()),
        ("GPL-3.0-or-later", ["GPL-3.0"], SAME, ()),
        ("GPL-3.0-only WITH GCC-exception-3.1", ["GPL-3.0", "GCC-exception-3.1"], SAME, ()),
        ("BSD-3-Clause", ["BSD-3-Clause", "MIT"], MORE, ("MIT",)),
        ("MIT", ["BSD-3-Clause"], OTHER, ("BSD-3-Clause",)),
        ("MIT", [], "", ()),
        ("", ["MIT"], "", ()),
        (bills.PROSE, ["MIT"], "", ()),
    ],
)
def test_declared_and_found_are_compared(declared, found, agreement, beyond):
    found = line(declared, *found)
    assert (found.agreement, found.beyond) == (agreement, beyond)


@pytest.mark.parametrize(
    ("declared", "found", "eyes"),
    [
        ("MIT", ["MIT"], ()),
        ("MIT", ["MIT", "BSD-3-Clause"], ()),  # more, but nothing that asks more
        ("MIT", ["MIT", "LGPL-2.1"], ("different",)),
        ("MIT", ["Apache-2.0"], ("different",)),
        ("NVIDIA Proprietary Software", [], ("nvidia",)),
        ("Other/Proprietary License", [EULA], ("nvidia",)),
        ("LicenseRef-Intel-Something", [], ("proprietary",)),
        ("GPL-3.0-only WITH GCC-exception-3.1", [], ("exception",)),
        ("BSD-3-Clause", ["BSD-3-Clause", *GCC], ("exception", "different")),
        ("GPL-3.0-only", ["GPL-3.0"], ("strong",)),
        ("MPL-2.0", ["MPL-2.0"], ("weak",)),
        ("", [], ("nothing",)),
        ("", ["GPL-3.0"], ("strong", "nothing")),
        (bills.PROSE, [], ("prose",)),
    ],
)  # fmt: skip
def test_what_needs_a_look_and_why(declared, found, eyes):
    assert line(declared, *found).eyes == eyes


def test_models_are_always_looked_at():
    report = licences.read(bills.bill())
    assert [one.component.name for one in report.looked_at("models")] == ["style", "Qwen3.5-9B"]
    (model,) = licences.read(bills.bill(components=(bills.model(declared="qwen"),))).lines
    assert (model.family, model.eyes) == ("proprietary", ("models",))


def test_the_family_of_what_states_nothing_is_that_of_its_texts():
    assert line("", "MIT").family == "permissive"
    assert line("", "MIT", "GPL-3.0").family == "strong copyleft"
    assert line("").family == "unknown"
    assert line("MIT", "GPL-3.0").family == "permissive"  # as declared, and told as different


def test_each_text_is_there_once_with_everything_that_carries_it():
    text = bills.text("licenses/LICENSE", TEXTS["MIT"])
    other = bills.text("LICENSE.txt", TEXTS["MIT"])
    components = (
        bills.wheel("a", texts=(text, bills.text("NOTICE", "Hello"))),
        bills.wheel("b", texts=(other,)),
        bills.wheel("b", "2.0", texts=(text,)),  # two components of one name
    )
    report = licences.read(bills.bill(components=components))
    notice, mit = report.texts
    assert mit.licences == ("MIT",) and notice.licences == ()
    assert mit.carried == (
        ("environment/wheel/a@1.0", "licenses/LICENSE"),
        ("environment/wheel/b@1.0", "LICENSE.txt"),
        ("environment/wheel/b@2.0", "licenses/LICENSE"),
    )


def test_families_count_every_component():
    report = licences.read(bills.bill())
    assert sum(report.families.values()) == len(report.lines)
    assert list(report.families) == [name for name in family_names() if name in report.families]


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_metadata_and_no_text_are_too_odd(declared, content):
    component = bills.wheel("a", declared=declared, texts=(bills.text("LICENSE", content),))
    (found,) = licences.read(bills.bill(components=(component,))).lines
    assert found.family in family_names()


@given(
    st.one_of(
        st.text(max_size=100),
        st.lists(st.sampled_from(["MIT", "GPL-2.0+", "AND", "OR", "WITH", "(", ")", "+"])).map(
            " ".join
        ),
    )
)
def test_what_is_no_expression_is_a_value_error(text):
    try:
        names = spdx.leaves(text)
    except ValueError:
        return
    assert names and all(names)


def test_expressions_nested_too_deeply_are_none():
    assert spdx.leaves("(" * 50 + "MIT" + ")" * 50) == ("MIT",)
    with pytest.raises(ValueError, match="no identifier"):
        spdx.leaves("MIT BSD")
