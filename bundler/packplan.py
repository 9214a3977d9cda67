"""Decide what a packed environment holds, file by file, before a byte is written.

conda-pack decides which files belong to an environment and writes `bin/conda-unpack`. Everything
else is done here, because conda-pack reads every pip-installed file whole, leaves console scripts
bound to whatever `python` PATH offers, and depends on the folder it runs in.
"""

import json
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from conda_pack import CondaEnv, CondaPackException
from conda_pack.core import File, Packer

from bundler import relocate
from bundler.condapackage import PLACEHOLDER
from bundler.layout import EXCLUDE, SERVER_LIBS
from manifests import digests, tree
from manifests.errors import IntegrityError
from manifests.tree import FILE, FOLDER, LINK, Entry, Rewrite

#: The largest text file that is changed in memory, in bytes; real ones are a few KiB.
_TEXT_LIMIT = 64 << 20
#: Executables that conda-unpack leaves alone, because they may be running it
#: (`python_pattern` in conda_pack.core.Packer.finish).
_RUNNING = re.compile(r"bin/python")


@dataclass(frozen=True)
class Member:
    """One file, link or folder to be packed: streamed from `source`, or from `data` if given."""

    path: str
    kind: str = FILE
    source: Path | None = None
    data: bytes | None = None
    executable: bool = False
    target: str = ""
    rewrite: Rewrite | None = None
    sha256: str = ""  # what the bytes have to be; empty where nobody published it

    def size(self) -> int:
        """Bytes to be packed. Raises OSError where the source is gone."""
        if self.data is not None:
            return len(self.data)
        return self.source.stat().st_size if self.kind == FILE and self.source else 0

    def entry(self) -> Entry:
        """The manifest's entry, without size and digest."""
        return Entry(
            self.path,
            self.kind,
            executable=self.executable,
            target=self.target,
            rewrite=self.rewrite,
        )


def plan(
    prefix: Path, *, exclude: Iterable[str] = (), winning: Sequence[str] = ()
) -> tuple[Member, ...]:
    """The members of a packed environment, sorted, every folder before what is in it.

    `exclude` adds patterns to EXCLUDE. `winning` names libraries in lib/ that server-libs/ has.

    Raises IntegrityError where conda's records don't fit the files, a file can't be made
    independent of its folder, or a name or link is not allowed; OSError where one can't be read.
    """
    patterns = (*EXCLUDE, *exclude)
    prefix = prefix.absolute()
    # Longest first: one may be the start of the other.
    own = sorted({os.fsencode(prefix), os.fsencode(prefix.resolve())}, key=len, reverse=True)
    digest_of = _conda_digests(prefix)
    members = {}
    changed: dict[str, bytes | None] = {}
    for file in _files(prefix):
        if any(fnmatch(file.target, pattern) for pattern in patterns):
            changed[file.target] = None
            continue
        member = _member(file, own, digest_of.get(file.target, ""))
        members[member.path] = member
        if member.data is not None:
            changed[member.path] = member.data
    members |= {member.path: member for member in _server_libs(members, winning)}
    if "bin/python" in members:
        members |= {member.path: member for member in _conda_unpack(prefix, members.values())}
    else:
        _check_fixed(members.values())
    members |= dict(_true_records(members, changed))
    for folder in {parent for path in members for parent in _parents(path)} - members.keys():
        members[folder] = Member(folder, FOLDER)
    ordered = tuple(members[path] for path in sorted(members))
    tree.check([member.entry() for member in ordered], "the environment")
    return ordered


def _files(prefix: Path) -> list[File]:
    try:
        env = CondaEnv.from_prefix(str(prefix), on_missing_cache="raise")
    except CondaPackException as error:
        lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
        raise IntegrityError(
            "conda-pack refuses the environment",
            findings=lines[:20],
            mend="make the environment again; install Python packages as wheels only",
        ) from None
    files: list[File] = env.files
    return files


def _conda_digests(prefix: Path) -> dict[str, str]:
    """sha256 by path of every file in its package, as conda-meta recorded it."""
    found = {}
    for meta in sorted((prefix / "conda-meta").glob("*.json")):
        for path in json.loads(meta.read_bytes())["paths_data"]["paths"]:
            if path["path_type"] == "hardlink" and path.get("sha256"):
                found[path["_path"]] = path["sha256"]
    return found


