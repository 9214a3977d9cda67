"""Binary files of folders, wheels and bundles: the same members, whatever holds them."""

import os
import zipfile
from pathlib import Path

import pytest
import zstandard

from manifests.errors import BundleError, FilesystemError, IntegrityError, UsageError
from tests.support.simulator import Content, Simulator, archive_of
from wheelhouse import members as module
from wheelhouse.members import ELF, members, size_of

TREE: Content = {
    "bin": None,
    "bin/python": ELF + b" the interpreter",
    "lib": None,
    "lib/liba.so": "liba.so.1",
    "lib/liba.so.1": ELF + bytes(range(256)) * 5000,
    "lib/notes.txt": b"\x7fEL",
    "lib/tiny": b"\x7f",
    "lib/empty": b"",
}
FILES = {path: data for path, data in TREE.items() if isinstance(data, bytes)}
BINARIES = {path: data for path, data in FILES.items() if data.startswith(ELF)}


def folder(root: Path) -> Path:
    for path, value in TREE.items():
        if value is None:
            (root / path).mkdir(parents=True)
        elif isinstance(value, str):
            (root / path).symlink_to(value)
        else:
            (root / path).write_bytes(value)
    return root


def wheel(root: Path) -> Path:
    with zipfile.ZipFile(root / "a.whl", "w", zipfile.ZIP_DEFLATED) as out:
        for path, data in FILES.items():
            out.writestr(path, data)
    return root / "a.whl"


def bundle(root: Path) -> Path:
    return Simulator(environment={"bin": None, "bin/conda-unpack": b"", **TREE}).write(root)[0]


def contents(place: Path) -> dict[str, bytes]:
    found = {}
    for member in members(place):
        if not member.target:
            with member.content() as data:
                found[member.path] = data[:]
            assert len(found[member.path]) == member.size
    return found


@pytest.mark.parametrize("make", [folder, wheel, bundle])
def test_binaries_are_found_and_read(tmp_path, make):
    assert contents(make(tmp_path)) == BINARIES


@pytest.mark.parametrize("make", [folder, bundle])
def test_links_are_told(tmp_path, make):
    links = {member.path: member.target for member in members(make(tmp_path)) if member.target}
    assert links == {"lib/liba.so": "liba.so.1"}


@pytest.mark.parametrize("make", [folder, wheel, bundle])
def test_content_may_be_left_unread(tmp_path, make):
    paths = [member.path for member in members(make(tmp_path)) if not member.target]
    assert sorted(paths) == sorted(BINARIES)


@pytest.mark.parametrize("make", [folder, wheel, bundle])
def test_progress_adds_up(tmp_path, make):
    place = make(tmp_path)
    counts: list[int] = []
    for _ in members(place, progress=counts.append):
        pass
    total = sum(counts)
    # A zip file's directory is not counted.
    assert total == size_of(place) if make is not wheel else 0 < total <= size_of(place)


def test_one_file(tmp_path):
    path = tmp_path / "x.so"
    path.write_bytes(ELF + b"data")
    (member,) = members(path)
    assert (member.path, member.size, member.file) == ("x.so", 8, path)


def test_large_files_go_through_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_IN_MEMORY", 100)
    assert contents(wheel(tmp_path)) == BINARIES


def test_special_files_and_linked_folders_are_not_followed(tmp_path):
    root = folder(tmp_path / "env")
    os.mkfifo(root / "lib/pipe")
    (root / "lib64").symlink_to("lib")
    assert contents(root) == BINARIES


@pytest.mark.parametrize("name", ["absent.so", "notes.txt"])
def test_other_places_are_usage_errors(tmp_path, name):
    (tmp_path / "notes.txt").write_text("not a binary")
    place = tmp_path / name
    size_of(place)
    with pytest.raises(UsageError, match=name):
        list(members(place))


def test_an_unreadable_folder_is_named(tmp_path):
    root = folder(tmp_path / "env")
    listing = members(root)
    next(listing)
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    with pytest.raises(FilesystemError, match=str(root)):
        list(listing)


# Damage


def test_a_damaged_wheel_is_named(tmp_path):
    place = wheel(tmp_path)
    data = bytearray(place.read_bytes())
    with zipfile.ZipFile(place) as archive:
        at = archive.getinfo("lib/liba.so.1").header_offset
    data[at + 200] ^= 0xFF
    place.write_bytes(data)
    with pytest.raises(IntegrityError, match=r"a\.whl"):
        contents(place)


def test_a_cut_wheel_is_named(tmp_path):
    place = wheel(tmp_path)
    place.write_bytes(place.read_bytes()[:-10])
    with pytest.raises(IntegrityError, match=r"a\.whl"):
        contents(place)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.7, 0.999])
def test_a_damaged_bundle_is_refused(tmp_path, share):
    place = bundle(tmp_path)
    (tar,) = place.glob("*.tar")
    data = bytearray(tar.read_bytes())
    # Somewhere in the packed environment, which is the largest member by far.
    start = data.index(zstandard.FRAME_HEADER)
    size = size_of(place)
    data[start + int(size * share)] ^= 0x10
    tar.write_bytes(data)
    with pytest.raises(BundleError):
        contents(place)


def test_another_tree_than_the_listed_one_is_refused(tmp_path):
    listed: Content = {"bin": None, "bin/conda-unpack": b"", **TREE}
    packed: Content = {**listed, "lib/liba.so.1": ELF + b"other"}
    attack = Simulator(
        environment=listed, environment_archive=zstandard.compress(archive_of(packed))
    )
    place, _ = attack.write(tmp_path)
    with pytest.raises(IntegrityError, match=r"lib/liba\.so\.1"):
        contents(place)
