"""Records that are kept between runs: sealed, so that one that went bad is seen, and whole."""

from pathlib import Path
from typing import Any, TypeVar

from manifests import canonical
from manifests.records import from_data, to_data
from wheelhouse.store import make_way

T = TypeVar("T")


def keep(path: Path, record: Any) -> None:
    """Keep a record (a dataclass) for the next run.

    Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_suffix(".partial")
    growing.write_bytes(canonical.sealed(to_data(record)))
    make_way(path)
    growing.rename(path)


def recall(path: Path, kind: type[T]) -> T:
    """A record that was kept before.

    Raises OSError, ValueError or IntegrityError where it is not there or went bad.
    """
    return from_data(kind, canonical.unsealed(path.read_bytes()), path.name)
