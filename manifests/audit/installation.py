"""Audit an installed tree, on all cores."""

import os
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from manifests import placement, tree
from manifests.audit.areas import Area as Area
from manifests.audit.areas import areas as areas
from manifests.audit.areas import release_entries as release_entries
from manifests.audit.areas import releases, survey
from manifests.audit.how import How
from manifests.audit.memory import Memory, Resumed, open_memory
from manifests.audit.reading import Reading
from manifests.audit.report import EXTRA, INSTALLATION, UNREADABLE, Finding, Report
from manifests.audit.sampling import Sampled
from manifests.audit.trees import audit_tree as audit_tree
from manifests.audit.trees import check_bytes, differences, labelled
from manifests.audit.trees import check_entry as check_entry
from manifests.audit.trees import extras as extras
from manifests.console import Progress, ignore_progress
from manifests.digests import workers
from manifests.errors import UsageError

#: Bytes from which a file is begun with: one that is left to the end keeps one core busy alone.
_LARGE = 16 << 20


class InstallationAudit:
    """An audit of every complete release, and of the models that they serve."""

    def __init__(self, root: Path, how: How = How(), skip: Collection[str] = ()) -> None:  # noqa: B008 - frozen
        """Find out what is to be read. Raises UsageError, FilesystemError of what is resumed."""
        self._root, self._how, self._skip = root, how, skip
        self._survey = survey(root, skip)
        self._files = self._survey.files()
        # An empty file is known by its length.
        filled = {name: entry for name, entry in self._files.items() if entry.size}
        self._filled = filled
        self._drawn = how.sample.draw(filled) if how.sample else filled.keys()
        self._memory = self._remembered() if how.resume is not None else None
        self._held: list[int] = []  # bytes of files that were not read again

    @property
    def size(self) -> int:
        """Bytes that are to be read."""
        memory = self._memory
        left = self._drawn if memory is None else [n for n in self._drawn if not self._holds(n)]
        return sum(self._filled[name].size for name in left)

    def _remembered(self) -> Memory:
        sample, path = self._how.sample, self._how.resume
        assert path is not None
        about = {
            "path": str(self._root.resolve()),
            "manifests": list(self._survey.digests),
            "areas": [[area.base, area.installed_at] for area in self._survey.areas],
            "sample": sample.wish if sample else "",
            "seed": sample.seed if sample else "",
        }
        return open_memory(path, about)

    def _holds(self, name: str) -> bool:
        assert self._memory is not None
        try:
            return self._memory.holds(name, (self._root / name).lstat())
        except OSError:
            return False

    def run(self, progress: Progress = ignore_progress) -> Report:
        """Compare everything. Raises FilesystemError where what is found can't be kept."""
        reading = Reading(progress, self._how.rate)
        try:
            findings = list(self._survey.findings)
            results = iter(self._check_all(reading))
            for area in self._survey.areas:
                if area.entries:
                    found = [finding for _ in area.entries for finding in next(results)]
                    told = {finding.path for finding in found}
                    found += extras(self._root / area.base, area.entries, told)
                    findings += labelled(found, area.base)
            known = {area.base for area in self._survey.areas}
            findings += _strangers(self._root, {*known, *self._skip})
            if self._memory is not None:
                self._memory.done()
        finally:
            if self._memory is not None:
                self._memory.close()
        return self._report(tuple(findings))

    def _check_all(self, reading: Reading) -> list[list[Finding]]:
        """The findings of each entry of all areas, in order, however they are spread over cores."""
        every = [(area, entry) for area in self._survey.areas for entry in area.entries]
        results: list[list[Finding]] = [[] for _ in every]

        def check(place: int) -> None:
            results[place] = self._check(reading, *every[place])

        order = list(range(len(every)))
        if self._memory is None:  # else an interruption finds few files read to their end
            order.sort(key=lambda place: -max(every[place][1].size - _LARGE, 0))
        with ThreadPoolExecutor(self._how.jobs or workers()) as pool:
            try:
                for _ in pool.map(check, order):
                    pass
            except BaseException:
                reading.stop()  # else a thread first reads its file of 50 GB to the end
                raise
        return results

    def _check(self, reading: Reading, area: Area, entry: tree.Entry) -> list[Finding]:
        name, told = area.name(entry), 0
        planned = entry.size if name in self._drawn else 0

        def tell(count: int) -> None:
            nonlocal told
            told += count
            reading.passed(count)

        def check(
            path: Path, entry: tree.Entry, installed_at: str, status: os.stat_result
        ) -> Finding | None:
            nonlocal planned
            if entry.size and name not in self._drawn:
                return None
            memory = self._memory if entry.size else None
            if memory is not None and memory.holds(name, status):
                self._held.append(entry.size)
                planned = 0
                return None
            begun = time.time_ns()
            found = check_bytes(reading, tell, path, entry, installed_at, status)
            if found is None and memory is not None:
                memory.add(name, status, begun)
            return found

        found = list(differences(self._root / name, entry, area.installed_at, check))
        if planned != told:  # something else was wrong, or its length is another
            reading.passed(planned - told)
        return found

    def _report(self, findings: tuple[Finding, ...]) -> Report:
        sizes = [entry.size for area in self._survey.areas for entry in area.entries]
        drawn, filled = self._drawn, self._filled
        sampled, resumed = None, None
        if self._how.sample is not None:
            read, whole = (sum(filled[name].size for name in names) for names in (drawn, filled))
            sampled = Sampled(self._how.sample.seed, len(drawn), len(filled), read, whole)
        if self._held and self._memory is not None:
            resumed = Resumed(len(self._held), sum(self._held), self._memory.since)
        return Report(
            INSTALLATION,
            str(self._root),
            self._survey.digests,
            len(sizes),
            sum(sizes),
            findings,
            self._survey.risks,
            len(self._files) - len(filled) + len(drawn),
            sampled,
            resumed,
        )


def audit_installation(root: Path, progress: Progress = ignore_progress) -> Report:
    """Audit every complete release of an installation, and the models that they serve.

    Raises UsageError where no release is installed.
    """
    return prepare_installation(root).run(progress)


def prepare_installation(root: Path, how: How = How()) -> InstallationAudit:  # noqa: B008 - frozen
    """An audit of an installation, before anything of it is read.

    Raises UsageError where no release is installed, OSError where receipts can't be listed.
    """
    if not releases(root):
        raise UsageError(f"{root}: no release is installed", mend="install one: sh install.sh")
    return InstallationAudit(root, how)


def audit_releases(
    root: Path, progress: Progress = ignore_progress, skip: Collection[str] = ()
) -> Report:
    """Audit all releases, without the areas whose bases are in `skip`."""
    return InstallationAudit(root, skip=skip).run(progress)


def audit_area(root: Path, area: Area, progress: Progress = ignore_progress) -> list[Finding]:
    """Compare one folder of the installation at `root` with its listing."""
    return audit_tree(root / area.base, area.entries, area.installed_at, area.base, progress)


def _strangers(root: Path, known: set[str]) -> list[Finding]:
    """Folders beside the releases and models; those that come or go are bundlectl's business."""
    findings = []
    for area in (placement.RELEASES, placement.MODELS):
        try:
            names = sorted(path.name for path in (root / area).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue  # what ought to lie there is missed one by one
        except OSError as error:
            findings.append(Finding(UNREADABLE, area, found=error.strerror or str(error)))
            continue
        findings += [
            Finding(EXTRA, f"{area}/{name}", found="not named by any receipt")
            for name in names
            if f"{area}/{name}" not in known
            and not name.endswith((placement.PARTIAL, placement.TRASH))
        ]
    return findings
