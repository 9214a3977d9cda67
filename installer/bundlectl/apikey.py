"""The API key: made once, kept in one file that only its owner reads."""

import contextlib
import os
import re
import secrets
import stat
from pathlib import Path

from manifests import synced
from manifests.errors import BundleError, UsageError, from_oserror

#: What an HTTP header and every shell carry unchanged.
_KEY = re.compile(r"[A-Za-z0-9_.~+/=-]{16,512}")


def ensure(path: Path) -> str:
    """The key of an installation, made now if there is none.

    Raises FilesystemError, UsageError as `read` does.
    """
    if path.exists():
        return read(path)
    key = secrets.token_urlsafe(32)
    # A full file under its name or none: written beside it, then linked, which never overwrites.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        synced.write(draft, f"{key}\n".encode("ascii"), 0o600, new=False)
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise from_oserror(error, "writing the API key", path) from error
    finally:
        draft.unlink(missing_ok=True)
    return read(path)


def read(path: Path) -> str:
    """The key in a file.

    Raises UsageError where it is missing, readable by others, or can't be a key.
    """
    try:
        with path.open(encoding="ascii") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            key = file.read(4096).strip()
    except FileNotFoundError:
        raise _unusable(
            path, "there is no API key", "run: bundlectl start, which makes one"
        ) from None
    except UnicodeDecodeError:
        key, mode = "", 0o600
    except OSError as error:
        raise from_oserror(error, "reading the API key", path) from error
    if mode & 0o077:
        raise _unusable(path, f"others may read it (mode {mode:04o})", f"run: chmod 600 '{path}'")
    if not _KEY.fullmatch(key):
        raise _unusable(
            path,
            "it does not hold a key: one line of 16 to 512 letters, digits and ._~+/=-",
            "delete the file; the next start makes a new key",
        )
    return key


def _unusable(path: Path, why: str, mend: str) -> BundleError:
    return UsageError(f"{path}: no usable API key", why=why, mend=mend)
