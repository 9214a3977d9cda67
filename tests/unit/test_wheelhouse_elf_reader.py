"""Reading ELF files: against pyelftools on real files, against the real loader on small ones."""

import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerDefSection, GNUVerNeedSection
from elftools.elf.segments import InterpSegment, NoteSegment
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.errors import IntegrityError
from tests.support.elves import library
from wheelhouse.elf.inventory import PROGRAM, SHARED, STATIC, ElfFile, VersionNeed
from wheelhouse.elf.reader import parse

FULL = library(
    ["liba.so.1", "libc.so.6"],
    soname="libfull.so.2",
    runpath="$ORIGIN/../lib:/opt/lib:",
    wants={"libc.so.6": ["GLIBC_2.32", "GLIBC_2.2.5"], "liba.so.1": ["A_1"]},
    weak=["GLIBC_2.2.5"],
    defines=["FULL_1", "FULL_2"],
    build_id=b"\xab\xcd",
)


def test_everything_is_read():
    assert parse(FULL, "lib/full.so") == ElfFile(
        "lib/full.so",
        "x86_64",
        SHARED,
        soname="libfull.so.2",
        needed=("liba.so.1", "libc.so.6"),
        runpath=("$ORIGIN/../lib", "/opt/lib", ""),
        versions=(VersionNeed("libc.so.6", ("GLIBC_2.32",)), VersionNeed("liba.so.1", ("A_1",))),
        defines=("FULL_1", "FULL_2"),
        build_id="abcd",
    )


def test_runpath_hides_rpath():
    both = parse(library(rpath="/a", runpath="/b"), "x")
    only = parse(library(rpath="/a:/c"), "x")
    assert both is not None
    assert only is not None
    assert (both.runpath, both.rpath) == (("/b",), False)
    assert (only.runpath, only.rpath) == (("/a", "/c"), True)


def test_a_program_has_an_interpreter():
    loader = "/lib64/ld-linux-x86-64.so.2"
    found = parse(library(interpreter=loader), "bin/x")
    assert found is not None
    assert (found.kind, found.interpreter) == (PROGRAM, loader)


def test_a_static_program_asks_for_nothing():
    data = bytearray(library(["libc.so.6"]))
    data[64 + 56] = 0  # PT_DYNAMIC becomes PT_NULL
    found = parse(bytes(data), "bin/x")
    assert found is not None
    assert (found.kind, found.needed) == (STATIC, ())


@pytest.mark.parametrize("machine", [190, 224, 247])  # CUDA, AMDGPU, BPF: <elf.h>
def test_code_for_devices_is_passed_over(machine):
    assert parse(library(machine=machine), "kernel.cubin") is None


def test_object_files_are_passed_over():
    data = bytearray(library())
    data[16] = 1  # ET_REL
    assert parse(bytes(data), "x.o") is None


def test_other_processors_are_told_by_name():
    data = bytearray(library(machine=3))
    data[4] = 1  # ELFCLASS32
    assert parse(bytes(data), "x.so") == ElfFile("x.so", "i386")


# The real loader takes what we make, and misses what we read.


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the small libraries are for x86-64")
@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"needed": ["libc.so.6"], "wants": {"libc.so.6": ["GLIBC_2.2.5"]}}, ""),
        (
            {"needed": ["libc.so.6"], "wants": {"libc.so.6": ["GLIBC_9.99"]}},
            "GLIBC_9.99' not found",
        ),
        (
            {
                "needed": ["libc.so.6"],
                "wants": {"libc.so.6": ["GLIBC_9.99"]},
                "weak": ["GLIBC_9.99"],
            },
            "",
        ),
        ({"needed": ["libabsent.so.7"]}, "libabsent.so.7"),
    ],
    ids=["fits", "too-new", "weak", "absent"],
)
def test_the_loader_agrees(tmp_path, options, complaint):
    path = tmp_path / "libsmall.so"
    path.write_bytes(library(**options))
    found = parse(path.read_bytes(), path.name)
    assert found is not None
    # In a process of its own: the loader crashes on what it does not expect.
    load = [sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(path)!r})"]
    loaded = subprocess.run(load, capture_output=True, text=True, check=False)
    assert loaded.returncode == (1 if complaint else 0), loaded.stderr
    assert complaint in loaded.stderr
    missing = {"libabsent.so.7", "GLIBC_9.99"} & {*found.needed, *found.wanted}
    assert bool(missing) == bool(complaint)


