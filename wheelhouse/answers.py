"""Resolutions that were made before, each under the digest of its question."""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from manifests import canonical
from manifests.digests import sha256
from manifests.errors import IntegrityError, SourceError
from manifests.lock import Target, Wheel
from wheelhouse import remember
from wheelhouse.sources import Sources, local_path
from wheelhouse.store import Store


@dataclass(frozen=True)
class Resolution:
    """One answer, as it is kept."""

    flavour: str
    wheels: tuple[Wheel, ...]
    notes: tuple[str, ...] = ()  # what was passed over, and why
    provided: tuple[str, ...] = ()  # names of what an environment below has


def place(store: Store, question: list[object], target: Target, sources: Sources) -> Path:
    """Where the answer to a question is kept; local folders count with what they hold now."""
    folders = [path for place in sources.find_links if (path := local_path(place)) is not None]
    files = [
        [file.name, file.stat().st_size, file.stat().st_mtime_ns]
        for folder in folders
        if folder.is_dir()
        for file in sorted(folder.iterdir())
    ]
    # Its GPUs and driver say which stack is taken, not which wheels of it.
    host = [target.python, target.glibc, target.arch]
    hasher = sha256()
    hasher.update(canonical.dumps([question, host, list(sources.public()), files]))
    return store.root.parent / "resolutions" / f"{hasher.hexdigest()}.json"


def recall(path: Path, constant: bool, offline: bool) -> Resolution | None:
    """An answer given before; one that may have changed only where nobody may be asked.

    Raises SourceError where there is none and nobody may be asked.
    """
    if path.is_file() and (constant or offline):
        with suppress(OSError, ValueError, IntegrityError):  # it went bad: ask again
            return remember.recall(path, Resolution)
    if offline:
        raise SourceError(
            "--offline, and this stack was not resolved before for this target and these sources",
            mend="run once without --offline, or follow a bundle.lock",
        )
    return None
