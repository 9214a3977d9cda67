"""`sh install.sh restore`: a whole copy of the bundle from a damaged medium with parity.

Damage is the point here, so nothing of the medium is presumed right but what install.sh has proven:
this program, and SHA256SUMS where a key or digest was given.
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from manifests.console import Console
from manifests.medium import NextMedium
from manifests.parity import restore
from manifests.parity.restore import Restored
from manifests.parity.shelf import Shelf


@dataclass(frozen=True)
class Damaged:
    """What is at hand."""

    folders: tuple[Path, ...]
    next_medium: NextMedium
    trusted: str  # sha256 of SHA256SUMS; empty where nobody vouched for one


def run(found: Damaged, target: Path, console: Console) -> Restored:
    """Restore, under a bar.

    Raises the errors of manifests.parity.restore.
    """
    with closing(Shelf(found.folders, found.next_medium)) as shelf:
        scheme = restore.find(shelf)
        with console.stage(f"restore to {target}", restore.size_of(scheme)) as progress:
            return restore.restore(shelf, scheme, target, trusted=found.trusted, progress=progress)
