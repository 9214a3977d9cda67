"""What every source of models offers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import Protocol

from manifests import digests
from manifests.checkpoint import Checkpoint, Rules
from manifests.errors import IntegrityError, from_oserror
from manifests.lock import Model, ModelFile
from wheelhouse.store import Progress, silent


@dataclass(frozen=True)
class Snapshot:
    """A model's files as they lie on this machine.

    Files from a Hub were compared with the published digests; those of a folder lie in the open
    and may change. Either way, pack them through `stream`, which hashes what it hands out.
    """

    model: Model  # every file with its sha256
    files: Mapping[str, Path]
    checkpoint: Checkpoint


class ModelSource(Protocol):
    """One place that has one model."""

    def reads(self) -> int:
        """Bytes that `lock` reads, for a progress bar."""
        ...

    def has(self, model: Model) -> bool:
        """Whether a locked model can be this one, as far as the names tell; reads nothing."""
        ...

    def lock(self, progress: Progress = silent) -> Model:
        """Pin the model: revision, files, sizes and digests.

        Raises SourceError where there is no such model, UsageError and IntegrityError where it
        is seen already that it can't be served.
        """
        ...

    def fetch(self, model: Model, progress: Progress = silent) -> Snapshot:
        """Get what was locked; `progress` counts up to the sum of the files' sizes.

        A restarted file takes its bytes back, so that the count may fall. Raises IntegrityError
        naming the file and both digests where the source no longer has what was locked;
        SourceError, FilesystemError, and what `manifests.checkpoint.inspect` raises.
        """
        ...


def locked_rules(rules: Rules, model: Model) -> Rules:
    """The rules for a model that was locked: what was allowed then, and nothing else."""
    allowed = Rules.allowing(model.risks)
    return replace(rules, pickle=allowed.pickle, remote_code=allowed.remote_code)


def serialised(progress: Progress) -> Progress:
    """A progress callback that several threads may call."""
    lock = Lock()

    def count(size: int) -> None:
        with lock:
            progress(size)

    return count


def stream(path: Path, file: ModelFile, start: int = 0) -> Iterator[memoryview]:
    """The bytes of a file from `start` on, hashed as they pass; a view is valid until the next.

    Of a part only the length is compared: who asks for one has the digest of the rest.

    Raises IntegrityError, at the latest after the last view, where they are not what `file` says;
    FilesystemError where they can't be read.
    """
    hasher, size = digests.sha256(), start
    try:
        with path.open("rb", buffering=0) as handle:
            handle.seek(start)
            for view in digests.chunks(handle):
                hasher.update(view)
                size += len(view)
                if size > file.size:
                    break
                yield view
    except OSError as error:
        raise from_oserror(error, "reading the model", path) from error
    if size != file.size:
        found = f"more than {file.size}" if size > file.size else str(size)
        raise changed(file.path, f"{file.size} bytes", f"{found} bytes")
    if not start and hasher.hexdigest() != file.sha256:
        raise changed(file.path, f"sha256 {file.sha256}", hasher.hexdigest())


def changed(path: str, locked: str, found: str) -> IntegrityError:
    """The error for a file that is no longer what the lock says."""
    return IntegrityError(
        f"{path}: locked with {locked}, found {found}",
        why="the file was changed after the model was locked, or the disk is failing",
        mend="restore the file, or lock the model again with `bundle lock`",
    )
