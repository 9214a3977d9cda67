"""The cache folder and the work folders of one run.

```
objects/    the content-addressed store        packed/KEY/   packed environments, by what is in them
repodata/   channels' indexes                  work/NAME/    scratch of a running step, then gone
agreement/  what servers said of models
```
"""

import fcntl
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import UsageError, from_oserror
from wheelhouse.store import Refetch, Store, Tell, no_way, tell_nobody

#: Seconds between attempts to remove a folder.
_WAITS = (0.05, 0.2, 1.0, 3.0)


@dataclass(frozen=True)
class Workshop:
    """Everything that `bundle` keeps between runs."""

    root: Path
    tell: Tell = tell_nobody  # hears of what went bad
    refetch: Refetch = no_way  # has an object in the store again

    @property
    def store(self) -> Store:
        """What was fetched, by sha256."""
        return Store(self.root / "objects", self.tell, self.refetch)

    @property
    def repodata(self) -> Path:
        """Indexes of conda channels."""
        return self.root / "repodata"

    @property
    def packed(self) -> Path:
        """Packed environments."""
        return self.root / "packed"

    @property
    def agreement(self) -> Path:
        """What the tokenizer libraries of environments said of models."""
        return self.root / "agreement"

    @contextmanager
    def scratch(self, name: str) -> Iterator[Path]:
        """An empty folder for one step; what a killed run left in it is removed first.

        Raises UsageError where another run is at the same step, FilesystemError.
        """
        folder = self.root / "work" / name
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with folder.with_suffix(".lock").open("w") as lock:
                _lock(lock.fileno(), folder)
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                try:
                    yield folder
                finally:
                    _remove(folder)
        except OSError as error:
            raise from_oserror(error, "working in the cache folder") from error


def _remove(folder: Path) -> None:
    """Remove a folder, also where Ctrl-C comes in the middle of it."""
    try:
        _remove_patiently(folder)
    except KeyboardInterrupt:
        _remove_patiently(folder)
        raise


def _remove_patiently(folder: Path) -> None:
    # py-rattler's threads write on for a moment after it has failed or was interrupted.
    for wait in _WAITS:
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(wait)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(
            f"{folder}: another `bundle` is at work there",
            mend="wait until it has ended, or give this one another --cache",
        ) from None