def _member(file: File, prefixes: Sequence[bytes], digest: str) -> Member:
    source, path = Path(file.source), str(file.target)
    if source.is_symlink():
        return Member(path, LINK, target=str(source.readlink()))
    if source.is_dir():
        return Member(path, FOLDER)
    plain = Member(
        path, source=source, executable=bool(source.stat().st_mode & 0o100), sha256=digest
    )
    if file.prefix_placeholder:
        found = Rewrite(file.prefix_placeholder, file.file_mode)
        if found.mode == "text" and path.startswith("bin/"):
            return _relocated(plain, [found.placeholder.encode()])
        return plain if _RUNNING.match(path) else replace(plain, rewrite=found)
    if re.fullmatch(r"conda-meta/[^/]+\.json", path):
        return replace(plain, data=relocate.conda_meta(source.read_bytes()))
    if file.file_mode == "unknown" and _holds(source, prefixes):
        return _relocated(plain, prefixes)
    return plain


def _holds(path: Path, prefixes: Sequence[bytes]) -> bool:
    """Whether a file that no package manager vouches for names the folder it was installed in."""
    overlap = max(map(len, prefixes))
    with path.open("rb", buffering=0) as handle:
        tail = b""
        for view in digests.chunks(handle):
            if not tail and bytes(view[:4]) == b"\x7fELF":
                return False  # compiled elsewhere; pip changes none
            window = tail + view
            if any(prefix in window for prefix in prefixes):
                return True
            tail = window[-overlap:]
    return False


def _relocated(member: Member, prefixes: Sequence[bytes]) -> Member:
    """A text file that names a prefix, with a relocatable header or the placeholder instead."""
    assert member.source is not None
    if member.size() > _TEXT_LIMIT:
        raise IntegrityError(f"{member.path}: names the folder it was built in, and is too large")
    data = member.source.read_bytes()
    if member.sha256 and digests.hash_file(member.source) != member.sha256:
        raise IntegrityError(f"{member.path}: is not the file that its conda package holds")
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        raise IntegrityError(
            f"{member.path}: names the folder it was built in, and is no text file",
            why="only text can be made independent of that folder",
        ) from None
    placeholder = PLACEHOLDER.encode()
    for prefix in prefixes:
        if member.path.startswith("bin/"):
            data = relocate.script(data, prefix)
        data = data.replace(prefix, placeholder)
    rewrite = Rewrite(PLACEHOLDER, "text") if placeholder in data else None
    return replace(member, data=data, rewrite=rewrite, sha256="")


def _server_libs(members: Mapping[str, Member], winning: Sequence[str]) -> Iterator[Member]:
    for library in winning:
        if f"lib/{library}" not in members:
            raise IntegrityError(
                f"the environment has no lib/{library}, which the server needs",
                mend="add the package that holds it to the stack's conda specs",
            )
        yield Member(f"{SERVER_LIBS}/{library}", LINK, target=f"../lib/{library}")


class _Collector:
    """What Packer takes for an archive; keeps the few small files that it makes itself."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def add(self, source: str, target: str) -> None:
        self.files[target] = Path(source).read_bytes()


def _conda_unpack(prefix: Path, members: Iterable[Member]) -> Iterator[Member]:
    """bin/conda-unpack and its helper, for just the files that need it."""
    collector = _Collector()
    packer = Packer(str(prefix), collector)
    packer.prefixes = sorted(
        (member.path, member.rewrite.placeholder, member.rewrite.mode)
        for member in members
        if member.rewrite
    )
    packer.finish()
    text = collector.files["bin/conda-unpack"].removeprefix(b"#!/usr/bin/env python\n")
    # Not -I: the script imports its helper from its own folder.
    script = relocate.header(" -E -s -B") + text
    yield Member("bin/conda-unpack", data=script, executable=True)
    helper = "bin/conda_unpack_progress.py"
    yield Member(helper, data=collector.files[helper])


def _true_records(
    members: Mapping[str, Member], changed: Mapping[str, bytes | None]
) -> Iterator[tuple[str, Member]]:
    """Every wheel's RECORD that names a changed file, with that file's packed digest."""
    for path, member in members.items():
        if path.endswith(".dist-info/RECORD") and member.source is not None:
            folder = posixpath.dirname(posixpath.dirname(path))
            old = member.source.read_bytes()
            new = relocate.record(old, folder, changed)
            if new != old:
                yield path, replace(member, data=new)


def _check_fixed(members: Iterable[Member]) -> None:
    """Refuse files that have to be rewritten where they go, where there is no Python to do it."""
    found = [member.path for member in members if member.rewrite]
    if found:
        raise IntegrityError(
            "an environment without a Python of its own has files that name its folder",
            findings=found[:20],
            mend="leave out of the stack's conda specs and wheels what brings them",
        )


def _parents(path: str) -> Iterator[str]:
    while path := posixpath.dirname(path):
        yield path
