"""`bundle.json`: the manifest. Its sha256 identifies a bundle; everything else follows from it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from manifests import FORMAT_VERSION, archive, canonical, tree
from manifests.digests import sha256
from manifests.errors import IntegrityError, UsageError
from manifests.lock import Derived, Target
from manifests.names import DIGEST, MEDIA_NAME, check_path
from manifests.records import from_data, to_data
from manifests.stack import Server

RUNTIME, ENVIRONMENT, MODEL, DOCUMENT = "runtime", "environment", "model", "document"
#: Names inside the archive. The order of members is the order of this table.
RUNTIME_MEMBER = "runtime.tar.gz"
ENVIRONMENT_MEMBER = "env.tar.zst"
LOCK_MEMBER = "bundle.lock"
MODEL_FOLDER = "model/"
#: Names in a release's folder that no document may have; see manifests.placement.
_TAKEN = frozenset({"env", "runtime", archive.MANIFEST_NAME})
#: The end of the year 9999, where calendars of programs end.
_LAST_SECOND = 253_402_300_799


@dataclass(frozen=True)
class Member:
    """One member of the archive, in order."""

    path: str
    role: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Needs:
    """What the isolated host has to have."""

    glibc: str
    cpu_flags: tuple[str, ...]  # of /proc/cpuinfo; one of them is enough
    memory: int  # bytes of free memory for the server, weights included
    gpus: tuple[str, ...] = ()  # compute capabilities that every needed library has code for
    driver: str = ""  # lowest NVIDIA driver, "525.60.13"


@dataclass(frozen=True)
class ServedModel:
    """The model in the bundle."""

    name: str
    source: str
    revision: str
    licence: str = ""


@dataclass(frozen=True)
class Manifest:
    """What a bundle is and holds.

    `sequence` grows with every lock, so that an older bundle can be told from a newer one;
    `derived` says which artefacts are not as their publisher made them, and
    `unpublished` which digests no publisher vouches for.
    """

    schema: int
    name: str
    sequence: int
    created: int  # seconds since the epoch, from the lock
    tool: str  # "vllm-bundle 0.1.0"
    target: Target
    stack: str
    flavour: str
    server: Server
    needs: Needs
    model: ServedModel
    thinking: bool
    lock_sha256: str
    members: tuple[Member, ...]
    environment: tuple[tree.Entry, ...]
    runtime: tuple[tree.Entry, ...]
    derived: tuple[Derived, ...] = ()
    unpublished: tuple[str, ...] = ()

    def dump(self) -> bytes:
        """The canonical bytes of the manifest."""
        return canonical.dumps(to_data(self))

    def of_role(self, role: str) -> Iterator[Member]:
        """The members of one role."""
        return (member for member in self.members if member.role == role)

    def archive_length(self, manifest_size: int) -> int:
        """Bytes of the whole archive."""
        sizes = [(member.path, member.size) for member in self.members]
        return archive.total_length([(archive.MANIFEST_NAME, manifest_size), *sizes])

    def model_folder(self) -> str:
        """Where the model lies below an installation's prefix; shared by releases."""
        return f"models/{self.model.name}@{self.model.revision[:12]}"


def release_id(name: str, digest: str) -> str:
    """The folder of a release: readable, and different for every manifest."""
    return f"{name}-{digest[:12]}"


def parse(data: bytes) -> Manifest:
    """Read a manifest and refuse one that no honest packer writes.

    Raises IntegrityError for anything malformed, UsageError where the format is newer than we are.
    """
    try:
        value = canonical.loads(data)
    except ValueError as error:
        raise IntegrityError(f"{archive.MANIFEST_NAME}: not canonical JSON ({error})") from None
    schema = value.get("schema") if isinstance(value, dict) else None
    if isinstance(schema, int) and schema > FORMAT_VERSION:
        raise UsageError(
            f"the bundle has format {schema}, this program reads up to {FORMAT_VERSION}",
            mend="use the install.sh and the bundle command that came with it",
        )
    manifest = from_data(Manifest, value, archive.MANIFEST_NAME, exact=True)
    _check(manifest)
    return manifest


