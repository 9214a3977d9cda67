"""Packing real environments: the same bytes anywhere, and a tree that works anywhere else."""

import csv
import gzip
import hashlib
import importlib.util
import io
import marshal
import os
import re
import subprocess
import tarfile
from base64 import urlsafe_b64encode
from functools import cache
from pathlib import Path

import pytest
import zstandard

from bundler import bytecode, pack, relocate
from bundler.condapackage import PLACEHOLDER
from bundler.layout import RUNTIME_EXCLUDE
from manifests import prefix as prefixes
from manifests.archive import TREE_TIME
from manifests.digests import hash_file
from manifests.errors import FilesystemError, IntegrityError, UsageError
from manifests.exitcodes import ExitCode
from manifests.tree import FILE, FOLDER, LINK, Entry
from tests.support import conda_parts as parts

SITE = f"lib/python{parts.SERIES}/site-packages"


def _environment(folder: Path) -> Path:
    """An environment with wheels: a script, a text that names the prefix, long and nested names."""
    prefix = parts.make(folder / "env", folder / "cache")
    long_name = "deep/" * 30 + "n" * 100 + ".txt"
    parts.pip_install(
        prefix / "bin" / "python", parts.wheel(folder, extra={f"hello_data/{long_name}": b"x"})
    )
    noted = prefix / SITE / "hello_data" / "where.cfg"
    noted.write_text(f"[paths]\nhome = {prefix}/share\n")
    (prefix / SITE / "hello_data" / "empty").mkdir()
    (prefix / SITE / "__pycache__").mkdir()
    (prefix / SITE / "__pycache__" / "hello.pyc").write_bytes(os.fsencode(prefix))
    return prefix


@cache
def _packed() -> tuple[Path, Path, tuple[Entry, ...]]:
    """An environment, its archive, its entries."""
    folder = parts.scratch() / "packed"
    folder.mkdir()
    prefix = _environment(folder)
    out = folder / "env.tar.zst"
    entries = pack.pack(prefix, out, compression="zstd", winning=parts.WINNING, threads=1)
    return prefix, out, entries


