"""What `sha256sum -c` takes, for an installation: one line for each file that the manifests list.

The digests are the manifests', whose own are their receipts'. The few files that conda-unpack has
changed have another digest than when they were packed: such a file is turned back first, and if it
is the one that was packed, its line has the digest that it has now; else its line has the packed
digest, which sha256sum then finds wrong.
"""

from collections.abc import Mapping
from pathlib import Path

from manifests import bundle, placement, prefix, tree
from manifests.audit.areas import Area, releases, survey
from manifests.audit.reading import Reading
from manifests.audit.trees import packed_digest
from manifests.console import ignore_progress
from manifests.errors import IntegrityError, UsageError


def check_alone(options: Mapping[str, object]) -> None:
    """Refuse what is asked of an audit where none takes place: an option's name → its value.

    Raises UsageError.
    """
    given = [name for name, value in options.items() if value]
    if given:
        raise UsageError(
            f"--sums and {', '.join(given)}: a list is printed, and nothing is audited",
            mend="leave out --sums, or the others",
        )


def render(root: Path) -> str:
    """The list, sorted by path; paths are relative to the prefix.

    Raises IntegrityError where papers are damaged: then nobody knows what ought to be there.
    UsageError where no release is installed, OSError where receipts can't be listed.
    """
    if not placement.is_installation(root) or not releases(root):
        raise UsageError(
            f"{root}: no installation",
            why="a bundle's folder has its list: SHA256SUMS",
            mend="run in that folder: sha256sum -c SHA256SUMS",
        )
    found = survey(root)
    if found.findings:
        raise IntegrityError(
            f"{root}: the papers of a release are damaged",
            findings=[str(finding) for finding in found.findings],
            mend=placement.REPAIR,
        )
    lines = {
        area.name(entry): _digest(root, area, entry)
        for area in found.areas
        for entry in area.entries
        if entry.kind == tree.FILE
    }
    return "".join(f"{lines[name]}  {name}\n" for name in sorted(lines))


def _digest(root: Path, area: Area, entry: tree.Entry) -> str:
    if entry.rewrite is None:
        return entry.sha256
    path = root / area.name(entry)
    try:
        if path.lstat().st_size > prefix.longest(entry.size, entry.rewrite, area.installed_at):
            return entry.sha256  # the wrong file, and memory may not hold it
        data = Reading().whole(path, ignore_progress)
    except OSError:
        return entry.sha256
    same = packed_digest(data, entry, area.installed_at) == entry.sha256
    return bundle.digest_of(data) if same else entry.sha256
