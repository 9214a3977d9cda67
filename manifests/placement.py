"""Where an installation keeps what the manifest lists, below its prefix.

```
releases/ID/{bundle.json,bundle.lock,env/,runtime/}   models/NAME@REVISION/   current -> releases/ID
state/receipts/ID.json   etc/   cache/   bin/
```
"""

import contextlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from manifests import archive, bundle, canonical, regular
from manifests.errors import IntegrityError, UsageError
from manifests.names import MEDIA_NAME
from manifests.overlay import Base
from manifests.records import from_data, to_data

RELEASES, MODELS, CURRENT = "releases", "models", "current"
ENVIRONMENT, RUNTIME = "env", "runtime"
RECEIPTS = Path("state/receipts")
_ROOT = 0  # uid
#: What an interrupted install leaves ends in this, and is continued or replaced by the next.
PARTIAL = ".partial"
#: What is on its way out ends in this; what a kill leaves of it is removed by the next prune.
TRASH = ".trash"
#: What mends an installation.
REPAIR = "sh install.sh repair, from the bundle's medium (or: bundlectl repair --from MEDIA)"


@dataclass(frozen=True)
class Receipt:
    """Written last when a release is installed; without it a release is not complete."""

    schema: int
    release: str
    manifest_sha256: str
    prefix: str  # where it was installed; the environment's files name this path
    installed: int  # seconds since the epoch
    tool: str
    ignored: tuple[str, ...] = ()  # preflight checks that the operator chose to ignore
    base: Base | None = None  # what an overlay was put on

    def dump(self) -> bytes:
        """The canonical bytes of the receipt."""
        return canonical.dumps(to_data(self))


def receipt_path(prefix: Path, release: str) -> Path:
    """Where a release's receipt lies."""
    return prefix / RECEIPTS / f"{release}.json"


def load_receipt(path: Path) -> Receipt:
    """Read a receipt.

    It counts only as root's, or as that of whoever owns the release: a service account owns
    `state/`, and what a receipt names is run and repaired. Raises IntegrityError where it is not
    one; OSError where it can't be read.
    """
    owners = {_ROOT, *_owner(path.parents[len(RECEIPTS.parts)] / RELEASES / path.stem)}
    try:
        data = canonical.loads(regular.read(path, owners=owners))
        return from_data(Receipt, data, path.name, exact=True)
    except ValueError as error:
        # Only install.sh can say which manifest is meant, where the receipt can't.
        raise IntegrityError(
            f"{path}: not a receipt ({error})",
            mend="sh install.sh repair, from the bundle's medium",
        ) from None


def _owner(folder: Path) -> tuple[int, ...]:
    """Who owns a release; nobody, where an interrupted removal has left no folder."""
    with contextlib.suppress(FileNotFoundError):
        return (folder.stat().st_uid,)
    return ()


def installed_releases(prefix: Path) -> list[str]:
    """The names of all complete releases, sorted."""
    folder = prefix / RECEIPTS
    if not folder.is_dir():
        return []
    return sorted(path.stem for path in folder.glob("*.json"))


def current_release(prefix: Path) -> str:
    """The name of the release that `current` points to; empty where there is none."""
    try:
        return (prefix / CURRENT).readlink().name
    except OSError:
        return ""


#: A switch looks at the same one time and again, and parsing takes most of a second. The bytes are
#: read and compared with the receipt each time.
_parsed = lru_cache(maxsize=1)(bundle.parse)


def load_manifest(prefix: Path, release: str) -> tuple[bundle.Manifest, str]:
    """The manifest of an installed release, and its sha256, which has to be the receipt's.

    Raises UsageError where the release is not installed, IntegrityError where its papers differ.
    """
    if not MEDIA_NAME.fullmatch(release) or not receipt_path(prefix, release).exists():
        known = ", ".join(installed_releases(prefix)) or "none"
        raise UsageError(f"{release!r} is not installed in {prefix}", mend=f"installed: {known}")
    receipt = load_receipt(receipt_path(prefix, release))
    path = prefix / RELEASES / release / "bundle.json"
    try:
        data = regular.read(path, archive.MANIFEST_LIMIT)
    except OSError as error:
        raise IntegrityError(f"{path}: {error.strerror}", mend=REPAIR) from None
    digest = bundle.digest_of(data)
    if digest != receipt.manifest_sha256:
        raise IntegrityError(
            f"{path}: sha256 {digest}, the receipt says {receipt.manifest_sha256}",
            mend=REPAIR,
        )
    return _parsed(data), digest


def is_installation(prefix: Path) -> bool:
    """Whether a folder is an installation of ours."""
    return (prefix / RECEIPTS).is_dir()
