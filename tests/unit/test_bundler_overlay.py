"""What an inventory decides about a bundle, held against one that was recorded on a real host."""

import dataclasses
import json
from pathlib import Path

import pytest

from bundler import conda, gates, overlay
from bundler.request import Request
from manifests import choice, inventory, stack
from manifests.errors import TargetError, UsageError
from manifests.lock import CondaPackage, Target
from manifests.overlay import Overlay, Provided
from tests.support.elves import library
from tests.support.locked import a_lock
from wheelhouse import elf

RECORDED = Path("tests/data/inventory/torch-2.11.0-cu130.json")
FOUND = inventory.load(RECORDED)
STACK = stack.named("vllm-0.20.2-cu130")
TARGET = Target(("sm_90",), "2.39", "3.12", driver="580.159")
ASKED = Request(gpu="sm_90", model="m", output=Path(), channel="host", overlay=RECORDED)


def other(name, **changes):
    """The inventory with one distribution changed."""
    found = [
        dataclasses.replace(one, **changes) if one.name == name else one
        for one in FOUND.distributions
    ]
    return dataclasses.replace(FOUND, distributions=tuple(found))


def python(**changes):
    return dataclasses.replace(FOUND, interpreter=dataclasses.replace(FOUND.interpreter, **changes))


def locked(over):
    return dataclasses.replace(a_lock(), overlay=over)


def test_python_and_glibc_follow_from_it():
    filled = overlay.filled(ASKED, FOUND)
    assert (filled.python, filled.glibc) == ("3.12", "2.39")
    said = dataclasses.replace(ASKED, glibc="2.35", python="3.12")
    assert overlay.filled(said, FOUND).glibc == "2.35"
    assert overlay.filled(ASKED, None) is ASKED


def test_another_python_than_the_environment_s_is_a_contradiction():
    with pytest.raises(UsageError, match=r"has Python 3\.12"):
        overlay.filled(dataclasses.replace(ASKED, python="3.11"), FOUND)


@pytest.mark.parametrize(
    ("found", "reported", "text"),
    [
        (python(soabi="cpython-312d-x86_64-linux-gnu"), False, "312d"),
        (python(soabi="pypy310-pp73"), False, "pypy310"),
        (
            dataclasses.replace(FOUND, platform=inventory.Platform("aarch64", "2.39")),
            True,
            "a machine of type aarch64",
        ),
    ],
)
def test_no_published_wheel_would_load_there(found, reported, text):
    with pytest.raises(TargetError) as caught:
        overlay.placed(TARGET, found, reported=reported)
    assert text in caught.value.what
    assert caught.value.mend


def test_the_stack_that_was_made_for_what_is_there_is_chosen():
    assert overlay.against(FOUND)(STACK) == ()
    assert choice.choose(TARGET, against=overlay.against(FOUND)).stack == STACK
    # Without it a newer one would be.
    assert choice.choose(TARGET).stack != STACK


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("torch", "2.10.0"),
        ("torch", "2.11.0a0+vendor.26"),
        ("torch", "2.11.0+cu128"),
        ("torch", "2.11.0+cpu"),
        ("torch", "2.11.0+rocm6.4"),
        ("torch", "2.11.0+xpu"),
        ("torch", "what?"),
        ("triton", "3.5.0"),
        ("nvidia-cudnn-cu13", "9.1"),
    ],
)
def test_libraries_that_a_process_has_once_must_be_those_of_the_stack(name, version):
    with pytest.raises(TargetError) as caught:
        overlay.check(STACK, other(name, version=version))
    (finding,) = caught.value.findings
    assert f"made for {name} {STACK.versions[name]}" in finding
    assert version in finding


@pytest.mark.parametrize(
    ("name", "version"), [("torch", "2.11.0+cu130"), ("transformers", "4.0"), ("numba", "0.1")]
)
def test_what_can_be_hidden_may_be_of_any_version(name, version):
    overlay.check(STACK, other(name, version=version))


def test_a_lock_keeps_what_is_provided_with_its_digests():
    kept = overlay.of(FOUND, ("torch", "numpy"))
    assert [one.name for one in kept.provided] == ["numpy", "torch"]
    assert all(one.record_sha256 for one in kept.provided)
    assert overlay.of(None, ()) is None


def test_a_lock_is_followed_with_the_inventory_it_was_made_with():
    over = overlay.of(FOUND, ("torch", "numpy"))
    overlay.follow(locked(over), FOUND, "a.lock")
    overlay.follow(locked(None), None, "a.lock")
    for lock, found in ((locked(over), None), (locked(None), FOUND)):
        with pytest.raises(UsageError, match="--overlay"):
            overlay.follow(lock, found, "a.lock")
    with pytest.raises(TargetError) as caught:
        overlay.follow(locked(over), other("numpy", version="1.0"), "a.lock")
    assert caught.value.findings == ("numpy is 1.0, needed is 2.5.2",)


def test_flash_attn_is_not_built_for_an_overlay():
    with pytest.raises(UsageError, match="--with-flash-attn"):
        overlay.read(dataclasses.replace(ASKED, with_flash_attn=True))


def test_the_contents_of_an_overlay_have_a_python_that_is_not_packed():
    over = Overlay("3.12.3", "cpython-312-x86_64-linux-gnu", (Provided("torch", "2.11.0", ""),))
    lock = locked(over)
    made = overlay.contents(lock, lock.wheels, STACK, FOUND)
    assert {p.name for p in made.python} == (
        {p.name for p in lock.runtime_conda} - {p.name for p in lock.conda}
    )
    assert [one.name for one in made.provided] == ["torch"]
    assert overlay.contents(locked(None), lock.wheels, STACK, None).python == ()


def test_libraries_of_the_host_s_environment_count_as_there(tmp_path):
    wanted = library(["libtorch.so", "libz.so.1", "libgone.so"])
    (tmp_path / "_C.so").write_bytes(wanted)
    over = overlay.of(FOUND, ("torch",))
    there = overlay.beneath(locked(over), FOUND)
    judged = elf.judge(elf.scan(tmp_path), beneath=there.libraries)
    assert [finding.what for finding in judged.errors] == ["libgone.so is supplied by nothing"]
    assert overlay.beneath(locked(None), FOUND) == gates.NOTHING
    assert there.distributions == {"torch"}


def test_conda_packages_are_taken_out_again_with_their_folders(tmp_path):
    def package(name, *files):
        for path in files:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(name)
        (tmp_path / "conda-meta").mkdir(exist_ok=True)
        record = json.dumps({"files": files})
        (tmp_path / f"conda-meta/{name}-1-0.json").write_text(record)
        return CondaPackage(name, "1", "0", "noarch", f"host:noarch/{name}-1-0.conda", "0" * 64, 0)

    python = package("python", "bin/python", "lib/python3.12/os.py", "lib/gone.so")
    package("libgcc", "lib/libgcc_s.so.1")
    (tmp_path / "lib/gone.so").unlink()
    conda.remove([python], tmp_path)
    left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    assert left == ["conda-meta", "conda-meta/libgcc-1-0.json", "lib", "lib/libgcc_s.so.1"]