def _unpack(archive: Path, folder: Path) -> Path:
    folder.mkdir(parents=True)
    with (
        archive.open("rb") as raw,
        zstandard.ZstdDecompressor().stream_reader(raw) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        tar.extractall(folder, filter="fully_trusted")
    return folder


def _conda_unpack(prefix: Path) -> None:
    subprocess.run(
        [prefix / "bin/python", "-E", "-s", "-B", prefix / "bin/conda-unpack"], check=True, env={}
    )


def test_another_path_umask_and_time_zone_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, first, entries = _packed()
    folder = tmp_path / "a considerably longer path, with spaces" / ("long" * 20)
    folder.mkdir(parents=True)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    old = os.umask(0o077)
    try:
        prefix = _environment(folder)
        again = pack.pack(
            prefix,
            folder / "out",
            compression="zstd",
            winning=parts.WINNING,
            threads=3,
        )
    finally:
        os.umask(old)

    assert {e.path: e for e in again} == {e.path: e for e in entries}
    assert hash_file(folder / "out") == hash_file(first)


def test_the_archive_is_plain_sorted_and_anonymous() -> None:
    _, archive, entries = _packed()
    with (
        archive.open("rb") as raw,
        zstandard.ZstdDecompressor().stream_reader(raw) as stream,
        tarfile.open(fileobj=stream, mode="r|") as tar,
    ):
        members = list(tar)

    assert [member.name for member in members] == [entry.path for entry in entries]
    assert [m.name for m in members] == sorted(m.name for m in members)
    for member, entry in zip(members, entries, strict=True):
        assert (member.uid, member.gid, member.uname, member.gname) == (0, 0, "", "")
        assert member.mtime == TREE_TIME
        assert not member.pax_headers
        kinds = {tarfile.REGTYPE: FILE, tarfile.DIRTYPE: FOLDER, tarfile.SYMTYPE: LINK}
        assert kinds[member.type] == entry.kind
        assert member.mode == entry.mode()
        assert (member.size, member.linkname) == (entry.size, entry.target)
        parent = str(Path(member.name).parent)
        assert parent == "." or parent in {m.name for m in members}


def test_what_is_not_to_be_packed_is_not() -> None:
    prefix, _, entries = _packed()
    paths = {entry.path for entry in entries}

    assert (prefix / "conda-meta" / "history").exists()
    assert not any(path.endswith(".pyc") or "__pycache__" in path for path in paths)
    assert not paths & {"conda-meta/history", "CACHEDIR.TAG", "bin/activate"}
    assert {"bin/conda-unpack", f"{SITE}/hello_data/empty"} <= paths


def test_the_packed_tree_does_not_name_the_builder(tmp_path: Path) -> None:
    prefix, archive, _ = _packed()
    tree = _unpack(archive, tmp_path / "tree")

    needles = [os.fsencode(prefix), os.fsencode(parts.scratch())]
    holding = [
        str(path.relative_to(tree)) for path in tree.rglob("*")
        if path.is_file() and any(needle in path.read_bytes() for needle in needles)
    ]  # fmt: skip
    assert holding == []


def test_entries_are_true_before_conda_unpack_and_restorable_after(tmp_path: Path) -> None:
    _, archive, entries = _packed()
    tree = _unpack(archive, tmp_path / "a tree")
    files = [entry for entry in entries if entry.kind == FILE]
    assert [hash_file(tree / entry.path) for entry in files] == [entry.sha256 for entry in files]

    _conda_unpack(tree)

    volatile = {entry.path for entry in files if entry.rewrite}
    assert {e.path for e in files if hash_file(tree / e.path) != e.sha256} == volatile
    assert f"{SITE}/hello_data/where.cfg" in volatile
    for entry in files:
        if entry.rewrite:
            data = (tree / entry.path).read_bytes()
            packed = prefixes.restore(data, entry.rewrite, str(tree))
            assert hashlib.sha256(packed).hexdigest() == entry.sha256


def test_the_tree_works_in_a_path_with_a_space_and_after_a_move(tmp_path: Path) -> None:
    _, archive, _ = _packed()
    tree = _unpack(archive, tmp_path / "first place")
    _conda_unpack(tree)
    assert (tree / SITE / "hello_data/where.cfg").read_text() == f"[paths]\nhome = {tree}/share\n"
    libdir = "import sysconfig; print(sysconfig.get_config_var('LIBDIR'))"
    assert parts.run(tree / "bin/python", "-c", libdir) == f"{tree}/lib"

    moved = tree.rename(tmp_path / "second place")

    assert parts.run(moved / "bin/python", "-c", "import ssl, sqlite3, hello; print(1)") == "1"
    assert parts.run(moved / "bin/hello") == f"hello from {moved}"
    link = tmp_path / "hello"
    link.symlink_to(moved / "bin/hello")
    assert parts.run(link) == f"hello from {moved}"
    assert parts.run(moved / "bin/python", moved / "bin/hello") == f"hello from {moved}"


def test_records_are_true_of_the_packed_tree(tmp_path: Path) -> None:
    _, archive, _ = _packed()
    tree = _unpack(archive, tmp_path / "tree")
    text = (tree / SITE / "hello-1.0.dist-info/RECORD").read_text()

    rows = list(csv.reader(io.StringIO(text)))
    assert any(row[0].endswith("bin/hello") for row in rows)
    for path, digest, size in rows:
        data = (tree / SITE / path).read_bytes()
        if digest:
            encoded = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={encoded}", str(len(data)))


def test_winning_libraries_are_linked_alone(tmp_path: Path) -> None:
    _, archive, _ = _packed()
    tree = _unpack(archive, tmp_path / "tree")

    links = {path.name: path for path in (tree / "server-libs").iterdir()}
    assert set(links) == set(parts.WINNING)
    for name, link in links.items():
        assert link.resolve() == (tree / "lib" / name).resolve()


def test_a_winning_library_that_is_not_there_is_named() -> None:
    prefix, _, _ = _packed()

    with pytest.raises(IntegrityError, match=r"no lib/libnone\.so\.1"):
        pack.plan(prefix, winning=("libnone.so.1",))


def test_progress_adds_up_to_the_planned_size() -> None:
    prefix, _, entries = _packed()
    members = pack.plan(prefix, winning=parts.WINNING)
    told: list[int] = []

    again = pack.write(members, io.BytesIO(), compression="zstd", progress=told.append)

    assert sum(told) == pack.size(members) == sum(entry.size for entry in entries)
    assert again == entries


def test_gzip_holds_the_same_tar() -> None:
    prefix, _, _ = _packed()
    members = pack.plan(prefix, exclude=("lib/*.so*", "lib/python*"))
    outs = {}
    for compression in ("gzip", "zstd"):
        outs[compression] = io.BytesIO()
        pack.write(members, outs[compression], compression=compression)

    tar = zstandard.ZstdDecompressor().stream_reader(outs["zstd"].getvalue()).read()
    assert gzip.decompress(outs["gzip"].getvalue()) == tar
    assert outs["gzip"].getvalue()[4:8] == bytes(4)  # no time in the header


def test_files_altered_in_the_package_cache_are_refused(tmp_path: Path) -> None:
    prefix = _environment(tmp_path)
    (cached,) = (tmp_path / "cache/packages").glob(f"python-*/lib/python{parts.SERIES}/this.py")
    cached.write_text("print('other')\n")

    with pytest.raises(IntegrityError, match=r"this\.py: is not the file"):
        pack.pack(prefix, tmp_path / "out", compression="zstd")
    assert list(tmp_path.glob("out*")) == []

    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="conda-pack refuses"):
        pack.plan(prefix)


