"""Where libraries are found: what we say, and what the real loader does with the same files."""

import platform
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.elves import library
from wheelhouse.elf import scan
from wheelhouse.elf.libraries import known
from wheelhouse.elf.loader import Loader, Source

LOADER = Path("/lib64/ld-linux-x86-64.so.2")
FOO = library(["libc.so.6"], soname="libfoo.so.1")
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not LOADER.exists(), reason="glibc's loader for x86-64 only"
)


def by_the_real_loader(root: Path, asker: Path) -> str:
    """The path below the root of the file that is taken for libfoo.so.1; "" for none."""
    listing = subprocess.run(
        [LOADER, "--list", asker],
        env={"LD_LIBRARY_PATH": str(root / "lib")},
        capture_output=True,
        text=True,
        check=False,
    )
    match = re.search(r"libfoo\.so\.1 => (/\S+)", listing.stdout)
    return str(Path(match[1]).resolve().relative_to(root.resolve())) if match else ""


@pytest.mark.parametrize(
    ("options", "places", "answer"),
    [
        ({"runpath": "$ORIGIN"}, ["pkg/libfoo.so.1", "lib/libfoo.so.1"], "lib/libfoo.so.1"),
        ({"rpath": "$ORIGIN"}, ["pkg/libfoo.so.1", "lib/libfoo.so.1"], "pkg/libfoo.so.1"),
        (
            {"rpath": "$ORIGIN", "runpath": "$ORIGIN/b"},
            ["pkg/libfoo.so.1", "pkg/b/libfoo.so.1"],
            "pkg/b/libfoo.so.1",
        ),
        ({"runpath": "/nowhere:$ORIGIN/../x.libs"}, ["x.libs/libfoo.so.1"], "x.libs/libfoo.so.1"),
        ({"runpath": "${ORIGIN}/../x.libs/"}, ["x.libs/libfoo.so.1"], "x.libs/libfoo.so.1"),
        (
            {"runpath": "$ORIGIN/a:$ORIGIN"},
            ["pkg/libfoo.so.1", "pkg/a/libfoo.so.1"],
            "pkg/a/libfoo.so.1",
        ),
        ({"runpath": "$ORIGIN/$LIB"}, ["pkg/libfoo.so.1"], ""),
        ({"runpath": "$ORIGINAL"}, ["pkg/libfoo.so.1"], ""),
        ({}, ["pkg/libfoo.so.1"], ""),
        ({}, ["lib/libfoo.so.1"], "lib/libfoo.so.1"),
        ({"runpath": "$ORIGIN"}, ["pkg/libfoo.so"], ""),
    ],
)
def test_the_real_loader_agrees(tmp_path, options, places, answer):
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_bytes(FOO)
    asker = tmp_path / "pkg/asker.so"
    asker.parent.mkdir(exist_ok=True)
    asker.write_bytes(library(["libfoo.so.1"], **options))
    assert by_the_real_loader(tmp_path, asker) == answer
    assert ours(tmp_path) == answer


def ours(root: Path) -> str:
    inventory = scan(root)
    (asker,) = (file for file in inventory.files if file.name == "asker.so")
    supply = Loader(inventory, known(), ["libfoo.so.1"]).supply(asker, "libfoo.so.1")
    return supply.files[0].path if supply.source is Source.PATH else ""


@pytest.mark.parametrize("target", ["libfoo.so.1.2", "../real/libfoo.so.1.2"])
def test_links_lead_to_the_real_file(tmp_path, target):
    real = (tmp_path / "pkg" / target).resolve()
    real.parent.mkdir(parents=True)
    (tmp_path / "pkg").mkdir(exist_ok=True)
    real.write_bytes(FOO)
    (tmp_path / "pkg/libfoo.so.1").symlink_to(target)
    (tmp_path / "pkg/asker.so").write_bytes(library(["libfoo.so.1"], runpath="$ORIGIN"))
    assert ours(tmp_path) == str(real.relative_to(tmp_path.resolve()))
    assert by_the_real_loader(tmp_path, tmp_path / "pkg/asker.so") == ours(tmp_path)
