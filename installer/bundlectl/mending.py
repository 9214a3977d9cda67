"""Bring listed folders back to their listing: first names, modes and links, then bytes.

Only files that are wrong are taken from the medium; what lies between them there is passed over.
"""

import gzip
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from bundlectl.frames import UNREADABLE, Frames, Mark
from bundlectl.readahead import ReadAhead
from bundlectl.replace import InTheWayError, is_file, put_file, put_folder, put_link
from manifests import archive, bundle, placement, tree
from manifests.audit.installation import Area, check_entry
from manifests.audit.report import Finding
from manifests.digests import CountingReader, Readable
from manifests.errors import Damage
from manifests.reader import COPY_AGAIN, BundleReader, MemberStream

Progress = Callable[[int], None]


@dataclass(frozen=True)
class Suspect:
    """Something that was wrong, or lies where something was."""

    area: Area
    entry: tree.Entry

    def place(self, root: Path) -> Path:
        """Where it lies in the installation at `root`."""
        return root / self.area.base / self.entry.path

    def look(self, root: Path) -> Finding | None:
        """How it differs from its entry now; the path is relative to the installation."""
        found = check_entry(self.place(root), self.entry, self.area.installed_at)
        return found and replace(found, path=f"{self.area.base}/{found.path}")


def straighten(root: Path, area: Area, wrong: set[str]) -> list[Suspect]:
    """Mend what needs no bytes: folders, links, modes. `wrong` are paths of the area's entries.

    Gives all that has to be looked at again: the wrong ones, and everything below a folder that
    had to be made anew, for it was looked at through whatever stood in its place. Raises OSError.
    """
    suspects, made = [], set()
    for entry in area.entries:
        fresh = entry.path.rpartition("/")[0] in made
        if entry.path not in wrong and not fresh:
            continue
        suspect = Suspect(area, entry)
        suspects.append(suspect)
        path = suspect.place(root)
        if entry.kind == tree.FOLDER:
            if put_folder(path, entry.mode()):
                made.add(entry.path)
        elif entry.kind == tree.LINK:
            with suppress(InTheWayError):
                put_link(path, entry)
        elif is_file(path):
            path.chmod(entry.mode())
    return suspects


@dataclass(frozen=True)
class Wanted:
    """What one member of the archive has to give."""

    member: bundle.Member
    files: Mapping[str, Suspect]  # by the path in the member's tree; "" for the member itself
    entries: Sequence[tree.Entry] = ()  # of the member's tree


def wanted(manifest: bundle.Manifest, release: str, files: Sequence[Suspect]) -> list[Wanted]:
    """The members that have to be read for the files, in the archive's order.

    A delta does not carry all of them.
    """
    by_place = {(f.area.base, f.entry.path): f for f in files if f.entry.path not in f.area.known}
    base = f"{placement.RELEASES}/{release}"
    trees = {
        bundle.ENVIRONMENT: (placement.ENVIRONMENT, manifest.packed),
        bundle.RUNTIME: (placement.RUNTIME, manifest.runtime),
    }
    found = []
    for member in manifest.members:
        if member.role in trees:
            folder, entries = trees[member.role]
            below = {
                entry.path: file
                for entry in entries
                if (file := by_place.get((base, f"{folder}/{entry.path}"))) is not None
            }
            found += [Wanted(member, below, entries)] if below else []
        elif file := by_place.get(manifest.place(member, release)):
            found.append(Wanted(member, {"": file}))
    return found


class Picker:
    """Takes wanted files out of an archive.

    `read` counts the medium's bytes, `damages` lists what is wrong with them.
    """

    def __init__(self, root: Path, progress: Progress) -> None:
        """`progress` hears of the bytes of wanted members, read or passed over."""
        self._root = root
        self._progress = progress
        self.read = 0
        self.damages: list[Damage] = []

    def run(self, reader: BundleReader, needs: Sequence[Wanted]) -> None:
        """Replace the wanted files, member by member. Damage ends the work on its member alone.

        Raises Damage where the archive ends too early, OSError.
        """
        by_path = {need.member.path: need for need in needs}
        for member in reader.manifest.members:
            need = by_path.pop(member.path, None)
            if need is None:
                reader.skip(member)
                continue
            try:
                with reader.excerpt(member) as stream:
                    self._take(stream, need)
            except Damage as damage:
                self.damages.append(damage)
            if not by_path:
                return  # nobody needs what comes then

    def _take(self, stream: MemberStream, need: Wanted) -> None:
        compressed = ReadAhead(CountingReader(stream, self._count))
        decompress = _DECOMPRESSORS.get(need.member.role)
        try:
            if decompress is None:
                self._put(need.files[""], compressed.views())
            else:
                self._take_tree(ReadAhead(decompress(compressed)), need)
        finally:
            compressed.close()
            self._progress(stream.left)

    def _count(self, count: int) -> None:
        self.read += count
        self._progress(count)

    def _take_tree(self, plain: ReadAhead, need: Wanted) -> None:
        try:
            self._pick(plain, need)
        except UNREADABLE as error:
            raise Damage(
                need.member.path, "an archive that can be read", str(error), mend=COPY_AGAIN
            ) from None
        finally:
            plain.close()  # before the stream that it reads: its thread waits for that one's bytes

    def _pick(self, stream: ReadAhead, need: Wanted) -> None:
        """Walk through a packed tree up to the last file that is wanted."""
        left = len(need.files)
        for entry in need.entries:
            _expect(stream, archive.entry_header(entry), entry.path)
            views = stream.views(entry.size)
            if entry.path in need.files:
                self._put(need.files[entry.path], views)
                left -= 1
                if not left:
                    return
            for _ in views:
                pass
            _expect(stream, archive.padding(entry.size), entry.path)

    def _put(self, file: Suspect, views: Iterator[memoryview]) -> None:
        with suppress(InTheWayError):  # it stays wrong, and is told as that
            put_file(file.place(self._root), file.entry, views, file.area.installed_at)


def _expect(stream: ReadAhead, expected: bytes, path: str) -> None:
    if expected and stream.read(len(expected)) != expected:
        raise Damage(path, "the header of a listed entry", "another one", mend=COPY_AGAIN)


def _unzstd(compressed: ReadAhead) -> Readable:
    return Frames(compressed, Mark(0, 0))


def _ungzip(compressed: ReadAhead) -> Readable:
    return cast(Readable, gzip.GzipFile(fileobj=cast(BinaryIO, compressed), mode="rb"))


_DECOMPRESSORS: Mapping[str, Callable[[ReadAhead], Readable]] = {
    bundle.ENVIRONMENT: _unzstd,
    bundle.RUNTIME: _ungzip,
}