def test_a_binary_that_names_the_prefix_is_refused() -> None:
    prefix, _, _ = _packed()
    blob = prefix / SITE / "blob.bin"
    blob.write_bytes(b"\xff" + os.fsencode(prefix))

    try:
        with pytest.raises(IntegrityError, match=r"blob\.bin: names the folder"):
            pack.plan(prefix)
    finally:
        blob.unlink()


def test_a_folder_that_is_no_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(IntegrityError, match="conda-pack refuses"):
        pack.plan(tmp_path)


def test_an_output_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    prefix, _, _ = _packed()

    with pytest.raises(FilesystemError, match="nowhere"):
        pack.pack(prefix, tmp_path / "nowhere/out", compression="zstd")


def test_unknown_compressions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lzma"):
        pack.write([], tmp_path / "out", compression="lzma")


@cache
def _runtime() -> Path:
    """A runtime's archive."""
    work = parts.scratch() / "runtime"
    work.mkdir()
    prefix = parts.make(work / "env", work / "cache")
    pack.stage_runtime(prefix)
    members = pack.plan(prefix, exclude=RUNTIME_EXCLUDE)
    members = bytecode.with_bytecode(members, prefix, pack.OURS, work / "bytecode")
    out = work / "runtime.tar.gz"
    pack.write(members, out, compression="gzip")
    return out


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked runtime."""
    tree = tmp_path_factory.mktemp("runtime")
    subprocess.run(["tar", "-xzf", _runtime(), "-C", tree], check=True)
    return tree


def test_the_runtime_is_small_and_has_our_packages(runtime: Path) -> None:
    assert _runtime().stat().st_size < 35_000_000
    assert not (runtime / "include").exists()
    found = parts.run(
        runtime / "bin/python",
        *("-I", "-B", "-c"),
        "import bundlectl, manifests.stack; print(len(manifests.stack.stacks()))",
    )
    assert int(found) >= 1


def test_the_runtimes_bytecode_is_what_its_sources_give(runtime: Path) -> None:
    """Nothing compares them when they are loaded."""
    carried = sorted(runtime.rglob("*.pyc"))
    for file in carried:
        source = Path(importlib.util.source_from_cache(file))
        text, data = source.read_bytes(), file.read_bytes()
        assert data[:4] == importlib.util.MAGIC_NUMBER
        assert int.from_bytes(data[4:8], "little") == 0b01, "hash-based, not checked (PEP 552)"
        assert data[8:16] == importlib.util.source_hash(text)
        name = str(source.relative_to(runtime))
        code = marshal.loads(data[16:])
        assert code == compile(text, name, "exec", dont_inherit=True)
        assert code.co_filename == name
    ours = {path.relative_to(runtime / SITE).parts[0] for path in carried if SITE in str(path)}
    assert ours >= set(pack.OURS)


def test_no_call_of_bundlectl_compiles_anything(runtime: Path) -> None:
    command = [runtime / "bin/python", "-I", "-B", "-v", "-m", "bundlectl", "status"]
    done = subprocess.run(
        [*command, "--prefix", runtime / "none"], capture_output=True, text=True, check=False
    )
    assert done.returncode == ExitCode.SERVER
    assert "/bundlectl/__pycache__/cli." in done.stderr
    compiled = re.findall(r"# code object from (\S+\.py)$", done.stderr, re.MULTILINE)
    assert compiled == []


def test_a_module_that_can_not_be_compiled_is_told(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(parts.host_python())
    with pytest.raises(IntegrityError, match="can't be compiled"):
        bytecode.with_bytecode((), tmp_path, ("nothing_of_that_name",), tmp_path / "bytecode")


HEADER = relocate.header()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"#!/p/bin/python\nx\n", HEADER + b"x\n"),
        (b"#!/p/bin/python3.11 -s\nx\n", relocate.header(" -s") + b"x\n"),
        (b"#! /p/bin/python3\nx\n", HEADER + b"x\n"),
        (b"#!/bin/sh\n'''exec' /p/bin/python \"$0\" \"$@\"\n' '''\nx\n", HEADER + b"x\n"),
        (b"#!/bin/sh\n'''exec' \"/p/bin/python\" \"$0\" \"$@\"\n' '''\nx\n", HEADER + b"x\n"),
        (b"#!/bin/sh\n'''exec' \"/p/bin/python3.11\" \"$0\" \"$@\" #'''\nx\n", HEADER + b"x\n"),
        (b"#!/p/bin/perl\nx\n", b"#!/p/bin/perl\nx\n"),
        (b"#!/bin/sh\nexec /p/bin/tool\n", b"#!/bin/sh\nexec /p/bin/tool\n"),
        (b"#!/other/bin/python\nx\n", b"#!/other/bin/python\nx\n"),
    ],
)
def test_headers_of_scripts(old: bytes, new: bytes) -> None:
    assert relocate.script(old, b"/p") == new


@pytest.mark.parametrize("shell", ["/bin/sh", "busybox"])
def test_the_header_is_read_by_shells_and_by_python(shell: str, tmp_path: Path) -> None:
    if subprocess.run(["which", shell], capture_output=True, check=False).returncode:
        pytest.skip(f"no {shell} here")
    folder = tmp_path / "a $HOME `id` 'quoted\" place"
    folder.mkdir()
    (folder / "python").symlink_to(parts.host_python())
    script = folder / "script"
    script.write_bytes(
        relocate.header(" -I") + b"import sys\nprint(sys.argv[1:], sys.flags.isolated)\n"
    )
    command = [shell, "sh"] if shell == "busybox" else [shell]

    done = subprocess.run(
        [*command, script, "a b", "*"], capture_output=True, text=True, check=True
    )

    assert done.stdout == "['a b', '*'] 1\n"
    compile(script.read_text(), "script", "exec")


def test_records_drop_what_is_not_packed_and_keep_the_rest() -> None:
    old = b'a.py,sha256=old,1\nb.pyc,sha256=old,2\n"odd, name",sha256=x,3\nd/RECORD,,\n'
    changed = {"site/a.py": b"new", "site/b.pyc": None, "site/d/RECORD": b"ignored"}

    new = relocate.record(old, "site", changed).decode().splitlines()

    assert new[0].startswith("a.py,sha256=EVB6") and new[0].endswith(",3")
    assert new[1:] == ['"odd, name",sha256=x,3', "d/RECORD,,"]


def test_condas_records_lose_the_builders_paths() -> None:
    old = (
        b'{"extracted_package_dir": "/home/me/x", "link": {"source": "/home/me/x", "type": 1},'
        b'"requested_specs": ["x"], "package_tarball_full_path": "/home/me/y", "name": "n",'
        b'"paths_data": {"paths": [{"_path": "a", "sha256": "1", "sha256_in_prefix": "2"}]}}'
    )
    new = relocate.conda_meta(old)

    assert b"/home/me" not in new
    assert b"sha256_in_prefix" not in new
    assert b'"sha256": "1"' in new


def test_placeholders_leave_room_for_long_paths() -> None:
    assert len(PLACEHOLDER) == 255
