"""`bundle.lock`: all that goes into a bundle, pinned by the digest that its source published."""

from dataclasses import dataclass
from pathlib import Path

from manifests import canonical
from manifests.digests import sha256
from manifests.errors import IntegrityError, UsageError
from manifests.names import DIGEST, MEDIA_NAME, check_path
from manifests.overlay import Overlay
from manifests.records import from_data, to_data
from manifests.risks import Risk

#: Where a digest comes from. A digest of kind COMPUTED protects the way from here on, and no more.
PUBLISHED, COMPUTED = "published", "computed here"


@dataclass(frozen=True)
class Target:
    """The isolated host as it was described; never guessed from the builder."""

    gpus: tuple[str, ...]  # compute capabilities as "sm_86", or "cpu"
    glibc: str  # highest glibc that may be asked for, "2.31"
    python: str  # "3.11"
    arch: str = "x86_64"
    driver: str = ""  # NVIDIA driver release, "535.104"; empty where there is none
    gpu_memory: int = 0  # bytes of the smallest GPU; 0: not known
    gpu_count: int = 0  # 0: not known


@dataclass(frozen=True)
class CondaPackage:
    """One conda package. `url` is public; the channel `host` has `host:SUBDIR/FILE`."""

    name: str
    version: str
    build: str
    subdir: str
    url: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Derived:
    """How a repaired artefact came from a published one."""

    origin: str  # file name of the origin
    url: str
    sha256: str  # of the origin
    digest_from: str  # PUBLISHED or COMPUTED
    changes: tuple[str, ...]  # one sentence each
    size: int = 0  # bytes of the origin; 0 where its source does not say


@dataclass(frozen=True)
class Wheel:
    """One wheel.

    `url` is public and without secrets; local folders give `file:FILENAME`, repairs
    `derived:FILENAME`.
    """

    name: str  # normalised (PEP 503)
    version: str
    filename: str
    url: str
    sha256: str
    digest_from: str = PUBLISHED
    derived: Derived | None = None
    size: int = 0  # bytes; 0 where the source does not say


@dataclass(frozen=True)
class ModelFile:
    """One file of a model snapshot. A Hub publishes sha256 (LFS) or a git blob id for each."""

    path: str
    size: int
    sha256: str = ""  # empty until the bytes were seen, where only a git blob id is published
    git_blob: str = ""
    digest_from: str = PUBLISHED


