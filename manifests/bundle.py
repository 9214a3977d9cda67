"""`bundle.json`: the manifest. Its sha256 identifies a bundle; everything else follows from it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from manifests import FORMAT_VERSION, archive, canonical, delta, members, overlay, tree
from manifests.delta import Delta as Delta
from manifests.digests import sha256
from manifests.errors import IntegrityError, UsageError
from manifests.lock import Derived, Target
from manifests.members import ADAPTER as ADAPTER
from manifests.members import DOCUMENT as DOCUMENT
from manifests.members import ENVIRONMENT as ENVIRONMENT
from manifests.members import ENVIRONMENT_MEMBER as ENVIRONMENT_MEMBER
from manifests.members import LOCK_MEMBER as LOCK_MEMBER
from manifests.members import MODEL as MODEL
from manifests.members import MODEL_FOLDER as MODEL_FOLDER
from manifests.members import RUNTIME as RUNTIME
from manifests.members import RUNTIME_MEMBER as RUNTIME_MEMBER
from manifests.members import Member as Member
from manifests.members import Part as Part
from manifests.members import ServedAdapter as ServedAdapter
from manifests.members import ServedModel as ServedModel
from manifests.members import with_folders as with_folders
from manifests.names import DIGEST, MEDIA_NAME, check_path
from manifests.overlay import Overlay
from manifests.records import from_data, to_data
from manifests.stack import Server

#: The end of the year 9999, where calendars of programs end.
_LAST_SECOND = 253_402_300_799


@dataclass(frozen=True)
class Needs:
    """What the isolated host has to have."""

    glibc: str
    cpu_flags: tuple[str, ...]  # of /proc/cpuinfo; one of them is enough
    memory: int  # bytes of free memory for the server, weights included
    gpus: tuple[str, ...] = ()  # compute capabilities that every needed library has code for
    driver: str = ""  # lowest NVIDIA driver, "525.60.13"


@dataclass(frozen=True)
class Manifest:
    """What a bundle is and holds.

    `model` is the one that is served unless another is chosen. A bundle without an environment
    holds models alone, for an installation that has a release of the same stack and flavour.
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
    others: tuple[ServedModel, ...] = ()
    adapters: tuple[ServedAdapter, ...] = ()
    overlay: Overlay | None = None  # of a Python environment that the host already has
    delta: Delta | None = None  # then `members` are those that a delta of the bundle carries

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

    @property
    def models(self) -> tuple[ServedModel, ...]:
        """The models, the default one first."""
        return (self.model, *self.others)

    @property
    def risks(self) -> tuple[str, ...]:
        """Files of its models that can run code where they are loaded, a sentence each."""
        return tuple(f"{one.name}: {risk.text()}" for one in self.models for risk in one.risks)

    @property
    def model_only(self) -> bool:
        """Whether it adds models to an installation and can serve nothing by itself."""
        return not any(self.of_role(ENVIRONMENT))

    @property
    def folder_name(self) -> str:
        """What its folder on a medium is called."""
        made = self.delta
        return self.name if made is None else delta.folder_name(self.name, made.base_sha256)

    @property
    def packed(self) -> tuple[tree.Entry, ...]:
        """The entries of the environment's archive: all, or those that a delta carries."""
        if self.delta is None:
            return self.environment
        return delta.split(self.environment, self.delta.runs)[0]

    def whole(self) -> "Manifest":
        """The manifest that is installed in the end: its own, or that of a delta's whole bundle."""
        if self.delta is None:
            return self
        return replace(self, members=self.delta.members, delta=None)

    def parts(self) -> tuple[Part, ...]:
        """The models and adapters, each a folder of its own."""
        return members.parts_of(self.model, self.others, self.adapters)

    def part_entries(self, part: Part) -> tuple[tree.Entry, ...]:
        """The files of a model or an adapter as a tree below its folder."""
        return members.entries_of(part, self.members)

    def place(self, member: Member, release: str) -> tuple[str, str]:
        """Where a member goes: the folder below the prefix, and the path below that folder.

        The archives of environment and runtime are no files there, but trees beside them.
        """
        part = members.part_of(member.path, self.parts())
        if part is None:
            return f"releases/{release}", member.path
        return part.folder, member.path.removeprefix(part.start)

    def model_folder(self) -> str:
        """Where the default model lies below an installation's prefix; shared by releases."""
        return members.folder_of(self.model)


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
    if not MEDIA_NAME.fullmatch(manifest.name):
        raise IntegrityError(f"{where}: the name {manifest.name!r} is not a plain name")
    seen: set[str] = set()
    for member in manifest.members:
        check_path(member.path)
        if member.path.casefold() in seen:
            raise IntegrityError(f"{where}: the member {member.path} is listed twice")
        seen.add(member.path.casefold())
        if not 0 <= member.size <= tree.LARGEST or not DIGEST.fullmatch(member.sha256):
            raise IntegrityError(f"{where}: the member {member.path} has no size or digest")
        if member.role != members.role_of(member.path):
            raise IntegrityError(f"{where}: the member {member.path} has role {member.role!r}")
    needed = [RUNTIME_MEMBER, LOCK_MEMBER]
    if manifest.environment:
        needed.append(ENVIRONMENT_MEMBER)
    for member_path in needed:
        if member_path not in seen:
            raise IntegrityError(f"{where}: the member {member_path} is missing")
    for what, entries in (("env", manifest.environment), ("runtime", manifest.runtime)):
        tree.check(entries, f"{where}: {what}")
        for entry in entries:
            if entry.kind == tree.FILE and not DIGEST.fullmatch(entry.sha256):
                raise IntegrityError(f"{where}: {what}: {entry.path} has no digest")
    if manifest.overlay is not None:
        overlay.check(manifest.overlay, manifest.environment, f"{where}: env")
    members.check_parts(manifest.parts(), manifest.members, where)
    for part in manifest.parts():
        tree.check(manifest.part_entries(part), f"{where}: {part.start.rstrip('/')}")
    _check_documents([member.path for member in manifest.of_role(DOCUMENT)], where)
    if manifest.delta is not None:
        _check_delta(manifest, manifest.delta, where)


def _check_delta(manifest: Manifest, made: Delta, where: str) -> None:
    delta.check(made, manifest.members, manifest.environment, where)
    whole = manifest.whole()
    _check(whole)
    if (found := digest_of(whole.dump())) != made.manifest_sha256:
        raise IntegrityError(
            f"{where}: the delta makes the manifest {found}, and names {made.manifest_sha256}"
        )


def _check_documents(paths: Sequence[str], where: str) -> None:
    """Documents lie beside what is unpacked, never in it or in the place of the manifest."""
    tree.check(with_folders(tree.Entry(path) for path in paths), where)
    for path in paths:
        if path.partition("/")[0].casefold() in members.TAKEN:
            raise IntegrityError(f"{where}: {path} would lie where something else is unpacked")


def model_entries(manifest: Manifest) -> tuple[tree.Entry, ...]:
    """The default model's files as a tree below its folder, with the folders in between."""
    return manifest.part_entries(manifest.parts()[0])


def digest_of(data: bytes) -> str:
    """sha256 of a manifest's bytes."""
    hasher = sha256()
    hasher.update(data)
    return hasher.hexdigest()
