"""Damaged media: refused with the file's name, nothing of it started, `current` untouched."""

import os
import shutil
import tarfile
from pathlib import Path

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import control, free_port, install
from tests.system.conftest import servers


def flip(path: Path, place: int) -> None:
    with path.open("r+b") as handle:
        handle.seek(place)
        byte = handle.read(1)[0]
        handle.seek(place)
        handle.write(bytes([byte ^ 1]))


def archive(folder: Path) -> Path:
    return folder / f"{folder.name}.tar"


def place_in(folder: Path, member: str) -> int:
    """Offset of a byte in the middle of a member."""
    with tarfile.open(archive(folder)) as tar:
        info = tar.getmember(member)
        return info.offset_data + info.size // 2


def executables(prefix: Path) -> list[Path]:
    return [
        path
        for path in prefix.rglob("*")
        if path.is_file() and path.stat().st_mode & 0o111 and ".partial" not in str(path)
    ]


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as handle:
        handle.write(data)


def swap_for_link(path: Path, elsewhere: Path) -> None:
    shutil.move(path, elsewhere)
    path.symlink_to(elsewhere)


def with_crlf(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def another_digit(path, offset):
    data = bytearray(path.read_bytes())
    data[offset] = ord("1" if data[offset] == ord("0") else "0")
    path.write_bytes(data)


#: What is done to a bundle's folder, and the name that has to be told. All are seen by install.sh.
DAMAGES = {
    "install.sh altered": (lambda f: append(f / "install.sh", b"# \n"), "install.sh: altered"),
    "digest altered": (lambda f: another_digit(f / "SHA256SUMS", 5), "install.sh: altered"),
    "name altered": (lambda f: flip(f / "SHA256SUMS", 70), "SHA256SUMS"),
    "line end altered": (lambda f: flip(f / "SHA256SUMS", 64), "SHA256SUMS: malformed line"),
    "comment": (lambda f: append(f / "SHA256SUMS", b"# fine\n"), "SHA256SUMS: malformed line"),
    "escape": (lambda f: append(f / "SHA256SUMS", b"0" * 64 + b"  ../x\n"), "malformed line"),
    "named twice": (
        lambda f: append(f / "SHA256SUMS", (f / "SHA256SUMS").read_bytes()),
        "names install.sh twice",
    ),
    "no list": (lambda f: (f / "SHA256SUMS").unlink(), "SHA256SUMS: missing"),
    "empty list": (lambda f: (f / "SHA256SUMS").write_bytes(b""), "no line for install.sh"),
    "list in CR LF": (lambda f: with_crlf(f / "SHA256SUMS"), "CR LF"),
    "script in CR LF": (lambda f: with_crlf(f / "install.sh"), "install.sh: its lines end"),
    "stranger": (lambda f: (f / "setup.exe").write_bytes(b""), "setup.exe"),
    "hidden stranger": (lambda f: (f / ".x").mkdir(), ".x: lies beside"),
    "dangling stranger": (lambda f: (f / "l").symlink_to("/no"), "l: lies beside"),
    "link": (lambda f: swap_for_link(archive(f), f.parent / "moved"), ".tar: a link"),
    "archive missing": (lambda f: archive(f).unlink(), ".tar: missing"),
    "runtime altered": (lambda f: flip(archive(f), place_in(f, "runtime.tar.gz")), "runtime"),
    "cut off early": (lambda f: os.truncate(archive(f), 1 << 20), ".tar: cut off"),
}


@pytest.mark.parametrize(
    ("name", "shell"), [*((name, "sh") for name in DAMAGES), ("script in CR LF", "bash")]
)
def test_damage_that_the_script_sees(small_bundle, tmp_path, name, shell):
    folder = link_copy(small_bundle, tmp_path)
    damage, told = DAMAGES[name]
    damage(folder)
    prefix = tmp_path / "host"
    done = install(folder, "--prefix", str(prefix), shell=(shell,))
    assert done.returncode == ExitCode.INTEGRITY, done.stderr
    assert told in done.stderr
    assert "mend:" in done.stderr
    assert not prefix.exists()


def link_copy(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / folder.name))


@pytest.fixture(scope="module")
def serving(host):
    return host


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("bundle.json", "bundle.json"),
        ("env.tar.zst", ""),  # the file of the tree, or the member, whichever is met first
        ("the end", "the end of the archive"),
        ("trailing", "the end of the archive"),
        ("cut off", "the end of the archive"),
    ],
)
def test_damage_in_the_archive_leaves_the_older_release_serving(
    newer_bundle, serving, tmp_path, where, told
):
    folder = link_copy(newer_bundle, tmp_path)
    tar = archive(folder)
    size = tar.stat().st_size
    if where == "the end":
        flip(tar, size - 1)
    elif where == "trailing":
        append(tar, b"\0" * 512)
    elif where == "cut off":
        os.truncate(tar, size - (1 << 20))
    else:
        flip(tar, place_in(folder, where))
    before = (serving / "current").readlink(), servers(serving)
    done = install(folder, "--prefix", str(serving))
    assert done.returncode == ExitCode.INTEGRITY, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert ((serving / "current").readlink(), servers(serving)) == before
    assert control(serving, "ask", "Hello").returncode == 0
    assert not [path for path in executables(serving) if "newer" in str(path)]


def test_the_archive_of_another_bundle(small_bundle, newer_bundle, tmp_path):
    folder = link_copy(small_bundle, tmp_path)
    shutil.copy(archive(newer_bundle), archive(folder))
    done = install(
        folder, "--prefix", str(tmp_path / "host"), "--no-start", "--port", str(free_port())
    )
    assert done.returncode == ExitCode.INTEGRITY
    assert "bundle.json" in done.stderr
    assert not (tmp_path / "host").exists()


@pytest.mark.parametrize("member", ["env.tar.zst", "model/model.safetensors"])
def test_a_damaged_first_install_leaves_nothing_to_start(small_bundle, tmp_path, member):
    folder = link_copy(small_bundle, tmp_path)
    flip(archive(folder), place_in(folder, member))
    prefix = tmp_path / "host"
    done = install(folder, "--prefix", str(prefix), "--port", str(free_port()))
    assert done.returncode == ExitCode.INTEGRITY
    assert executables(prefix) == []
    assert not (prefix / "current").exists()
    good = install(small_bundle, "--prefix", str(prefix), "--no-start", "--port", str(free_port()))
    assert good.returncode == 0, good.stderr
    assert control(prefix, "audit").returncode == 0