# pyelftools agrees on real files.


def real_files() -> list[Path]:
    """What this machine has: the interpreter, wheels' extension modules, C and C++ libraries."""
    folders = [Path(sysconfig.get_path("platlib")), Path(sysconfig.get_path("stdlib"))]
    found = [path for folder in folders for path in sorted(folder.rglob("*.so*"))[:15]]
    system = Path("/lib/x86_64-linux-gnu")
    names = ("libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libcrypto.so.3", "libz.so.1")
    found += [system / name for name in names]
    return [Path(sys.executable).resolve(), *(path for path in found if path.is_file())]


def by_pyelftools(path: Path) -> ElfFile:
    with path.open("rb") as handle:
        elf = ELFFile(handle)
        segments = list(elf.iter_segments())
        tags = [t for s in segments if isinstance(s, DynamicSegment) for t in s.iter_tags()]
        search = {t.entry.d_tag: t for t in tags if t.entry.d_tag in ("DT_RPATH", "DT_RUNPATH")}
        sections = list(elf.iter_sections())
        runpath = ""
        if "DT_RUNPATH" in search:
            runpath = search["DT_RUNPATH"].runpath
        elif search:
            runpath = search["DT_RPATH"].rpath
        interpreter = [s.get_interp_name() for s in segments if isinstance(s, InterpSegment)]
        notes = [n for s in segments if isinstance(s, NoteSegment) for n in s.iter_notes()]
        return ElfFile(
            path.name,
            {"EM_X86_64": "x86_64", "EM_AARCH64": "aarch64"}[elf["e_machine"]],
            PROGRAM if interpreter else SHARED,
            soname=next((t.soname for t in tags if t.entry.d_tag == "DT_SONAME"), ""),
            needed=tuple(t.needed for t in tags if t.entry.d_tag == "DT_NEEDED"),
            runpath=tuple(runpath.split(":")) if search else (),
            rpath=set(search) == {"DT_RPATH"},
            versions=tuple(
                VersionNeed(need.name, tuple(v.name for v in versions if not v["vna_flags"] & 2))
                for section in sections
                if isinstance(section, GNUVerNeedSection)
                for need, versions in section.iter_versions()
            ),
            defines=tuple(
                next(iter(names)).name
                for section in sections
                if isinstance(section, GNUVerDefSection)
                for definition, names in section.iter_versions()
                if not definition["vd_flags"] & 1
            ),
            interpreter=next(iter(interpreter), ""),
            build_id=next((n["n_desc"] for n in notes if n["n_type"] == "NT_GNU_BUILD_ID"), ""),
        )


@pytest.mark.parametrize("path", real_files(), ids=lambda path: path.name)
def test_pyelftools_agrees(path):
    assert parse(path.read_bytes(), path.name) == by_pyelftools(path)


def test_there_are_real_files():
    assert len(real_files()) > 10


# Garbage


@given(st.binary(max_size=400))
def test_garbage_is_refused_by_name(data):
    with pytest.raises(IntegrityError, match=r"lib/odd\.so"):
        parse(data, "lib/odd.so")


@settings(max_examples=500)
@given(st.integers(0, len(FULL) - 1), st.binary(min_size=1, max_size=8))
def test_damage_is_read_or_refused_by_name(at, patch):
    data = FULL[:at] + patch + FULL[at + len(patch) :]
    try:
        parse(data, "lib/odd.so")
    except IntegrityError as error:
        assert "lib/odd.so" in error.what


@given(st.integers(0, len(FULL) - 1))
def test_a_cut_file_is_read_or_refused_by_name(length):
    with pytest.raises(IntegrityError, match=r"lib/odd\.so"):
        parse(FULL[:length], "lib/odd.so")


def test_a_forged_chain_ends():
    data = bytearray(FULL)
    at = data.index((0x6FFFFFFF).to_bytes(8, "little")) + 8
    data[at : at + 8] = b"\xff" * 8  # DT_VERNEEDNUM
    with pytest.raises(IntegrityError, match="symbol versions"):
        parse(bytes(data), "lib/odd.so")
