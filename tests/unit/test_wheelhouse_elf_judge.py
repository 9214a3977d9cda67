"""What stops a bundle, and what is only said, on environments of small libraries."""

import json
from pathlib import Path

import click.testing
import pytest

from bundler.commands.elf import command
from manifests.errors import TargetError, UsageError
from manifests.exitcodes import ExitCode
from manifests.records import from_data, to_data
from tests.support.elves import library
from tests.support.index import wheel
from wheelhouse.elf import (
    ElfFile,
    ElfInventory,
    Floor,
    Judgement,
    floors,
    judge,
    require,
    scan,
)
from wheelhouse.elf.libraries import known

SITE = "lib/python3.11/site-packages"
WINNING = ("libstdc++.so.6", "libgcc_s.so.1")
CXX = library(["libc.so.6"], soname="libstdc++.so.6", defines=["GLIBCXX_3.4.29", "CXXABI_1.3.13"])
GCC = library(["libc.so.6"], soname="libgcc_s.so.1", defines=["GCC_3.0"])
PYTHON = library(["libc.so.6"], rpath="$ORIGIN/../lib", interpreter="/lib64/ld-linux-x86-64.so.2")
GOOD = {"bin/python3.11": PYTHON, "lib/libstdc++.so.6": CXX, "lib/libgcc_s.so.1": GCC}


def environment(root: Path, files: dict[str, bytes | str]) -> Path:
    """bytes → file, str → link."""
    for path, value in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(value, str):
            (root / path).symlink_to(value)
        else:
            (root / path).write_bytes(value)
    return root


def judged(
    root: Path, files: dict[str, bytes | str], glibc: str = "2.31", base: dict[str, bytes] = GOOD
) -> Judgement:
    return judge(scan(environment(root, {**base, **files})), glibc=glibc, winning=WINNING)


def only_error(judgement: Judgement) -> str:
    (finding,) = judgement.errors
    return finding.text()


def notes(judgement: Judgement, kind: str) -> list[str]:
    return [finding.text() for finding in judgement.notes if finding.kind == kind]


def test_a_good_environment_has_no_findings(tmp_path):
    module = library(["libstdc++.so.6", "libc.so.6"], wants={"libc.so.6": ["GLIBC_2.31"]})
    assert judged(tmp_path, {f"{SITE}/x.so": module}) == Judgement()


# glibc


FLASH = f"{SITE}/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so"


def test_a_newer_glibc_than_the_target_has_stops(tmp_path):
    late = library(["libc.so.6"], wants={"libc.so.6": ["GLIBC_2.17", "GLIBC_2.32"]})
    judgement = judged(tmp_path, {FLASH: late})
    assert only_error(judgement) == f"GLIBC_2.32 is wanted, the target has glibc 2.31: {FLASH}"
    with pytest.raises(TargetError) as caught:
        require(judgement)
    assert caught.value.findings == (only_error(judgement),)


@pytest.mark.parametrize("glibc", ["2.32", "2.35", "2.100", ""])
def test_a_new_enough_or_unknown_glibc_does_not(tmp_path, glibc):
    late = library(["libc.so.6"], wants={"libc.so.6": ["GLIBC_2.32"]})
    judgement = judged(tmp_path, {FLASH: late}, glibc)
    assert judgement.errors == ()
    require(judgement)


def test_versions_without_a_number_have_a_release(tmp_path):
    packed = library(["libc.so.6"], wants={"libc.so.6": ["GLIBC_ABI_DT_RELR"]})
    assert only_error(judged(tmp_path / "a", {"lib/x.so": packed}, "2.35"))
    assert judged(tmp_path / "b", {"lib/x.so": packed}, "2.36").errors == ()
    strange = library(["libc.so.6"], wants={"libc.so.6": ["GLIBC_ABI_WHAT"]})
    assert "unknown glibc" in only_error(judged(tmp_path / "c", {"lib/x.so": strange}, "9.9"))


def test_optional_files_are_notes(tmp_path):
    path = f"{SITE}/bitsandbytes/libbitsandbytes_xpu2025.so"
    late = library(["libc.so.6", "libsycl.so.8"], wants={"libc.so.6": ["GLIBC_2.32"]})
    judgement = judged(tmp_path, {path: late})
    assert judgement.errors == ()
    (note,) = notes(judgement, "optional")
    assert "GLIBC_2.32, libsycl.so.8" in note
    assert path in note


