"""The records that bundlectl keeps in its state folder."""

from pathlib import Path
from typing import TypeVar

from manifests import canonical, regular
from manifests.errors import IntegrityError, from_oserror
from manifests.records import from_data

T = TypeVar("T")


def load(path: Path, empty: T, doing: str, unknown: str, mend: str) -> T:
    """The record in a file; `empty` where there is no file.

    `doing` is for a file that can't be read, `unknown` and `mend` say what nobody can tell where it
    is damaged. Raises FilesystemError, IntegrityError.
    """
    try:
        return from_data(type(empty), canonical.loads(regular.read(path)), path.name)
    except FileNotFoundError:
        return empty
    except OSError as error:
        raise from_oserror(error, doing, path) from None
    except (ValueError, IntegrityError) as error:
        raise IntegrityError(f"{path}: damaged, so {unknown}", why=str(error), mend=mend) from None
