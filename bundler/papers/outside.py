"""A paper may be written anywhere but into the bundle, where an audit would find it extra."""

from pathlib import Path

from manifests import sums
from manifests.errors import UsageError


def check(path: Path | None, place: Path, option: str = "--output") -> None:
    """Refuse a paper in the bundle that it is about, before anything is read.

    `place` is what a command was given: a folder, a file of a bundle, a lock. Raises UsageError.
    """
    if path is None:
        return
    folder = place.resolve()
    if not folder.is_dir():
        folder = folder.parent
        if not (folder / sums.FILE_NAME).exists():  # a lock, which lies anywhere
            return
    target = path.parent.resolve() / path.name
    if any(one.is_relative_to(folder) for one in (target, target.resolve())):
        raise UsageError(
            f"{option} {path}: would lie in the bundle, whose list does not name it",
            mend="choose another folder",
        )
