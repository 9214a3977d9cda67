"""The files of units that an installation has put outside of its prefix, and how they go again.

The record, `state/service.json`, is written before the first file and names every digest that a
file of ours may have: a kill at any moment leaves nothing that a re-run, or a removal, would take
for somebody else's. It lies where the server's account may write, and is read by root: so it is
believed only as far as it names units that an instance of that name can have.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from bundlectl import statefile, systemd
from bundlectl.layout import Layout
from bundlectl.syncing import sync, write_whole
from bundlectl.units import STEM, Unit, Wish
from manifests import FORMAT_VERSION, canonical
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.records import to_data

_UNKNOWN = "nobody can tell which units are this installation's"
_MEND = "remove the file; then: bundlectl service install --force"
#: What `state_of` answers.
ABSENT, OURS, STALE, CHANGED = "absent", "installed", "out of date", "changed by hand"


@dataclass(frozen=True)
class Made:
    """A file or link of ours: the digests that its bytes, or its target's name, may have."""

    path: str
    sha256: tuple[str, ...]  # the last is the wanted one; more than one while it is replaced


@dataclass(frozen=True)
class Record:
    """The file state/service.json."""

    schema: int
    wish: Wish = field(default_factory=Wish)
    files: tuple[Made, ...] = ()


@dataclass(frozen=True)
class _File:
    """What is wanted at a place: bytes, or a link to `target`."""

    path: Path
    data: bytes
    link: bool = False

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data).hexdigest()

    def make(self) -> None:
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        if not self.link:
            write_whole(self.path, self.data, 0o644)
            return
        draft = self.path.with_name(f".{self.path.name}.new")
        draft.unlink(missing_ok=True)
        draft.symlink_to(os.fsdecode(self.data))
        draft.replace(self.path)
        sync(self.path.parent)


def record_path(layout: Layout) -> Path:
    """Where the record of an instance lies."""
    return layout.own_state / "service.json"


def load(layout: Layout) -> Record:
    """The record; one without files where there are no units.

    Raises IntegrityError where it is damaged, or names what is no unit of this instance;
    FilesystemError where it can't be read.
    """
    path = record_path(layout)
    doing = "reading which units were installed"
    record = statefile.load(path, Record(FORMAT_VERSION), doing, _UNKNOWN, _MEND)
    strange = [made.path for made in record.files if not _is_unit(layout, made)]
    if strange:
        raise IntegrityError(
            f"{path}: it names what is no unit of this instance, so {_UNKNOWN}",
            findings=strange,
            why="it is damaged, or somebody wants these files removed; or XDG_CONFIG_HOME was "
            "another one when they were installed",
            mend=_MEND,
        )
    return record


def _is_unit(layout: Layout, made: Made) -> bool:
    """Whether it is FOLDER/NAME or FOLDER/TARGET.wants/NAME, with a name that we give."""
    instance = re.escape(f"@{layout.instance}" if layout.instance else "")
    name = rf"{STEM}(-[a-z]+)?{instance}\.(service|timer)"
    folders = "|".join(re.escape(str(folder)) for folder in systemd.folders())
    place = re.compile(rf"({folders})/([a-z-]+\.target\.wants/)?{name}")
    return bool(made.sha256 and place.fullmatch(made.path))


def state_of(made: Made) -> str:
    """What became of a file: ABSENT, OURS, STALE (of an interrupted replacement) or CHANGED."""
    found = _digest(Path(made.path))
    if not found:
        return ABSENT
    if found == made.sha256[-1]:
        return OURS
    return STALE if found in made.sha256 else CHANGED


def is_current(record: Record, units: Iterable[Unit], folder: Path) -> bool:
    """Whether a record's files are those that would be installed now."""
    wanted = {(str(file.path), file.digest) for file in _files(units, folder)}
    return wanted == {(made.path, made.sha256[-1]) for made in record.files}


def install(
    layout: Layout, wish: Wish, units: Iterable[Unit], folder: Path, *, force: bool = False
) -> tuple[Path, ...]:
    """Make the units' files what they should be; gives the paths that were written or removed.

    Raises UsageError naming files that somebody else has made or changed, unless `force`;
    FilesystemError.
    """
    before = {made.path: made for made in load(layout).files}
    wanted = {str(file.path): file for file in _files(units, folder)}
    try:
        _refuse(_strange(before, wanted), force=force)
        digests = {
            path: (*(before[path].sha256 if path in before else ()), file.digest)
            for path, file in wanted.items()
        }
        gone = [made for path, made in before.items() if path not in wanted]
        known = tuple(Made(path, digest) for path, digest in digests.items())
        changed = [file for file in wanted.values() if _digest(file.path) != file.digest]
        final = Record(
            FORMAT_VERSION,
            wish,
            tuple(Made(path, (file.digest,)) for path, file in wanted.items()),
        )
        if not changed and load(layout) == final:
            return ()
        _write(layout, Record(FORMAT_VERSION, wish, (*known, *gone)))
        for file in changed:
            file.make()
        removed = [path for made in gone if (path := _unlink(made))]
        _write(layout, final)
    except OSError as error:
        raise from_oserror(error, "installing the units") from error
    return (*(file.path for file in changed), *removed)


def remove(layout: Layout, *, force: bool = False) -> tuple[Path, ...]:
    """Remove every file that was made, and the record; gives the paths that were there.

    Raises UsageError naming files that were changed since, unless `force`; FilesystemError.
    """
    files = load(layout).files
    try:
        _refuse((made.path for made in files if state_of(made) == CHANGED), force=force)
        # Links first: one without its unit would be told at every boot.
        removed = [path for made in reversed(files) if (path := _unlink(made))]
        record_path(layout).unlink(missing_ok=True)
    except OSError as error:
        raise from_oserror(error, "removing the units") from error
    return tuple(removed)


def _files(units: Iterable[Unit], folder: Path) -> Iterable[_File]:
    units = tuple(units)
    for unit in units:
        yield _File(folder / unit.name, unit.text.encode())
    for unit in units:
        if unit.wanted_by:  # just as `systemctl enable` does it
            place = folder / f"{unit.wanted_by}.wants" / unit.name
            yield _File(place, os.fsencode(folder / unit.name), link=True)


def _strange(before: dict[str, Made], wanted: dict[str, _File]) -> Iterable[str]:
    """Places where something else is than what we put, or would put, there."""
    for path in before.keys() | wanted.keys():
        ours = set(before[path].sha256 if path in before else ())
        ours |= {wanted[path].digest} if path in wanted else set()
        if (found := _digest(Path(path))) and found not in ours:
            yield path


def _refuse(paths: Iterable[str], *, force: bool) -> None:
    found = sorted(paths)
    if found and not force:
        raise UsageError(
            "units are there that this installation did not make, or that were changed since",
            findings=found,
            why="they may be another installation's, or hold an operator's own lines",
            mend="own lines belong into: systemctl edit NAME (they are left); a second "
            "installation needs --instance NAME; --force takes these files for ours",
        )


def _digest(path: Path) -> str:
    """The sha256 of a file, or of the name that a link leads to; empty where nothing is there."""
    try:
        data = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return hashlib.sha256(data).hexdigest()


def _unlink(made: Made) -> Path | None:
    path = Path(made.path)
    if not _digest(path):
        return None
    path.unlink()
    sync(path.parent)
    return path


def _write(layout: Layout, record: Record) -> None:
    write_whole(record_path(layout), canonical.dumps(to_data(record)), 0o644)