def _check(manifest: Manifest) -> None:
    where = archive.MANIFEST_NAME
    if manifest.schema < 1:
        raise IntegrityError(f"{where}: schema {manifest.schema}")
    if not 0 <= manifest.created <= _LAST_SECOND:
        raise IntegrityError(f"{where}: created at a time that no calendar has")
    for what, name in (("name", manifest.name), ("model name", manifest.model.name)):
        if not MEDIA_NAME.fullmatch(name):
            raise IntegrityError(f"{where}: the {what} {name!r} is not a plain name")
    if not MEDIA_NAME.fullmatch(manifest.model.revision):
        raise IntegrityError(f"{where}: the revision {manifest.model.revision!r} is odd")
    seen: set[str] = set()
    for member in manifest.members:
        check_path(member.path)
        if member.path.casefold() in seen:
            raise IntegrityError(f"{where}: the member {member.path} is listed twice")
        seen.add(member.path.casefold())
        if not 0 <= member.size <= tree.LARGEST or not DIGEST.fullmatch(member.sha256):
            raise IntegrityError(f"{where}: the member {member.path} has no size or digest")
        if member.role != _role_of(member.path):
            raise IntegrityError(f"{where}: the member {member.path} has role {member.role!r}")
    for member_path in (RUNTIME_MEMBER, ENVIRONMENT_MEMBER, LOCK_MEMBER):
        if member_path not in seen:
            raise IntegrityError(f"{where}: the member {member_path} is missing")
    for what, entries in (("env", manifest.environment), ("runtime", manifest.runtime)):
        tree.check(entries, f"{where}: {what}")
        for entry in entries:
            if entry.kind == tree.FILE and not DIGEST.fullmatch(entry.sha256):
                raise IntegrityError(f"{where}: {what}: {entry.path} has no digest")
    tree.check(model_entries(manifest), f"{where}: model")
    _check_documents([member.path for member in manifest.of_role(DOCUMENT)], where)


def _check_documents(paths: Sequence[str], where: str) -> None:
    """Documents lie beside what is unpacked, never in it or in the place of the manifest."""
    tree.check(with_folders(tree.Entry(path) for path in paths), where)
    for path in paths:
        if path.partition("/")[0].casefold() in _TAKEN:
            raise IntegrityError(f"{where}: {path} would lie where something else is unpacked")


def _role_of(path: str) -> str:
    if path.startswith(MODEL_FOLDER):
        return MODEL
    return {RUNTIME_MEMBER: RUNTIME, ENVIRONMENT_MEMBER: ENVIRONMENT}.get(path, DOCUMENT)


def _model_entry(member: Member) -> tree.Entry:
    return tree.Entry(
        member.path.removeprefix(MODEL_FOLDER), size=member.size, sha256=member.sha256
    )


def model_entries(manifest: Manifest) -> tuple[tree.Entry, ...]:
    """The model's files as a tree below its folder, with the folders in between."""
    return with_folders(_model_entry(member) for member in manifest.of_role(MODEL))


def with_folders(entries: Iterator[tree.Entry]) -> tuple[tree.Entry, ...]:
    """Entries with every parent folder listed before what it holds."""
    result: dict[str, tree.Entry] = {}
    for entry in entries:
        parts = entry.path.split("/")
        for depth in range(1, len(parts)):
            folder = "/".join(parts[:depth])
            result.setdefault(folder, tree.Entry(folder, tree.FOLDER))
        result[entry.path] = entry
    return tuple(result.values())


def digest_of(data: bytes) -> str:
    """sha256 of a manifest's bytes."""
    hasher = sha256()
    hasher.update(data)
    return hasher.hexdigest()