def test_an_optional_file_may_lack_only_what_the_table_names(tmp_path):
    path = f"{SITE}/numba/np/ufunc/omppool.so"
    judgement = judged(tmp_path, {path: library(["libgomp.so.1.0.0", "libother.so"])})
    assert only_error(judgement).startswith("libother.so is supplied by nothing")
    assert len(notes(judgement, "optional")) == 1


# Symbol versions of the environment's own libraries


def test_a_libstdcxx_that_is_too_old_stops(tmp_path):
    module = library(["libstdc++.so.6"], wants={"libstdc++.so.6": ["CXXABI_1.3.15"]})
    assert only_error(judged(tmp_path, {f"{SITE}/x.so": module})) == (
        f"CXXABI_1.3.15 is wanted, lib/libstdc++.so.6 does not have it: {SITE}/x.so"
    )


def test_the_library_that_wins_is_the_one_compared(tmp_path):
    """A RUNPATH comes after LD_LIBRARY_PATH, a DT_RPATH before."""
    newer = library(soname="libstdc++.so.6", defines=["CXXABI_1.3.15"])
    wants = {"libstdc++.so.6": ["CXXABI_1.3.15"]}
    files = {
        f"{SITE}/own/libstdc++.so.6": newer,
        f"{SITE}/own/late.so": library(["libstdc++.so.6"], runpath="$ORIGIN", wants=wants),
        f"{SITE}/own/early.so": library(["libstdc++.so.6"], rpath="$ORIGIN", wants=wants),
    }
    judgement = judged(tmp_path, files)
    assert only_error(judgement).endswith(f": {SITE}/own/late.so")
    assert any("early.so" in note for note in notes(judgement, "search"))
    assert len(notes(judgement, "twice")) == 1


@pytest.mark.parametrize("link", [True, False])
def test_a_winning_library_needs_its_name(tmp_path, link):
    base = {path: data for path, data in GOOD.items() if "libstdc++" not in path}
    files: dict[str, bytes | str] = {"lib/libstdc++.so.6.0.33": CXX}
    if link:
        files["lib/libstdc++.so.6"] = "libstdc++.so.6.0.33"
    judgement = judged(tmp_path, files, base=base)
    if link:
        assert judgement.errors == ()
    else:
        assert "lib/libstdc++.so.6" in only_error(judgement)


# Who supplies what


def test_what_nothing_supplies_stops(tmp_path):
    path = f"{SITE}/vllm/_C.abi3.so"
    judgement = judged(tmp_path, {path: library(["libnuma.so.1"])})
    assert only_error(judgement) == f"libnuma.so.1 is supplied by nothing: {path}"


@pytest.mark.parametrize("name", ["libc.so.6", "ld-linux-x86-64.so.2", "libcuda.so.1"])
def test_glibc_and_the_driver_supply_theirs(tmp_path, name):
    assert judged(tmp_path, {f"{SITE}/x.so": library([name])}) == Judgement()


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"runpath": "$ORIGIN/../x.libs"}, f"{SITE}/x.libs/libfoo.so.1"),
        ({"runpath": "${ORIGIN}"}, f"{SITE}/x/libfoo.so.1"),
        ({"rpath": "/nowhere:$ORIGIN/../../../.."}, "lib/libfoo.so.1"),
        ({}, "lib/libfoo.so.1"),  # by the interpreter's own DT_RPATH
    ],
)
def test_search_paths_are_followed(tmp_path, options, place):
    files = {f"{SITE}/x/x.so": library(["libfoo.so.1"], **options), place: library()}
    judgement = judged(tmp_path, files)
    assert judgement.errors == ()
    assert notes(judgement, "order") == []


def test_a_runpath_hides_the_interpreters(tmp_path):
    files = {
        f"{SITE}/x/x.so": library(["libfoo.so.1"], runpath="$ORIGIN"),
        "lib/libfoo.so.1": library(),
    }
    (note,) = notes(judged(tmp_path, files), "order")
    assert note.startswith("libfoo.so.1 is found only where lib/libfoo.so.1 was loaded before")


