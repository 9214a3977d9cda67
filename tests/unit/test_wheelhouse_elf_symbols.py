"""Symbols that extensions take from torch: missing ones are told, with the file concerned."""

import sys
from pathlib import Path

import pytest
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.errors import TargetError
from tests.support.elves import library
from wheelhouse.elf import Judgement, judge, require, scan
from wheelhouse.elf.findings import OPTIONAL, SYMBOL
from wheelhouse.elf.image import DAMAGE
from wheelhouse.elf.symbols import symbols

# As in a real libc10.so: c10::detail::torchCheckFail with std::string of the new and the old ABI.
NEW = "_ZN3c106detail14torchCheckFailEPKcS2_jRKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
OLD = "_ZN3c106detail14torchCheckFailEPKcS2_jRKSs"
TORCH = library(soname="libc10.so", exports=[NEW])


def place(root: Path, extension: str, imports: list[str], torch: bytes | None = TORCH) -> Path:
    files = {extension: library(["libc10.so", "libc.so.6"], imports=imports)}
    files |= {"torch/lib/libc10.so": torch} if torch else {}
    for path, data in files.items():
        (root / path).parent.mkdir(parents=True)
        (root / path).write_bytes(data)
    return root


def judged(root: Path) -> Judgement:
    found = judge(scan(root))
    # What libraries the place lacks is not the question here.
    kinds = (SYMBOL, OPTIONAL)
    return Judgement(
        tuple(finding for finding in found.errors if finding.kind in kinds),
        tuple(finding for finding in found.notes if finding.kind in kinds),
    )


def test_an_extension_for_this_torch_is_fine(tmp_path):
    assert judged(place(tmp_path, "srv/_C.so", [NEW, "memcpy"])) == Judgement()


@pytest.mark.parametrize(
    ("imports", "more"), [([OLD, NEW, "memcpy"], ""), ([OLD, "_ZN5torch1xEv"], " and 1 more")]
)
def test_an_extension_for_another_torch_is_named(tmp_path, imports, more):
    judgement = judged(place(tmp_path, "flash_attn/flash_attn_2_cuda.so", imports))
    (finding,) = judgement.errors
    assert finding.text() == (
        f"made for another torch; this one lacks {OLD}{more}: flash_attn/flash_attn_2_cuda.so"
    )
    with pytest.raises(TargetError):
        require(judgement)


def test_a_variant_for_another_torch_is_a_note(tmp_path):
    path = "torch_c_dlpack_ext/libtorch_c_dlpack_addon_torch24-cpu.so"
    judgement = judged(place(tmp_path, path, [OLD]))
    assert judgement.errors == ()
    assert judgement.notes[0].paths == (path,)


def test_where_another_library_is_not_there_its_absence_is_the_finding(tmp_path):
    root = place(tmp_path, "srv/_C.so", [])
    (root / "srv/_C.so").write_bytes(library(["libc10.so", "libtorch_cuda.so"], imports=[OLD]))
    assert judged(root) == Judgement()
    assert [finding.kind for finding in judge(scan(root)).errors] == ["missing"]


def test_where_torch_is_not_there_nothing_is_said(tmp_path):
    assert judged(place(tmp_path, "srv/_C.so", [OLD], torch=None)) == Judgement()


def test_an_older_nvjitlink_beside_a_newer_cusparse_is_named(tmp_path):
    for name, data in {
        "libnvJitLink.so.12": library(soname="libnvJitLink.so.12", exports=["__nvJitLinkAdd_12_1"]),
        "libcusparse.so.12": library(["libnvJitLink.so.12"], imports=["__nvJitLinkAdd_12_8"]),
    }.items():
        (tmp_path / name).write_bytes(data)
    (finding,) = judged(tmp_path).errors
    assert "nvJitLink" in finding.what
    assert finding.paths == ("libcusparse.so.12",)


def real_files() -> list[Path]:
    system = Path("/lib/x86_64-linux-gnu")
    names = ("libc.so.6", "libstdc++.so.6", "libgcc_s.so.1", "libz.so.1", "libm.so.6")
    found = [system / name for name in names if (system / name).is_file()]
    return [Path(sys.executable).resolve(), *found]


@pytest.mark.parametrize("path", real_files(), ids=lambda path: path.name)
def test_pyelftools_agrees(path):
    with path.open("rb") as handle:
        (dynamic,) = (s for s in ELFFile(handle).iter_segments() if isinstance(s, DynamicSegment))
        wanted = {
            (symbol.name.encode(), symbol["st_shndx"] != "SHN_UNDEF")
            for symbol in dynamic.iter_symbols()
            if symbol["st_info"]["bind"] != "STB_LOCAL"
        }
    assert {(name, defined) for name, defined, _ in symbols(path.read_bytes())} == wanted


SMALL = library(imports=[OLD], exports=[NEW])


@settings(max_examples=300)
@given(st.integers(0, len(SMALL) - 1), st.binary(min_size=1, max_size=8))
def test_damage_raises_only_what_is_said(at, patch):
    try:
        list(symbols(SMALL[:at] + patch + SMALL[at + len(patch) :]))
    except DAMAGE as error:
        assert str(error)
