"""Repaired wheels: derived from a published one, reproducibly, and under a version of their own.

The origin's RECORD is checked first. The result is the same bytes wherever and whenever it is made:
stored without compression, with one time stamp, in the origin's order. Its local version (PEP 440,
0.32.0 → 0.32.0+repaired) says that it is not what its publisher made.
"""

import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from packaging.version import Version

from manifests.errors import IntegrityError, from_oserror
from manifests.lock import COMPUTED, Derived, Wheel
from manifests.stack import Repair
from wheelhouse import metadata, record
from wheelhouse.store import Store

#: The earliest that a zip archive can hold.
_TIME = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class _Names:
    """How the origin's names change."""

    old_folder: str  # NAME-VERSION.dist-info
    old_stem: str  # NAME-VERSION
    stem: str

    def path(self, path: str) -> str:
        """The new path of a member."""
        top, slash, rest = path.partition("/")
        for suffix in (".dist-info", ".data"):
            if top == f"{self.old_stem}{suffix}":
                top = f"{self.stem}{suffix}"
        return f"{top}{slash}{rest}"


def repaired_version(version: str, label: str) -> str:
    """The version of the derived wheel."""
    old = Version(version)
    return f"{old.public}+{f'{old.local}.' if old.local else ''}{label}"


def repair(origin: Path, published: Wheel, change: Repair, store: Store) -> Wheel:
    """Derive a wheel from the file `origin`, put it into the store and describe it.

    Raises IntegrityError where the origin is not what its RECORD says or the change does not apply,
    FilesystemError where the result can't be written.
    """
    version = repaired_version(published.version, change.label)
    distribution, _, rest = published.filename.partition("-")
    stem = f"{distribution}-{version}"
    filename = f"{stem}-{rest.partition('-')[2]}"
    try:
        with (
            tempfile.TemporaryFile(dir=_scratch(store)) as output,
            zipfile.ZipFile(origin) as wheel,
        ):
            record.check(wheel, published.filename)
            folder = record.dist_info(wheel, published.filename)
            names = _Names(folder, folder.removesuffix(".dist-info"), stem)
            changes = _write(wheel, output, names, version, change)
            size = output.tell()
            output.seek(0)
            sha256 = store.adopt(output)
    except zipfile.BadZipFile as error:
        raise IntegrityError(f"{published.filename}: no zip archive ({error})") from None
    except OSError as error:
        raise from_oserror(error, f"repairing {published.filename}") from error
    return Wheel(
        name=published.name,
        version=version,
        filename=filename,
        url=f"derived:{filename}",
        sha256=sha256,
        digest_from=COMPUTED,
        derived=Derived(
            origin=published.filename,
            url=published.url,
            sha256=published.sha256,
            digest_from=published.digest_from,
            changes=changes,
            size=published.size,
        ),
        size=size,
    )


def origin(wheel: Wheel) -> Wheel:
    """The published wheel that a derived one came from.

    Raises ValueError where the wheel is not derived.
    """
    derived = wheel.derived
    if derived is None:
        raise ValueError(f"{wheel.filename} is not derived")
    return Wheel(
        name=wheel.name,
        version=derived.origin.split("-")[1],
        filename=derived.origin,
        url=derived.url,
        sha256=derived.sha256,
        digest_from=derived.digest_from,
        size=derived.size,
    )


def rebuild(wheel: Wheel, change: Repair, store: Store) -> None:
    """Make a derived wheel of a lock again, from its origin in the store.

    Raises IntegrityError where the result is not the locked one.
    """
    published = origin(wheel)
    path = store.verified(published.sha256, published.filename)
    made = repair(path, published, change, store)
    if made.sha256 != wheel.sha256:
        raise IntegrityError(
            f"{wheel.filename}: rebuilt with sha256 {made.sha256}, the lock has {wheel.sha256}",
            why="the lock was made by another release, whose stack repaired this wheel differently",
            mend="use the release that made the lock, or make the lock again with `bundle lock`",
        )