def test_libraries_that_torch_loads_first_are_supplied(tmp_path):
    files = {
        f"{SITE}/nvidia/cuda_runtime/lib/libcudart.so.12": library(soname="libcudart.so.12"),
        f"{SITE}/vllm/_C.abi3.so": library(["libcudart.so.12"]),
    }
    judgement = judged(tmp_path, files)
    assert judgement.errors == ()
    assert len(notes(judgement, "order")) == 1


# Two of one kind


def cuda(release: int) -> dict[str, bytes | str]:
    name = f"libcudart.so.{release}"
    return {f"{SITE}/nvidia/cu{release}/lib/{name}": library(soname=name)}


def test_the_cuda_release_that_is_there_is_named(tmp_path):
    files = {**cuda(12), f"{SITE}/srv/_C.so": library(["libcudart.so.13"])}
    text = only_error(judged(tmp_path, files))
    assert text.startswith("libcudart.so.13 is supplied by nothing (there is libcudart.so.12)")
    assert f"{SITE}/srv/_C.so" in text


def test_two_cuda_releases_that_are_asked_for_stop(tmp_path):
    files = {
        **cuda(12),
        **cuda(13),
        f"{SITE}/srv/_C.so": library(["libcudart.so.13"]),
        f"{SITE}/torch/lib/libtorch_cuda.so": library(["libcudart.so.12"]),
    }
    texts = [finding.text() for finding in judged(tmp_path, files).errors]
    mixed = "CUDA 12 and CUDA 13 are mixed"
    assert texts == [
        f"{mixed}: libcudart.so.12, of CUDA 12, is wanted by: {SITE}/torch/lib/libtorch_cuda.so",
        f"{mixed}: libcudart.so.13, of CUDA 13, is wanted by: {SITE}/srv/_C.so",
    ]


def test_two_cuda_releases_of_which_one_is_asked_for_are_a_note(tmp_path):
    files = {**cuda(12), **cuda(13), f"{SITE}/srv/_C.so": library(["libcudart.so.13"])}
    judgement = judged(tmp_path, files)
    assert judgement.errors == ()
    assert len(notes(judgement, "mixed")) == 1


def test_variants_for_each_cuda_release_do_not_mix(tmp_path):
    files = {
        f"{SITE}/bitsandbytes/libbitsandbytes_cuda{release}0.so": library(
            [f"libcudart.so.{release}", f"libcublas.so.{release}"]
        )
        for release in (12, 13)
    }
    assert judged(tmp_path, {**cuda(12), **files}).errors == ()


def test_generations_are_told_apart():
    (release,) = (rule for rule in known().exclusive if rule.what == "CUDA")
    names = ["libcublas.so.12", "libcufft.so.12", "libcufft.so.11", "libcurand.so.10", "libc.so.6"]
    assert [release.of(name) for name in names] == ["12", "13", "12", "", ""]


def test_one_name_in_two_folders_is_told(tmp_path):
    first, other = library(build_id=b"1234"), library(build_id=b"5678")
    asking = library(["libnccl.so.2"])
    files = {f"{SITE}/a/libnccl.so.2": first, f"{SITE}/x.so": asking}
    judgement = judged(tmp_path / "same", {**files, f"{SITE}/b/libnccl.so.2": first})
    assert notes(judgement, "twice") == []
    judgement = judged(tmp_path / "other", {**files, f"{SITE}/b/libnccl.so.2": other})
    (note,) = notes(judgement, "twice")
    assert f"{SITE}/a/libnccl.so.2, {SITE}/b/libnccl.so.2" in note


def test_renamed_copies_are_not_two(tmp_path):
    files = {
        "lib/libz.so.1": library(soname="libz.so.1", build_id=b"1"),
        f"{SITE}/x.libs/libz-1a2b.so.1": library(soname="libz-1a2b.so.1", build_id=b"2"),
        f"{SITE}/x/x.so": library(["libz-1a2b.so.1"], runpath="$ORIGIN/../x.libs"),
        f"{SITE}/y.so": library(["libz.so.1"]),
    }
    assert judged(tmp_path, files) == Judgement()


# Search paths, and files for others


@pytest.mark.parametrize("entry", ["/build/lib", "/tmp/lib", "", "lib"])
def test_search_paths_that_lead_out_are_told(tmp_path, entry):
    (note,) = notes(
        judged(tmp_path, {f"{SITE}/x.so": library(runpath=f"$ORIGIN:{entry}")}), "search"
    )
    assert f"{SITE}/x.so" in note
    assert (entry or "working folder") in note


