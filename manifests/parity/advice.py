"""What to say of a damaged medium that has parity: that it can be mended where it is."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from manifests.errors import BundleError, SourceError
from manifests.parity.names import RESTORER, is_spare
from manifests.reader import COPY_AGAIN


def restorable(folder: Path) -> bool:
    """Whether a folder holds parity."""
    try:
        return any(is_spare(path.name) for path in folder.iterdir())
    except OSError:
        return False


def how(folder: Path) -> str:
    """The command that mends a medium."""
    return (
        f"sh {quote(f'{folder}/install.sh')} restore --to FOLDER "
        f"(the same: sh {quote(f'{folder}/{RESTORER}')} --to FOLDER), or {COPY_AGAIN}"
    )


@contextmanager
def given(folder: Path | None) -> Iterator[None]:
    """Add to an error from reading the medium in `folder` that its parity may mend it."""
    try:
        yield
    except BundleError as error:
        if folder is not None and _of_the_medium(error) and restorable(folder):
            error.mend = how(folder)
        raise


def _of_the_medium(error: BundleError) -> bool:
    missing_volume = isinstance(error, SourceError)
    return missing_volume or COPY_AGAIN in error.mend or _unreadable(error)


def _unreadable(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno == errno.EIO:
            return True
        error = error.__cause__ or error.__context__
    return False
