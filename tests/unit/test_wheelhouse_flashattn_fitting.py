"""Wheels judged by what is in them: made to order, with real ELF and fatbin structures."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import IntegrityError, TargetError, UsageError
from manifests.lock import COMPUTED, Target
from tests.support import elves
from tests.support.gpucode import container
from tests.support.index import wheel
from wheelhouse.flashattn import inspect
from wheelhouse.flashattn.fitting import glibc_floor, name_of
from wheelhouse.store import Store

VERSION = "2.8.3.post2"
LOCAL = "cu128torch2.10cxx11abitrue.sm80"
TAG = "cp312-cp312-linux_x86_64"
LIBRARY = "flash_attn_2_cuda.cpython-312-x86_64-linux-gnu.so"
NEEDED = ("libc10.so", "libtorch_cpu.so", "libcudart.so.12", "libc.so.6")
SYMBOL = "_ZN3c1021throwNullDataPtrErrorEv"
TARGET = Target(gpus=("sm_86",), glibc="2.35", python="3.12", driver="570.86")


def extension(*units, needed=NEEDED, glibc="2.14", imports=(), machine=62):
    """The extension with one container per unit, as the reader finds them without sections."""
    data = elves.library(
        needed, wants={"libc.so.6": [f"GLIBC_{glibc}"]}, imports=imports, machine=machine
    )
    for unit in units or (("sm_80",),):
        data += bytes(-len(data) % 8) + container(*unit)
    return data


@pytest.fixture
def judge(tmp_path):
    def judged(
        library=None, *, name="flash-attn", version=VERSION, local=LOCAL, tag=TAG, target=TARGET,
        torch_place=None, rename="", **fields,
    ):  # fmt: skip
        full = f"{version}+{local}" if local else version
        files = {} if library == b"" else {LIBRARY: library or extension()}
        filename, data = wheel(name, full, tag, files=files, **fields)
        path = tmp_path / (rename or filename)
        path.write_bytes(data)
        return inspect(
            path, target, version=VERSION, torch="2.10.0", cuda="12.8",
            store=Store(tmp_path / "objects"), torch_place=torch_place,
        )  # fmt: skip

    return judged


def refused(judge, *words, error=TargetError, **changes):
    with pytest.raises(error) as caught:
        judge(**changes)
    said = " ".join((caught.value.what, *caught.value.findings))
    for word in words:
        assert word in said, said
    return caught.value


def test_one_that_fits_is_taken_and_says_that_nobody_vouches_for_it(judge, tmp_path):
    taken = judge()
    assert (taken.name, taken.version) == ("flash-attn", f"{VERSION}+{LOCAL}")
    assert taken.digest_from == COMPUTED
    assert taken.url == f"file:{taken.filename}"
    stored = Store(tmp_path / "objects").path(taken.sha256)
    assert stored.read_bytes() == (tmp_path / taken.filename).read_bytes()
    assert taken.size == stored.stat().st_size


def test_names_like_those_of_upstream_are_understood(judge):
    assert judge(local="cu12torch2.10cxx11abiTRUE".lower())
    assert judge(local="")


def test_three_differences_in_the_name_are_three_findings(judge):
    error = refused(judge, local="cu13torch2.4cxx11abifalse")
    assert len(error.findings) == 3
    assert "its name says torch 2.4, the stack has 2.10" in error.findings
    assert "its name says CUDA 13, torch is built with 12.8" in error.findings
    assert any("old C++ ABI" in finding for finding in error.findings)


def test_another_project_version_python_or_machine_is_named(judge):
    refused(
        judge, "holds flash-linear, flash-attn is needed", error=UsageError, name="flash-linear"
    )
    refused(judge, "flash-attn 2.7.4, the stack goes with 2.8.3.post2", version="2.7.4")
    refused(
        judge, "built for cp311-cp311, the target has Python 3.12", tag="cp311-cp311-linux_x86_64"
    )
    refused(judge, "the target is x86_64", tag="cp312-cp312-linux_aarch64")
    refused(judge, "code for aarch64", library=extension(machine=183))


def test_the_tag_is_believed_only_where_it_asks_for_more(judge):
    refused(judge, "asks for glibc 2.39", tag="cp312-cp312-manylinux_2_39_x86_64")
    assert judge(tag="cp312-cp312-manylinux_2_28_x86_64")


def test_a_newer_glibc_than_its_tag_admits_is_found_in_the_file(judge):
    target = Target(gpus=("sm_86",), glibc="2.31", python="3.12")
    refused(judge, "GLIBC_2.32", LIBRARY, "2.31", library=extension(glibc="2.32"), target=target)
    assert judge(library=extension(glibc="2.32"))


def test_it_has_to_be_linked_to_torch_and_to_its_cuda(judge):
    refused(
        judge,
        "linked to libcudart.so.13",
        library=extension(needed=("libtorch_cpu.so", "libcudart.so.13")),
    )
    refused(
        judge, "no library that is linked to torch", library=extension(needed=("libcudart.so.12",))
    )
    error = refused(judge, "no library that is linked", library=b"")
    assert any("holds no GPU code" in finding for finding in error.findings)


@pytest.mark.parametrize(
    ("gpus", "units", "missing"),
    [
        (("sm_86",), [["sm_80"], ["sm_80"]], ""),
        (("sm_89", "sm_86"), [["sm_80"]], ""),
        (("sm_86",), [["sm_90"]], "no code for sm_86 in 1 of 1 units (it holds sm_90)"),
        (("sm_86", "sm_120"), [["sm_80"]], "no code for sm_120"),
        (("sm_86", "sm_120"), [["sm_80", "sm_120"]], ""),
        # The union over the file would do; one unit has nothing.
        (("sm_86",), [["sm_80"], ["sm_80", "sm_90"], ["sm_90"]], "in 1 of 3 units"),
        (("sm_90",), [["sm_90a"]], ""),
        (("sm_75",), [["sm_80"]], "no code for sm_75"),
    ],
)
def test_every_unit_needs_code_for_every_gpu(judge, gpus, units, missing):
    target = Target(gpus=gpus, glibc="2.35", python="3.12")
    if missing:
        refused(judge, missing, library=extension(*units), target=target)
    else:
        assert judge(library=extension(*units), target=target)


def test_symbols_are_compared_with_those_of_the_locked_torch(judge, tmp_path):
    libraries = tmp_path / "torch/lib"
    libraries.mkdir(parents=True)
    (libraries / "libc10.so").write_bytes(elves.library(soname="libc10.so", exports=[SYMBOL]))
    fitting = extension(imports=[SYMBOL, "memcpy", "_ZNSt6vectorIiE3fooEv"])
    assert judge(library=fitting, torch_place=libraries)
    (libraries / "libc10.so").write_bytes(elves.library(soname="libc10.so", exports=["other"]))
    refused(
        judge, "1 symbols that torch 2.10.0 lacks", SYMBOL, library=fitting, torch_place=libraries
    )
    # Only torch's own libraries count.
    (libraries / "libother.so").write_bytes(elves.library(exports=[SYMBOL]))
    refused(judge, SYMBOL, library=fitting, torch_place=libraries)


def test_a_damaged_or_renamed_wheel_is_refused(judge, tmp_path):
    renamed = f"flash_attn-{VERSION}+cu128torch2.10cxx11abitrue.sm90-{TAG}.whl"
    refused(judge, "METADATA states version", error=IntegrityError, rename=renamed)
    wrong = {LIBRARY: f"{LIBRARY},sha256=AAAA,1\n"}
    refused(judge, "not the ones in its RECORD", error=IntegrityError, record=wrong)
    path = tmp_path / f"flash_attn-{VERSION}-{TAG}.whl"
    path.write_text("an error page of a proxy")
    with pytest.raises(IntegrityError, match="not a sound wheel"):
        inspect(
            path, TARGET, version=VERSION, torch="2.10.0", cuda="12.8", store=Store(tmp_path / "o")
        )
    refused(judge, "not the name of a wheel", error=UsageError, rename="flash_attn.whl")


def test_a_file_that_is_not_there_is_said(tmp_path):
    path = tmp_path / f"flash_attn-{VERSION}-{TAG}.whl"
    with pytest.raises(UsageError, match="no such file"):
        inspect(path, TARGET, version=VERSION, torch="2.10.0", cuda="12.8", store=Store(tmp_path))


@given(st.text() | st.from_regex(r"flash_attn-[0-9.+a-z]{1,20}(-[a-z0-9_.]{1,9}){0,5}\.whl"))
def test_whatever_a_file_is_called_it_is_read_or_refused(name):
    try:
        assert name_of(name)[0] == "flash-attn"
    except UsageError as error:
        assert error.what.startswith(name)


def test_the_floor_is_read_from_the_files(tmp_path):
    filename, data = wheel("flash-attn", VERSION, TAG, files={LIBRARY: extension(glibc="2.32")})
    (tmp_path / filename).write_bytes(data)
    assert glibc_floor(Path(tmp_path / filename)) == "2.32"