def test_files_for_other_machines_are_told(tmp_path):
    (note,) = notes(judged(tmp_path, {f"{SITE}/x.so": library(machine=183)}), "other")
    assert note == f"made for aarch64: {SITE}/x.so"


def test_libraries_of_the_driver_are_told(tmp_path):
    path = f"{SITE}/nvidia/compat/libcuda.so.1"
    (note,) = notes(judged(tmp_path, {path: library(soname="libcuda.so.1")}), "other")
    assert "driver" in note
    assert path in note


def test_unreadable_files_are_told(tmp_path):
    (note,) = notes(judged(tmp_path, {f"{SITE}/x.so": library(["libc.so.6"])[:200]}), "other")
    assert f"{SITE}/x.so" in note


def test_an_endless_link_ends(tmp_path):
    assert judged(tmp_path, {"lib/liba.so": "libb.so", "lib/libb.so": "liba.so"}) == Judgement()


# Floors and records


def test_floors_name_the_files():
    files = [
        ElfFile(path, "x86_64", versions=inventory_of(library(wants=wants)).files[0].versions)
        for path, wants in {
            "a": {"libc.so.6": ["GLIBC_2.9", "GLIBC_2.10"], "libstdc++.so.6": ["GLIBCXX_3.4"]},
            "b": {"libc.so.6": ["GLIBC_2.10"], "libm.so.6": ["GLIBC_2.10"]},
            "c": {"libc.so.6": ["GLIBC_2.4", "GLIBC_PRIVATE"]},
        }.items()
    ]
    assert floors(files) == (Floor("GLIBC", "2.10", ("a", "b")), Floor("GLIBCXX", "3.4", ("a",)))


def inventory_of(data: bytes) -> ElfInventory:
    from wheelhouse.elf.reader import parse

    found = parse(data, "x.so")
    assert found is not None
    return ElfInventory((found,))


def test_records_survive_json(tmp_path):
    inventory = scan(environment(tmp_path, {**GOOD, "lib/libx.so": "libstdc++.so.6"}))
    assert from_data(ElfInventory, json.loads(json.dumps(to_data(inventory)))) == inventory
    judgement = judge(inventory, glibc="2.31")
    assert from_data(Judgement, json.loads(json.dumps(to_data(judgement)))) == judgement


# The command


def run(*words: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(command, words, standalone_mode=False)


LATE = library(["libc.so.6", "libtorch.so"], wants={"libc.so.6": ["GLIBC_2.32"]})


@pytest.mark.parametrize(
    ("glibc", "code"), [("2.31", ExitCode.TARGET), ("2.35", ExitCode.OK), (None, ExitCode.OK)]
)
def test_the_command_looks_at_a_wheel(tmp_path, glibc, code):
    name, data = wheel("flash-attn", "1.0", files={"flash_attn_2_cuda.so": LATE})
    (tmp_path / name).write_bytes(data)
    flags = ["--glibc", glibc] if glibc else []
    done = run(str(tmp_path / name), "--quiet", *flags)
    assert done.return_value == code
    assert "GLIBC   2.32" in done.output
    assert "flash_attn_2_cuda.so" in done.output
    assert "asked of other packages" in done.output


def test_the_command_gives_json(tmp_path):
    root = environment(tmp_path / "env", {**GOOD, f"{SITE}/x.so": LATE})
    done = run(str(root), "--json", "--glibc", "2.31")
    record = json.loads(done.output)
    assert record["fits"] is False
    assert record["whole"] is True
    assert record["floors"][0] == {
        "family": "GLIBC",
        "version": "2.32",
        "paths": [f"{SITE}/x.so"],
    }
    assert [finding["kind"] for finding in record["judgement"]["errors"]] == ["glibc", "missing"]


@pytest.mark.parametrize("glibc", ["new", "2", "2.x", "²"])
def test_a_glibc_that_is_none_is_a_usage_error(tmp_path, glibc):
    assert isinstance(run(str(tmp_path), "--glibc", glibc).exception, UsageError)


def test_a_path_that_is_none_is_a_usage_error(tmp_path):
    assert isinstance(run(str(tmp_path / "absent")).exception, UsageError)
