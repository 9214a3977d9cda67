"""The members of a bundle's archive: their names, their roles, and where each lies once installed.

Models and adapters are *parts*: folders of their own below the prefix, shared by releases. The
default model lies in the archive as `model/…`, every other one as `models/NAME/…`, an adapter as
`adapters/NAME/…`; installed, all of them are `models/NAME@REVISION/…`. Everything else belongs to
the release.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from manifests import archive, tree
from manifests.errors import IntegrityError
from manifests.fit.shape import Shape
from manifests.names import MEDIA_NAME
from manifests.risks import Risk

RUNTIME, ENVIRONMENT, MODEL, DOCUMENT = "runtime", "environment", "model", "document"
ADAPTER = "adapter"
#: Names inside the archive. The order of members is the order of this table.
RUNTIME_MEMBER = "runtime.tar.gz"
ENVIRONMENT_MEMBER = "env.tar.zst"
LOCK_MEMBER = "bundle.lock"
MODEL_FOLDER = "model/"
MODELS_FOLDER = "models/"
ADAPTERS_FOLDER = "adapters/"
#: Names in a release's folder that no document may have; see manifests.placement.
TAKEN = frozenset({"env", "runtime", archive.MANIFEST_NAME})

_ROLES = {RUNTIME_MEMBER: RUNTIME, ENVIRONMENT_MEMBER: ENVIRONMENT}
_STARTS = {MODEL_FOLDER: MODEL, MODELS_FOLDER: MODEL, ADAPTERS_FOLDER: ADAPTER}


@dataclass(frozen=True)
class Member:
    """One member of the archive, in order."""

    path: str
    role: str
    size: int
    sha256: str


@dataclass(frozen=True)
class ServedModel:
    """A model in the bundle."""

    name: str
    source: str
    revision: str
    licence: str = ""
    risks: tuple[Risk, ...] = ()  # files that can run code where they are loaded
    shape: Shape | None = None  # what its memory follows from; None: its class is not known


@dataclass(frozen=True)
class ServedAdapter:
    """A LoRA adapter in the bundle: requests name it as they would name a model."""

    name: str
    source: str
    revision: str
    base: str  # name of the bundle's model that it changes
    rank: int  # the largest of its modules' ranks
    licence: str = ""


@dataclass(frozen=True)
class Part:
    """A model or an adapter, and where the archive and the installation keep it."""

    item: ServedModel | ServedAdapter
    start: str  # of its members' paths: "model/", "models/NAME/", "adapters/NAME/"

    @property
    def folder(self) -> str:
        """Where it lies below an installation's prefix."""
        return folder_of(self.item)


def folder_of(item: ServedModel | ServedAdapter) -> str:
    """A model's or an adapter's folder below an installation's prefix."""
    return f"models/{item.name}@{item.revision[:12]}"


def parts_of(
    model: ServedModel, others: Iterable[ServedModel], adapters: Iterable[ServedAdapter]
) -> tuple[Part, ...]:
    """The models, the default one first, and the adapters of a bundle."""
    return (
        Part(model, MODEL_FOLDER),
        *(Part(other, f"{MODELS_FOLDER}{other.name}/") for other in others),
        *(Part(adapter, f"{ADAPTERS_FOLDER}{adapter.name}/") for adapter in adapters),
    )


def role_of(path: str) -> str:
    """What a member is, by its name alone."""
    for start, role in _STARTS.items():
        if path.startswith(start):
            return role
    return _ROLES.get(path, DOCUMENT)


def part_of(path: str, parts: Iterable[Part]) -> Part | None:
    """The part that a member belongs to; None for a member of the release."""
    return next((part for part in parts if path.startswith(part.start)), None)


def entries_of(part: Part, members: Iterable[Member]) -> tuple[tree.Entry, ...]:
    """A part's files as a tree below its folder, with the folders in between."""
    return with_folders(
        tree.Entry(member.path.removeprefix(part.start), size=member.size, sha256=member.sha256)
        for member in members
        if member.path.startswith(part.start)
    )


def with_folders(entries: Iterable[tree.Entry]) -> tuple[tree.Entry, ...]:
    """Entries with every parent folder listed before what it holds."""
    result: dict[str, tree.Entry] = {}
    for entry in entries:
        parts = entry.path.split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            result.setdefault(folder, tree.Entry(folder, tree.FOLDER))
        result[entry.path] = entry
    return tuple(result.values())


def check_parts(parts: Iterable[Part], members: Iterable[Member], where: str) -> None:
    """Refuse parts that would meet in one folder or one request, and members of no part.

    Raises IntegrityError; `where` starts its sentences.
    """
    parts = tuple(parts)
    seen: set[str] = set()
    for part in parts:
        item = part.item
        if not MEDIA_NAME.fullmatch(item.name):
            raise IntegrityError(f"{where}: the model name {item.name!r} is not a plain name")
        if not MEDIA_NAME.fullmatch(item.revision):
            raise IntegrityError(f"{where}: the revision {item.revision!r} is odd")
        if isinstance(item, ServedModel) and item.shape is not None:
            item.shape.check(f"{where}: {item.name}")
        for name in (item.name.casefold(), part.folder.casefold()):
            if name in seen:
                raise IntegrityError(f"{where}: two models or adapters are called {item.name}")
            seen.add(name)
    models = {part.item.name for part in parts if isinstance(part.item, ServedModel)}
    for part in parts:
        if isinstance(part.item, ServedAdapter):
            if part.item.base not in models:
                raise IntegrityError(
                    f"{where}: the adapter {part.item.name} is for {part.item.base}, "
                    "which the bundle does not hold"
                )
            if part.item.rank < 1:
                raise IntegrityError(f"{where}: the adapter {part.item.name} has no rank")
    for member in members:
        if member.role in (MODEL, ADAPTER) and part_of(member.path, parts) is None:
            raise IntegrityError(f"{where}: the member {member.path} belongs to no model")
