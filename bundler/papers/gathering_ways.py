"""Have at hand what a lock names, as `bundle create` would: from the cache, else from its source.

Nothing is built. A wheel that `bundle create` compiles is taken where an earlier run has made it.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from bundler import conda
from bundler.locking import open_channel
from bundler.models.hub import HubSource
from bundler.papers import gathering_models
from bundler.workshop import Workshop
from manifests import stack
from manifests.bundle import digest_of
from manifests.checkpoint import Rules
from manifests.console import Console
from manifests.errors import FilesystemError, IntegrityError, UsageError, from_oserror
from manifests.lock import Adapter, Build, Lock, Model, ModelFile, Wheel
from wheelhouse import remember
from wheelhouse.fetch import Fetcher
from wheelhouse.lockwheels import obtain, volume
from wheelhouse.sources import Sources

#: The bytes of a part's papers, by path.
Papers = Mapping[str, bytes]


@dataclass(frozen=True)
class Ways:
    """Where what is missing comes from; as the flags of `bundle create` say it."""

    workshop: Workshop
    sources: Sources
    channel: str = ""  # the lock's own, unless that is a folder of some machine
    stack: str = ""  # a file, where the lock's is not one of ours
    models: tuple[Path, ...] = ()  # folders of models and adapters
    endpoint: str | None = None
    offline: bool = False


def fetch_packages(locked: Lock, ways: Ways, console: Console) -> None:
    """Have all wheels and conda packages of a lock in the store.

    Raises what `bundler.conda.fetch` and `wheelhouse.lockwheels.obtain` raise, and UsageError where
    the lock does not say where they come from.
    """
    store = ways.workshop.store
    packages = {*locked.conda, *locked.runtime_conda}
    missing = [p for p in packages if not store.usable(p.sha256, conda.filename(p), p.size)]
    fetcher = Fetcher(ways.sources, store, offline=ways.offline)
    if missing:
        with (
            ways.workshop.scratch("channel") as scratch,
            console.stage("fetch the conda packages", sum(p.size for p in missing)) as progress,
        ):
            source = open_channel(_channel(locked, ways), scratch)
            conda.fetch(missing, source, fetcher, progress)
    wheels = (*locked.wheels, *locked.runtime_wheels)
    absent = [w for w in wheels if not store.usable(w.sha256, w.filename, w.size)]
    if absent:
        with console.stage(f"fetch {len(absent)} wheels", volume(absent)) as progress:
            obtain(
                absent,
                stack.named(ways.stack or locked.stack),
                locked.flavour,
                sources=ways.sources,
                store=store,
                offline=ways.offline,
                progress=progress,
            )


def _channel(locked: Lock, ways: Ways) -> str:
    if ways.channel or locked.channel != "file":
        return ways.channel or locked.channel
    raise UsageError(
        "the lock's conda packages came from a folder, and are not in the cache",
        mend="name that folder: --channel file:///…",
    )


def built(locked: Lock, workshop: Workshop) -> tuple[Wheel, ...]:
    """The wheels that an earlier `bundle create` has compiled by a lock's recipes.

    Raises UsageError where there is none, or more than one: compilers differ in their bytes.
    """
    made: list[Wheel] = []
    for build in locked.builds:
        found = {wheel.sha256: wheel for wheel in _remembered(build, workshop)}
        if len(found) != 1:
            raise UsageError(
                f"{build.name} {build.version}+{build.label}: "
                + (f"was built {len(found)} times" if found else "was not built yet"),
                why="a lock does not pin what a compiler makes",
                mend="make the bundle with `bundle create --lock`, and name the bundle",
            )
        made += found.values()
    return tuple(made)


def _remembered(build: Build, workshop: Workshop) -> Iterator[Wheel]:
    # See wheelhouse.flashattn.building: each finished wheel is noted there.
    for note in sorted((workshop.root / "builds/wheels").glob("*.json")):
        with suppress(OSError, ValueError, IntegrityError):
            wheel = remember.recall(note, Wheel)
            of_build = wheel.derived is not None and wheel.derived.sha256 == build.sha256
            wanted = (build.name, f"{build.version}+{build.label}")
            usable = workshop.store.usable(wheel.sha256, wheel.filename, wheel.size)
            if of_build and (wheel.name, wheel.version) == wanted and usable:
                yield wheel


def part(
    one: Model | Adapter, ways: Ways, console: Console
) -> tuple[tuple[ModelFile, ...], dict[str, bytes]]:
    """The files of a part, each with its sha256, and the bytes of its papers.

    Raises UsageError where a folder has to be named, IntegrityError where it holds other bytes,
    and what the Hub's client raises.
    """
    papers = {file.path for file in gathering_models.papers(one)}
    wanted = [file for file in one.files if file.path in papers or not file.sha256]
    if not one.source.startswith("hf:"):
        return one.files, _of_folder(one, wanted, ways)
    if not wanted:
        return one.files, {}
    store = ways.workshop.store
    asked = Model(one.name, one.source, one.revision, tuple(wanted))
    repository = one.source.removeprefix("hf:")
    hub = HubSource(
        repository,
        store,
        Rules(),
        revision=one.revision,
        endpoint=ways.endpoint,
        offline=ways.offline,
    )
    with console.stage(f"look at {one.name}", sum(f.size for f in wanted)) as progress:
        got = {file.path: file for file in hub.fetch_files(asked, progress)}
    files = tuple(got.get(file.path, file) for file in one.files)
    return files, {path: read(store.path(got[path].sha256), got[path]) for path in sorted(papers)}


def _of_folder(one: Model | Adapter, wanted: list[ModelFile], ways: Ways) -> dict[str, bytes]:
    if not wanted:
        return {}
    for folder in ways.models:
        with suppress(IntegrityError, FilesystemError):
            return {file.path: read(folder / file.path, file) for file in wanted}
    given = ", ".join(map(str, ways.models))
    raise UsageError(
        f"{one.name}: its {wanted[0].path} is not in {given}"
        if given
        else f"{one.name}: its {wanted[0].path} lies in a folder that the lock does not name",
        mend="name the folder that the lock was made from: --model FOLDER",
    )


def read(path: Path, file: ModelFile) -> bytes:
    """The bytes of a file of a part.

    Raises IntegrityError where they are not the locked ones, FilesystemError.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise from_oserror(error, "reading the model", path) from None
    if digest_of(data) != file.sha256:
        raise IntegrityError(
            f"{path}: locked with sha256 {file.sha256}, found {digest_of(data)}",
            mend="restore the file, or lock the model again with `bundle lock`",
        )
    return data


def with_files(locked: Lock, files: list[tuple[ModelFile, ...]]) -> Lock:
    """The lock with these files of its models: those of adapters are pinned in it already."""
    model, *others = [
        replace(one, files=found) for one, found in zip(locked.models, files, strict=False)
    ]
    return replace(locked, model=model, others=tuple(others))
