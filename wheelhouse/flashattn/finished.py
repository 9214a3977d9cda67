"""Finished wheels: kept by all that decides them, and taken again.

pip's own cache is keyed by the source alone, and would give a wheel for another GPU or torch.
"""

import platform
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from manifests import canonical
from manifests.digests import sha256
from manifests.errors import FilesystemError, IntegrityError
from manifests.lock import Build, Target, Wheel
from manifests.records import to_data
from wheelhouse import remember
from wheelhouse.store import Store


def key(
    build: Build, target: Target, compilers: Mapping[str, str], variables: Mapping[str, str]
) -> str:
    """The digest of everything that decides a build's result.

    `compilers` are what nvcc and the host compiler say of themselves, `variables` the switches of
    the source. Where the files came from does not count, and neither does the glibc that is asked
    for: it is judged when the wheel is taken.
    """
    question = {
        "source": build.sha256,
        "patches": [to_data(patch) for patch in build.patches],
        "label": build.label,
        "archs": list(build.archs),
        "environment": sorted(wheel.sha256 for wheel in build.environment),
        "python": target.python,
        "machine": platform.machine(),
        "compilers": dict(compilers),
        "variables": dict(variables),
    }
    hasher = sha256()
    hasher.update(canonical.dumps(question))
    return hasher.hexdigest()[:32]


def recall(path: Path, store: Store) -> Wheel | None:
    """The wheel that was built before; None where there is none, or its bytes went bad."""
    with suppress(OSError, ValueError, IntegrityError, FilesystemError):
        wheel = remember.recall(path, Wheel)
        store.verified(wheel.sha256, wheel.filename)
        return wheel
    return None
