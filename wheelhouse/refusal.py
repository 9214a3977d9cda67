"""Why no wheel will do, and what would: the sentences for a person who has to mend it."""

from collections.abc import Sequence

from packaging.requirements import Requirement
from packaging.version import Version

from manifests.errors import SourceError, TargetError
from wheelhouse.fitness import NEEDS_GLIBC, NO_WHEEL, TOO_LATE, Candidate, best


def refusal(
    wanted: Requirement, everything: list[Candidate], versions: list[Candidate]
) -> SourceError | TargetError:
    """Why none of `versions` will do: the nearest and what is wrong with it, and what would do."""
    if not everything:
        return SourceError(
            f"no source has {wanted.name}",
            mend="name an index or a folder that has it (--index-url, --find-links)",
        )
    fitting = best(everything)
    mend = (
        f"the newest release with a fitting wheel is {fitting.version}"
        if fitting is not None
        else "no release has a fitting wheel: choose another target, "
        "or build the wheel and name its folder with --find-links"
    )
    if not versions:
        return SourceError(f"no source has {wanted}", mend=mend)
    newest = max(versions, key=_version).version
    same = [candidate for candidate in versions if candidate.version == newest]
    wheels = [candidate for candidate in same if candidate.unfit != NO_WHEEL]
    if not wheels:
        return SourceError(
            f"{wanted}: {newest} is only there as source",
            why="building it would run its code on this machine; only wheels are taken",
            mend=mend,
        )
    late = [candidate for candidate in wheels if candidate.unfit.startswith(TOO_LATE)]
    if late:
        mend += f"; `bundle lock --upgrade-package {wanted.name}` takes later ones into a lock"
    glibc = [candidate for candidate in wheels if candidate.unfit.startswith(NEEDS_GLIBC)]
    return TargetError(
        f"{wanted}: no wheel fits the target",
        findings=[f"{c.link.filename} {c.unfit}" for c in (late or glibc or wheels)[:6]],
        mend=mend,
    )


def too_old(
    wanted: Requirement, found: Candidate, allowed: Sequence[Candidate]
) -> TargetError | None:
    """The error for a newer release that only the target's glibc keeps out; None if there is none.

    pip takes the older one without a word, so that two targets get different versions.
    """
    newer = [
        candidate
        for candidate in allowed
        if Version(_version(candidate).public) > _version(found)
        and not candidate.link.yanked
        and candidate.unfit.startswith(NEEDS_GLIBC)
    ]
    if not newer:
        return None
    newest = max(newer, key=_version)
    return TargetError(
        f"{wanted}: {newest.link.filename} {newest.unfit}",
        why=f"the newest release that fits is {found.version}; "
        "an older release is never taken without being asked for",
        mend=f"ask for {wanted.name}=={found.version}, or for a target with a newer glibc",
    )


def _version(candidate: Candidate) -> Version:
    return candidate.version or Version("0")
