"""Unpack a bundle in one pass: each byte of the media is read once, checked, and written once.

Everything goes into folders whose names end in `.partial`, from which nothing is started. A
member enters the journal when its digest was right and its bytes are synced (syncfs, and fsync of
the journal); a large one also block by block (see `taking`). Folders get their names when all their
members have. So a kill at any moment costs at most one block, and neither disk nor medium does the
rest again. What a delta does not carry is copied from its base after the last member; the next run
keeps the copies that are right.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from bundlectl import donor as donors
from bundlectl.journal import Journal, forget_others, journal_path
from bundlectl.replace import put_file, put_folder, put_link
from bundlectl.syncing import sync
from bundlectl.taking import StaleStart, Taker, remove, with_folders
from manifests import bundle, overlay, placement, tree
from manifests.errors import from_oserror
from manifests.reader import BundleReader

__all__ = ["StaleStart", "Unpacker", "sync"]

Progress = Callable[[int], None]


class Unpacker:
    """Takes one bundle's members to their places below a prefix."""

    def __init__(
        self,
        prefix: Path,
        reader: BundleReader,
        progress: Progress,
        base: overlay.Base | None = None,
        donor: donors.Donor | None = None,
    ) -> None:
        """`base` is what an overlay is put on, `donor` what a delta takes files from."""
        assert (donor is None) == (reader.manifest.delta is None)
        self._reader = reader
        self._base = base
        self._donor = donor
        self._progress = progress
        self._counted = 0
        self._prefix = prefix
        self.release = reader.whole.release
        self._release_folder = prefix / placement.RELEASES / self.release
        self._journal_path = journal_path(prefix, reader.digest)
        self._partial_release = _partial(self._release_folder)

    def run(self, keep: Collection[str] = ()) -> None:
        """Unpack what is not there yet, and name the folders.

        `keep` names the folders of models and adapters (bundle.Part.folder) that were found intact.
        Raises Damage for wrong bytes, FilesystemError where the disk fails; a re-run continues.
        Raises StaleStart where what an earlier run has left of a member may be what is wrong: that
        is not used again, and the caller starts once more, with another reader, before anybody is
        sent for a new medium. Members left to continue get fewer each time.
        """
        try:
            self._run(keep)
        except StaleStart:
            self._progress(-self._counted)
            raise
        except OSError as error:
            raise from_oserror(error, "unpacking the bundle") from error

    def _run(self, keep: Collection[str]) -> None:
        manifest = self._reader.manifest
        # The caller found it damaged, as a run leaves it that was cut off inside conda-unpack.
        remove(self._release_folder)
        fresh = not self._partial_release.exists()
        forget_others(self._journal_path)  # bundles share the folders of models
        journal = Journal(self._journal_path)
        if fresh:  # a journal without its folder says nothing
            journal.remove()
        self._partial_release.mkdir(exist_ok=True)
        wanted = [part.folder for part in manifest.parts() if part.folder not in keep]
        begun = [_partial(self._prefix / folder) for folder in wanted]
        for partial in begun:
            if fresh or not partial.exists():
                journal.remove()
                remove(partial)
                partial.mkdir()
        taker = Taker(self._reader, journal, self._count)
        for member in manifest.members:
            if member.path in journal or manifest.place(member, self.release)[0] in keep:
                self._reader.skip(member)
                self._count(member.size)
            else:
                self._take(taker, member)
                sync(self._place(member)[0])
                journal.add(member.path)
        self._reader.finish()
        if self._donor is not None:
            self._take_from(self._donor, keep)
            for partial in begun:
                sync(partial)
        if self._base is not None:
            _put_on(self._base, manifest.environment, self._partial_release / placement.ENVIRONMENT)
        (self._partial_release / "bundle.json").write_bytes(self._reader.whole.data)
        (self._partial_release / "bundle.json").chmod(0o644)
        sync(self._partial_release)
        for folder, partial in zip(wanted, begun, strict=True):
            remove(self._prefix / folder)
            partial.rename(self._prefix / folder)
        self._partial_release.rename(self._release_folder)
        sync(self._release_folder)
        journal.remove()

    def _take(self, taker: Taker, member: bundle.Member) -> None:
        trees = {
            bundle.ENVIRONMENT: (self._reader.manifest.packed, placement.ENVIRONMENT),
            bundle.RUNTIME: (self._reader.manifest.runtime, placement.RUNTIME),
        }
        if member.role in trees:
            entries, name = trees[member.role]
            taker.archive(member, entries, self._partial_release / name)
        else:
            taker.file(member, *self._place(member))

    def _take_from(self, donor: donors.Donor, keep: Collection[str]) -> None:
        """Copy what a delta has not carried."""
        carried = self._reader.manifest

        def place(member: bundle.Member) -> Path | None:
            kept = carried.place(member, self.release)[0] in keep
            return None if kept else with_folders(*self._place(member))

        environment = self._partial_release / placement.ENVIRONMENT
        files = donors.missing(carried, donor, environment, place)
        donors.take(donor, files, self._count)

    def _place(self, member: bundle.Member) -> tuple[Path, str]:
        """The partial folder that a member belongs to, and its path below that."""
        folder, path = self._reader.manifest.place(member, self.release)
        return _partial(self._prefix / folder), path

    def _count(self, count: int) -> None:
        self._counted += count
        self._progress(count)


def _partial(folder: Path) -> Path:
    return folder.with_name(folder.name + placement.PARTIAL)


def _put_on(base: overlay.Base, environment: Sequence[tree.Entry], root: Path) -> None:
    """Write what puts an overlay's environment on top of its base; again after a kill."""
    content = {entry.path: data for entry, data in overlay.generated(base)}
    for entry in overlay.installed(environment, base)[len(environment) :]:
        path = root / entry.path
        if entry.kind == tree.FOLDER:
            put_folder(path, entry.mode())
        elif entry.kind == tree.LINK:
            put_link(path, entry)
        else:
            put_file(path, entry, [content[entry.path]])