def _scratch(store: Store) -> Path:
    store.root.mkdir(parents=True, exist_ok=True)
    return store.root


def _write(
    wheel: zipfile.ZipFile, output: IO[bytes], names: _Names, version: str, change: Repair
) -> tuple[str, ...]:
    """Write the derived archive; returns one sentence for each change."""
    edits, changes = _edits(wheel, names, version, change)
    record_path = f"{names.stem}.dist-info/RECORD"
    rows = []
    with zipfile.ZipFile(output, "w", zipfile.ZIP_STORED) as derived:
        for member in _members(wheel, names):
            path = names.path(member.filename)
            if member.filename in edits:
                rows.append(_put(derived, path, edits[member.filename]))
            else:
                rows.append(_copy(wheel, member, derived, path))
        rows += [_put(derived, path, text.encode()) for path, text in sorted(change.add.items())]
        _put(derived, record_path, record.render(rows, record_path))
    return changes


def _members(wheel: zipfile.ZipFile, names: _Names) -> Iterator[zipfile.ZipInfo]:
    """The members that are kept; RECORD is written anew, and signatures of it are void."""
    for member in wheel.infolist():
        if not member.is_dir() and not member.filename.startswith(f"{names.old_folder}/RECORD"):
            yield member


def _edits(
    wheel: zipfile.ZipFile, names: _Names, version: str, change: Repair
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The new bytes of every changed member by its old path, and the sentences."""
    changes = [f"the version became {version}, because: {change.reason}"]
    described, tagged = f"{names.old_folder}/METADATA", f"{names.old_folder}/WHEEL"
    text, sentences = metadata.with_requirements(_text(wheel, described), change.requires)
    changes += sentences
    edits = {described: metadata.with_version(text, version).encode()}
    if change.tag:
        text, old = metadata.with_tag(_text(wheel, tagged), change.tag)
        edits[tagged] = text.encode()
        changes.append(f"WHEEL said {old} and says {change.tag} now, as the file name does")
    for path in sorted({*change.prepend, *change.append}):
        before, after = change.prepend.get(path, ""), change.append.get(path, "")
        edits[path] = before.encode() + wheel.read(_there(wheel, path)) + after.encode()
        more = len(before.splitlines()) + len(after.splitlines())
        where = "begins" if not after else "ends" if not before else "begins and ends"
        changes.append(f"{path} {where} with {more} more lines")
    for path in sorted(change.add):
        if path in wheel.namelist():
            raise IntegrityError(f"{wheel.filename}: {path} is there already and is to be added")
        changes.append(f"{path} was added")
    return edits, tuple(changes)


def _there(wheel: zipfile.ZipFile, path: str) -> str:
    if path not in wheel.namelist():
        raise IntegrityError(f"{wheel.filename}: {path} is not there and is to be changed")
    return path


def _text(wheel: zipfile.ZipFile, path: str) -> str:
    return wheel.read(_there(wheel, path)).decode("utf-8")


def _info(path: str, executable: bool = False) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(path, _TIME)
    info.create_system = 3  # Unix: the upper half of external_attr is the mode
    info.external_attr = (0o100755 if executable else 0o100644) << 16
    return info


def _put(derived: zipfile.ZipFile, path: str, data: bytes) -> record.Row:
    # pip installs scripts with the mode that they have in the archive.
    derived.writestr(_info(path, executable=".data/scripts/" in path), data)
    return record.of_bytes(path, data)


def _copy(
    wheel: zipfile.ZipFile, member: zipfile.ZipInfo, derived: zipfile.ZipFile, path: str
) -> record.Row:
    info = _info(path, executable=bool(member.external_attr >> 16 & 0o111))
    info.file_size = member.file_size  # decides whether the entry needs zip64
    with wheel.open(member) as raw, derived.open(info, "w") as copy:
        return record.copied(path, raw, copy)
