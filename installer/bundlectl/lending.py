"""Mend from a delta's medium what it does not carry: its base lends it, where that is installed."""

from collections.abc import Iterable, Sequence

from bundlectl import donor
from bundlectl.diagnosis import Subject
from bundlectl.donor import Donor, Taking
from bundlectl.mending import Suspect, Wanted
from bundlectl.replace import InTheWayError, put_file
from manifests import archive
from manifests.errors import Damage


def not_carried(files: Iterable[Suspect], needs: Iterable[Wanted]) -> list[Suspect]:
    """The files that no member of the medium gives, and that have to come from somewhere."""
    given = {_place(file) for need in needs for file in need.files.values()}
    return [
        file
        for file in files
        if _place(file) not in given
        and file.entry.path not in file.area.known
        and file.entry.path != archive.MANIFEST_NAME
    ]


def _place(file: Suspect) -> tuple[str, str]:
    return file.area.base, file.entry.path


def lend(subject: Subject, files: Sequence[Suspect]) -> str:
    """Replace files by those of the base; gives a sentence about what it could not lend, or none.

    Raises OSError.
    """
    made = subject.carried.delta
    if made is None or not files:
        return ""
    base = donor.look(subject.layout.prefix, made.base_sha256)
    left = [file for file in files if base is None or not _lent(subject, base, file)]
    if not left:
        return ""
    place = left[0].place(subject.layout.prefix)
    told = (
        f"not carried: {len(left)} files, {place} for one; the medium is a delta on {made.base} "
        f"(manifest {made.base_sha256}), "
    )
    if base is None:
        return (
            f"{told}which is not installed here\n"
            "  mend: install that bundle from its medium (sh install.sh install --no-start there), "
            "then the same command again; or take the medium of the whole bundle"
        )
    return (
        f"{told}whose release {base.release} is damaged there, too\n"
        "  mend: mend that release from its own medium (sh install.sh repair there), then the same "
        "command again; or take the medium of the whole bundle"
    )


def _lent(subject: Subject, base: Donor, file: Suspect) -> bool:
    digest = file.entry.sha256
    source = base.environment.get(digest) or base.parts.get(digest)
    target = file.place(subject.layout.prefix)
    if source is None or source == target:
        return False
    try:
        put_file(target, file.entry, donor.read(Taking(source, target, file.entry)))
    except (Damage, InTheWayError):
        return False
    return True
