"""What an instance has served, in order: the way back of `bundlectl rollback`.

One line of JSON for each release and model that came into service, appended and synced (fsync). A
line that a power cut left half is no line. The truth about the present is `current` and
`state/models.json`: the history only says what was before.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bundlectl import models
from bundlectl.layout import Layout
from manifests import canonical
from manifests.errors import BundleError, IntegrityError, from_oserror
from manifests.records import from_data, to_data


@dataclass(frozen=True)
class Served:
    """A release with a model, in service since a moment."""

    release: str
    bundle: str  # the installed bundle that brought the model
    model: str
    since: int = 0  # seconds since the epoch

    @property
    def pair(self) -> tuple[str, str, str]:
        """What has to differ for two of them to be two."""
        return self.release, self.bundle, self.model


def path_of(layout: Layout) -> Path:
    """Where an instance's history is kept."""
    return layout.own_state / "history"


def load(layout: Layout) -> tuple[Served, ...]:
    """The history, the oldest first; lines that are none are passed over.

    Raises FilesystemError where it can't be read.
    """
    try:
        data = path_of(layout).read_bytes()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise from_oserror(error, "reading what was served before", path_of(layout)) from None
    found = []
    for line in data.splitlines():
        with contextlib.suppress(ValueError, IntegrityError):
            found.append(from_data(Served, canonical.loads(line + b"\n"), "history"))
    return tuple(found)


def present(layout: Layout) -> Served | None:
    """What is in service now; None where that is nothing, or its papers are damaged."""
    release = layout.current_release()
    if not release:
        return None
    try:
        model = models.to_serve(layout, release)
    except BundleError:
        return None
    return Served(release, model.bundle, model.name)


def before(layout: Layout) -> Served | None:
    """What served last that is not what serves now.

    So going back twice is going there and back, as `cd -` does. Raises FilesystemError.
    """
    now = present(layout)
    others = (one for one in reversed(load(layout)) if now is None or one.pair != now.pair)
    return next(others, None)


@contextmanager
def kept(layout: Layout) -> Iterator[None]:
    """Record what serves before and after the block, which switches.

    Before, too: an older program, or a kill right after the switch, may not have.
    """
    _note(layout)
    yield
    _note(layout)


def _note(layout: Layout) -> None:
    now, known = present(layout), load(layout)
    if now is None or (known and known[-1].pair == now.pair):
        return
    record = to_data(Served(*now.pair, since=int(time.time())))
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
    try:
        handle = os.open(path_of(layout), flags, 0o644)
        try:
            os.write(handle, _ending(handle) + canonical.dumps(record))
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise from_oserror(error, "writing what is served", path_of(layout)) from error


def _ending(handle: int) -> bytes:
    """What ends a line that was cut off; nothing where none was."""
    size = os.fstat(handle).st_size
    return b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
