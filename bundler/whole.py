"""Files that are written whole or not at all."""

from contextlib import suppress
from pathlib import Path

from manifests.errors import from_oserror


def write(path: Path, data: bytes, doing: str) -> None:
    """Write a file below another name and give it its own when it is complete.

    `doing` is for the error, "writing the lock". Raises FilesystemError.
    """
    growing = path.with_name(f".{path.name}.partial")
    try:
        growing.write_bytes(data)
        growing.replace(path)
    except OSError as error:
        raise from_oserror(error, doing, path) from None
    finally:
        with suppress(OSError):
            growing.unlink(missing_ok=True)