@dataclass(frozen=True)
class Model:
    """A model at one commit. `source` is `hf:ORG/NAME` or `folder:NAME`."""

    name: str  # what the server calls it
    source: str
    revision: str  # commit id; for a folder the digest of its listing
    files: tuple[ModelFile, ...]
    licence: str = ""
    risks: tuple[Risk, ...] = ()  # that were allowed, so that whoever follows the lock sees them


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter at one commit; as a `Model`, and what its server has to know of it."""

    name: str  # what requests call it
    source: str
    revision: str
    base: str  # name of the model that it changes
    rank: int  # the largest of its modules' ranks
    files: tuple[ModelFile, ...]
    licence: str = ""


@dataclass(frozen=True)
class Patch:
    """One text of a source that is replaced, everywhere in one file, before it is built."""

    path: str  # below the source's top folder
    old: str
    new: str
    reason: str
    sha256: str  # of the patched file


@dataclass(frozen=True)
class Build:
    """How one wheel is built from its published source; its Python and glibc are the target's.

    The result is not pinned: compilers differ in their bytes. It is described by a `Wheel` whose
    `derived` names the source.
    """

    name: str  # normalised (PEP 503)
    version: str  # as published
    label: str  # local version of the result (PEP 440), which says what it was built for
    filename: str  # of the source archive
    url: str  # as in `Wheel`
    sha256: str
    archs: tuple[str, ...]  # what its setup.py is asked for: "80" is sm_80
    units: int  # translation units
    torch: str  # version that it is compiled and linked against
    cuda: str  # release of CUDA that this torch was built with, "12.8"
    environment: tuple[Wheel, ...]  # torch, what it requires, and the build tools
    toolkit: tuple[Wheel, ...] = ()  # compilers, for a machine that has none of that release
    patches: tuple[Patch, ...] = ()
    digest_from: str = PUBLISHED
    size: int = 0  # bytes of the source archive; 0 where the source does not say


@dataclass(frozen=True)
class Lock:
    """The pinned content of one bundle. `model` is the one that is served by default."""

    schema: int
    created: int  # seconds since the epoch; the time of every byte in the bundle
    target: Target
    stack: str
    channel: str  # public URL or "host"
    flavour: str  # which of the stack's flavours was taken
    conda: tuple[CondaPackage, ...]
    runtime_conda: tuple[CondaPackage, ...]
    wheels: tuple[Wheel, ...]
    runtime_wheels: tuple[Wheel, ...]
    model: Model
    builds: tuple[Build, ...] = ()
    others: tuple[Model, ...] = ()
    adapters: tuple[Adapter, ...] = ()
    overlay: Overlay | None = None  # then `conda` has no Python in it

    @property
    def models(self) -> tuple[Model, ...]:
        """The models, the default one first."""
        return (self.model, *self.others)

    @property
    def risks(self) -> tuple[str, ...]:
        """Files of its models that can run code where they are loaded, a sentence each."""
        return tuple(f"{one.name}: {risk.text()}" for one in self.models for risk in one.risks)

    @property
    def parts(self) -> tuple[Model | Adapter, ...]:
        """The models and adapters, in the order in which a bundle holds them."""
        return (*self.models, *self.adapters)

    def dump(self) -> bytes:
        """The canonical bytes of the lock."""
        return canonical.dumps(to_data(self))

    def digest(self) -> str:
        """sha256 of the canonical bytes."""
        hasher = sha256()
        hasher.update(self.dump())
        return hasher.hexdigest()


SCHEMA = 1


def load(path: Path) -> Lock:
    """Read a lock that `bundle lock` wrote.

    Raises UsageError where the file is missing, is not a lock, or is of a newer schema.
    """
    try:
        return parse(path.read_bytes(), str(path))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}", mend="name a lock that exists") from None


def parse(content: bytes, where: str) -> Lock:
    """Read the bytes of a lock; `where` starts the sentences of errors.

    Raises UsageError where they are not a lock, or one of a newer schema.
    """
    try:
        data = canonical.loads(content)
        if isinstance(data, dict) and data.get("schema") != SCHEMA:
            raise UsageError(
                f"{where}: schema {data.get('schema')}, this release reads {SCHEMA}",
                mend="make the lock again with `bundle lock`",
            )
        found = from_data(Lock, data, "lock", exact=True)
        _check(found)
    except (ValueError, IntegrityError) as error:
        raise UsageError(
            f"{where}: not a lock ({error})",
            why="a lock is written by `bundle lock` and is not edited by hand",
            mend="make it again with `bundle lock`",
        ) from None
    return found


def _check(lock: Lock) -> None:
    """Refuse names and digests that would lead out of the folders in which they are used."""
    names = [package.url.rpartition("/")[2] for package in (*lock.conda, *lock.runtime_conda)]
    names += [package.subdir for package in (*lock.conda, *lock.runtime_conda)]
    wheels = [*lock.wheels, *lock.runtime_wheels]
    wheels += [wheel for build in lock.builds for wheel in (*build.environment, *build.toolkit)]
    names += [wheel.filename for wheel in wheels]
    names += [build.filename for build in lock.builds]
    names += [wheel.derived.origin for wheel in wheels if wheel.derived is not None]
    for name in names:
        if "/" in check_path(name):
            raise IntegrityError(f"{name!r} is not the name of a file")
    pinned = [package.sha256 for package in (*lock.conda, *lock.runtime_conda)]
    pinned += [wheel.sha256 for wheel in wheels]
    pinned += [wheel.derived.sha256 for wheel in wheels if wheel.derived is not None]
    files = [file for part in lock.parts for file in part.files]
    pinned += [file.sha256 for file in files if check_path(file.path) and file.sha256]
    added = [one.name for one in lock.others] + [one.name for one in lock.adapters]
    for name in added:
        if not MEDIA_NAME.fullmatch(name):
            raise IntegrityError(f"{name!r} is not the name of a model")
    if len({part.name.casefold() for part in lock.parts}) != len(lock.parts):
        raise IntegrityError("two models or adapters have one name")
    patches = [patch for build in lock.builds for patch in build.patches]
    pinned += [patch.sha256 for patch in patches if check_path(patch.path)]
    pinned += [build.sha256 for build in lock.builds]
    for digest in pinned:
        if not DIGEST.fullmatch(digest):
            raise IntegrityError(f"{digest!r} is not a sha256")
