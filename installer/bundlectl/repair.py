"""Mend an installation from its medium: audit, replace just what is wrong, look at that again.

Nothing is kept between runs: whatever a kill leaves, the next run's audit finds what is still to be
done.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bundlectl import lending, managing, running, sequence
from bundlectl.diagnosis import Diagnosis
from bundlectl.install import relocate
from bundlectl.mending import Picker, Suspect, straighten, wanted
from bundlectl.outcome import Outcome, is_draft
from bundlectl.replace import InTheWayError, is_folder, put_file
from bundlectl.syncing import sync, write_whole
from manifests import FORMAT_VERSION, __version__, archive, placement, tree
from manifests.audit.installation import extras
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.medium import ArchiveStream, Medium, NextMedium, no_other_medium
from manifests.reader import BundleReader

Progress = Callable[[int], None]


def check_use(diagnosis: Diagnosis, medium: Medium) -> None:
    """Refuse to mend what runs.

    A server keeps in memory what it has loaded: it would serve on with what was found wrong. Raises
    UsageError for that, IntegrityError where this program runs from a runtime that is wrong.
    """
    subject = diagnosis.subject
    layout, paths = subject.layout, [finding.path for finding in diagnosis.wrong]
    runtime = layout.runtime(subject.release)
    broken = _below(paths, [str(runtime.relative_to(layout.prefix))])
    if broken and Path(sys.prefix).resolve().is_relative_to(runtime.resolve()):
        raise IntegrityError(
            f"{broken[0]}: wrong, and it belongs to the Python that runs this command",
            why="what is damaged can't vouch for what it does",
            mend=f"run: sh '{medium.folder}/install.sh' repair --prefix '{layout.prefix}'",
        )
    every = tuple(part.folder for part in subject.manifest.parts())
    for one in running.everything(layout):
        if used := _below(paths, (one.part, *one.models(every))):
            raise UsageError(
                f"{used[0]}: wrong, and {one.who} runs from it",
                why="it has loaded what is wrong, and would go on with it",
                mend=f"run: {managing.line(one.instance, 'stop')}; then the same command again; "
                f"then: {managing.line(one.instance, 'start')}",
            )


def _below(paths: Sequence[str], folders: Sequence[str]) -> list[str]:
    return [p for p in paths if any(p == f or p.startswith(f"{f}/") for f in folders)]


def mend(
    diagnosis: Diagnosis,
    medium: Medium,
    progress: Progress,
    *,
    remove_extra: bool = False,
    next_medium: NextMedium = no_other_medium,
) -> Outcome:
    """Replace what is wrong. Killed at any moment, a re-run continues.

    Raises as `check_use` does, FilesystemError, Damage where the medium's manifest is damaged.
    """
    check_use(diagnosis, medium)
    try:
        return _mend(diagnosis, medium, progress, remove_extra, next_medium)
    except OSError as error:
        raise from_oserror(error, "mending the installation") from error


def _mend(
    diagnosis: Diagnosis,
    medium: Medium,
    progress: Progress,
    remove_extra: bool,
    next_medium: NextMedium,
) -> Outcome:
    subject = diagnosis.subject
    root = subject.layout.prefix
    removed = [f.path for f in diagnosis.extra if remove_extra or is_draft(f)]
    for path in reversed(removed):  # what is in a folder comes after the folder
        _remove(root / path)
    suspects = _straighten(diagnosis)
    files = [s for s in suspects if s.entry.kind == tree.FILE and s.look(root)]
    for file in files:
        content = file.area.known.get(file.entry.path)
        if (file.area, file.entry.path) == (subject.areas[0], archive.MANIFEST_NAME):
            content = subject.data
        if content is not None:
            with contextlib.suppress(InTheWayError):  # it is found again below
                put_file(file.place(root), file.entry, [content])
    needs = wanted(subject.carried, subject.release, files)
    picker = Picker(root, progress)
    notes: list[str] = []
    if needs:
        stream = ArchiveStream(medium, next_medium, lambda damage: notes.append(damage.what))
        with contextlib.closing(stream):
            picker.run(BundleReader(stream, subject.carried_digest), needs)
    lacking = lending.lend(subject, lending.not_carried(files, needs))
    sync(root)
    wrong = [found for suspect in suspects if (found := suspect.look(root))]
    if not wrong:  # a receipt says that all is there
        _write_papers(diagnosis)
    left = [*wrong, *(diagnosis.papers if wrong else ()), *diagnosis.others]
    for area in subject.areas:
        strangers = extras(root / area.base, area.entries)
        left += [dataclasses.replace(f, path=f"{area.base}/{f.path}") for f in strangers]
    paths = {finding.path for finding in left}
    return Outcome(
        prefix=str(root),
        release=subject.release,
        manifest_sha256=subject.digest,
        mended=tuple(f for f in diagnosis.mendable if f.path not in paths),
        removed=tuple(removed),
        left=tuple(left),
        medium=(*notes, *(damage.what for damage in picker.damages)),
        read=picker.read,
        lacking=lacking,
    )


def _straighten(diagnosis: Diagnosis) -> list[Suspect]:
    """Everything that needs no bytes; gives what has to be looked at again."""
    root = diagnosis.subject.layout.prefix
    suspects: list[Suspect] = []
    for area in diagnosis.subject.areas:
        start = f"{area.base}/"
        wrong = {f.path.removeprefix(start) for f in diagnosis.wrong if f.path.startswith(start)}
        if wrong:
            _check_base(root / area.base)
            suspects += straighten(root, area, wrong)
    return suspects


def _check_base(folder: Path) -> None:
    """Have an area's own folder.

    Raises IntegrityError where something else is in its place: an operator's link, perhaps.
    """
    if is_folder(folder):
        return
    try:
        folder.mkdir()
    except FileExistsError:
        raise IntegrityError(f"{folder}: no folder, but one has to be", mend="remove it") from None
    folder.chmod(0o755)


def _remove(path: Path) -> None:
    if is_folder(path):
        path.rmdir()
    else:
        path.unlink(missing_ok=True)


def _write_papers(diagnosis: Diagnosis) -> None:
    """The receipt and the command, where they are wrong."""
    subject = diagnosis.subject
    layout = subject.layout
    if subject.receipt is None:
        if subject.manifest.environment:  # it may be that the installation ended before this
            relocate(layout.environment(subject.release))
        # Before the receipt, as an installation does. A record that is damaged stays as it is: what
        # it said of other products is nobody's to invent.
        with contextlib.suppress(IntegrityError):
            highest = sequence.load(layout).with_(subject.manifest)
            write_whole(sequence.path_of(layout), highest.dump(), 0o644)
        receipt = placement.Receipt(
            schema=FORMAT_VERSION,
            release=subject.release,
            manifest_sha256=subject.digest,
            prefix=str(layout.prefix),
            installed=int(time.time()),
            tool=f"vllm-bundle {__version__}",
        )
        path = placement.receipt_path(layout.prefix, subject.release)
        write_whole(path, receipt.dump(), 0o644)
    if str(layout.command.relative_to(layout.prefix)) in {f.path for f in diagnosis.papers}:
        write_whole(layout.command, subject.command_text(), 0o755)
