"""How much of a bundle a delta carries, and how much its base gives."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from manifests import bundle, delta, tree
from manifests.bundle import Manifest, Member
from manifests.console import size
from manifests.delta import Share


@dataclass(frozen=True)
class Saving:
    """What a delta carries of environment and models, and what its base gives."""

    base: str
    base_sha256: str
    carried: Share
    taken: Share

    def as_record(self) -> dict[str, Any]:
        """As --json prints it."""
        return asdict(self)

    def text(self) -> str:
        """In a sentence."""
        part = self.carried.size * 100 // max(1, self.carried.size + self.taken.size)
        return (
            f"{self.carried.files:,} files carried, {size(self.carried.size)} ({part} %); "
            f"{self.taken.files:,} taken from {self.base}, {size(self.taken.size)}"
        )


def saving(manifest: Manifest) -> Saving | None:
    """What a bundle carries and takes, of environment and models; None for a whole one."""
    made = manifest.delta
    if made is None:
        return None
    here, there = delta.split(manifest.environment, made.runs)
    parts = [m for m in manifest.members if m.role in (bundle.MODEL, bundle.ADAPTER)]
    return Saving(
        made.base,
        made.base_sha256,
        delta.share([*here, *parts]),
        delta.share([*there, *delta.taken_members(made, manifest.members)]),
    )


def expected(
    base: Manifest, base_sha256: str, environment: Sequence[tree.Entry], members: Sequence[Member]
) -> Saving:
    """What a delta would carry of an environment and of models, before it is made."""
    here, there = delta.split(environment, delta.runs_of(environment, base.environment))
    carried = set(delta.carried_members(members, base.members))
    return Saving(
        base.name,
        base_sha256,
        delta.share([*here, *(m for m in members if m in carried)]),
        delta.share([*there, *(m for m in members if m not in carried)]),
    )
