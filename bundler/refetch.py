"""Have one object of the cache again, which went bad after everything had been fetched."""

from collections.abc import Iterable

from bundler import conda
from bundler.locking import open_channel
from bundler.request import Request
from bundler.workshop import Workshop
from manifests.lock import CondaPackage, Lock, Wheel
from manifests.stack import Stack
from wheelhouse.fetch import Fetcher, Wanted
from wheelhouse.lockwheels import obtain
from wheelhouse.repair import origin
from wheelhouse.sources import Sources
from wheelhouse.store import Refetch


def refetcher(
    request: Request, stack: Stack, locks: Iterable[Lock], sources: Sources, workshop: Workshop
) -> Refetch:
    """What fetches, or repairs again, packages, wheels and sources of locks by their sha256.

    It raises what `bundler.conda.fetch` and `wheelhouse.lockwheels.obtain` raise.
    """
    packages: dict[str, CondaPackage] = {}
    wheels: dict[str, tuple[Wheel, str]] = {}  # and the flavour that says how it is repaired
    archives: dict[str, Wanted] = {}
    for locked in locks:
        packages |= {p.sha256: p for p in (*locked.conda, *locked.runtime_conda)}
        named = (*locked.wheels, *locked.runtime_wheels)
        for build in locked.builds:
            named += (*build.environment, *build.toolkit)
            archives[build.sha256] = Wanted(
                build.filename, build.url, build.sha256, build.size, project=build.name
            )
        named += tuple(origin(wheel) for wheel in named if wheel.derived is not None)
        wheels |= {wheel.sha256: (wheel, locked.flavour) for wheel in named}
    store = Workshop(workshop.root, workshop.tell).store

    def refetch(sha256: str) -> bool:
        fetcher = Fetcher(sources, store, offline=request.offline)
        if archive := archives.get(sha256):
            fetcher.fetch([archive])
            return True
        if package := packages.get(sha256):
            with workshop.scratch("channel") as scratch:
                conda.fetch([package], open_channel(request.channel, scratch), fetcher)
            return True
        if found := wheels.get(sha256):
            wheel, flavour = found
            offline = request.offline
            obtain([wheel], stack, flavour, sources=sources, store=store, offline=offline)
            return True
        return False

    return refetch
