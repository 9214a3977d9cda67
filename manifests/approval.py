"""What people sign: the approval of a bundle on its media, and its counterpart once installed.

Both hold the same `Release`, made by the same code from the manifest, so a machine can say whether
what was approved is what is installed. Data alone, and nothing of the machine that wrote it: no
time, no path, no name of a host but one that was asked for.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from manifests import canonical
from manifests.audit.sampling import Sampled
from manifests.bundle import Member, Needs, digest_of
from manifests.errors import IntegrityError, UsageError
from manifests.lock import Target
from manifests.names import DIGEST
from manifests.records import from_data, to_data

#: Of both records. A page is read by laying it out anew, so this counts looks as well as fields.
FORM = 1
APPROVAL, INSTALLATION = "approval", "installation"
#: Languages of a page; BOTH has them side by side.
ENGLISH, CHINESE, BOTH = "en", "zh", "both"
LANGUAGES = (ENGLISH, CHINESE, BOTH)
#: Layers of the stack, the lowest first.
HOST, DRIVER, CUDA, TORCH, SERVER, MODEL = "host", "driver", "cuda", "torch", "server", "model"
ADAPTER = "adapter"
#: No number of a record is larger: sizes are those of file systems (off_t).
_MOST = (1 << 63) - 1
#: Seconds since the epoch at the end of the year 9999, the last one that has a date.
_LAST = 253_402_300_799
#: Files that a sample is of: what it proves is worked out on each page, in seconds for so many.
_MOST_FILES = 2_000_000
#: Areas of the picture of sizes; none is smaller than some thousandths, but the last of a group.
_MOST_SHARES = 1000


@dataclass(frozen=True)
class Layer:
    """One layer of the stack, as the picture shows it."""

    kind: str  # one of those above
    name: str
    version: str  # empty: not known


@dataclass(frozen=True)
class Amount:
    """Some files."""

    files: int
    size: int  # bytes


@dataclass(frozen=True)
class Part:
    """A model or an adapter."""

    kind: str  # MODEL or ADAPTER
    name: str
    source: str  # "hf:ORG/NAME" or "folder:NAME"
    revision: str  # commit
    licence: str
    files: int
    size: int  # bytes


@dataclass(frozen=True)
class Release:
    """What is installed in the end, as its manifest says: the same on both sides."""

    name: str
    manifest_sha256: str
    lock_sha256: str
    sequence: int
    created: int  # seconds since the epoch
    tool: str
    target: Target
    needs: Needs
    stack: str
    flavour: str
    server: tuple[str, ...]  # module and arguments
    layers: tuple[Layer, ...]
    parts: tuple[Part, ...]  # the default model first
    environment: Amount  # unpacked
    runtime: Amount  # unpacked
    members: tuple[Member, ...]  # of the archive, each with its digest
    risks: tuple[str, ...] = ()  # files of models that can run code, a sentence each

    @property
    def installed(self) -> int:
        """Bytes of all that is unpacked."""
        return self.environment.size + self.runtime.size + sum(part.size for part in self.parts)


@dataclass(frozen=True)
class File:
    """One file on the media. Its size in bytes follows from the archive's; None: not known."""

    name: str
    sha256: str
    size: int | None = None


@dataclass(frozen=True)
class Signer:
    """Who signed, as far as it is known."""

    form: str  # "openssl" or "ssh"
    fingerprint: str = ""  # of the key; empty: only a check can say
    checked: bool = False  # with a key that was given


@dataclass(frozen=True)
class Medium:
    """What the media hold."""

    list_sha256: str  # of SHA256SUMS: what an operator compares
    manifest_sha256: str  # a delta's own; that of the release otherwise
    files: tuple[File, ...]  # of the archive
    signer: Signer | None = None
    delta_on: str = ""  # name of the bundle that has to be there


@dataclass(frozen=True)
class Count:
    """How many of something."""

    name: str
    count: int


@dataclass(frozen=True)
class Sources:
    """Where everything comes from."""

    channel: str  # of conda packages
    wheels: tuple[Count, ...]  # by host, or "file" and "derived" (see manifests.lock.Wheel)
    conda: int  # packages
    built: tuple[str, ...] = ()  # "NAME VERSION": compiled from published source
    repaired: int = 0
    unpublished: int = 0  # digests that no publisher vouches for


@dataclass(frozen=True)
class Licences:
    """Families of the components' licences, and those that a person should look at."""

    families: tuple[Count, ...]
    look: tuple[Count, ...] = ()  # by reason


@dataclass(frozen=True)
class Vulnerabilities:
    """What a look into a database of known vulnerabilities answered."""

    database: str  # date of the database, RFC 3339
    counts: tuple[Count, ...]  # by severity, the worst first; empty: none are known
    worst: tuple[str, ...] = ()  # "ID PACKAGE VERSION"
    ignored: int = 0  # with a reason
    unseen: int = 0  # components of which the database tells nothing
    age: int = 0  # days, of a database that is old (manifests.vulns_report); 0: it is not
    unscanned: str = ""  # why no file of a model was scanned (as there); empty: they were


@dataclass(frozen=True)
class Share:
    """One area of the picture of sizes."""

    group: str  # MODEL, or a part of the environment
    name: str  # empty: several small ones
    size: int  # bytes, installed
    count: int = 1


@dataclass(frozen=True)
class Approval:
    """What is to be let in. Signed by people before the media cross the border."""

    form: int
    kind: str
    tool: str  # that wrote the record
    release: Release
    medium: Medium
    sources: Sources
    shares: tuple[Share, ...]
    licences: Licences | None = None  # None: not looked at
    vulnerabilities: Vulnerabilities | None = None  # None: not looked at


@dataclass(frozen=True)
class Problem:
    """One thing that the audit found."""

    problem: str
    path: str  # below the prefix
    expected: str = ""
    found: str = ""


@dataclass(frozen=True)
class Installed:
    """One release of the installation."""

    release: Release
    ignored: tuple[str, ...] = ()  # preflight checks that the operator chose to ignore


@dataclass(frozen=True)
class Instance:
    """One server of the installation, as far as trust asks for it."""

    name: str
    release: str  # empty: none is in service
    model: str = ""
    local: bool = True  # whether this machine alone can reach it
    remote_code: bool = False  # whether it runs code that came with the model
    problem: str = ""  # why its settings are not known


@dataclass(frozen=True)
class Audited:
    """What the audit answered."""

    clean: bool  # whether nothing differs in what was looked at
    files: int
    size: int  # bytes
    count: int = 0  # of problems
    problems: tuple[Problem, ...] = ()  # the first of them
    sample: Sampled | None = None  # what was read, where that was not everything
    resumed: int = 0  # files that were found right before an interruption, and not read again


@dataclass(frozen=True)
class Installation:
    """What was found installed. Signed by people after the audit."""

    form: int
    kind: str
    tool: str  # that wrote the record
    releases: tuple[Installed, ...]
    audited: Audited
    trusted: tuple[str, ...] = ()  # fingerprints of the keys that are trusted there
    instances: tuple[Instance, ...] | None = None  # None: not looked at
    host: str = ""  # as the operator calls it; empty: not told


Record = Approval | Installation
_KINDS: dict[str, type[Approval] | type[Installation]] = {
    APPROVAL: Approval,
    INSTALLATION: Installation,
}


def dump(record: Record) -> bytes:
    """The canonical bytes of a record."""
    return canonical.dumps(to_data(record))


def digest(record: Record) -> str:
    """sha256 of the canonical bytes: it stands on the page, so who signs that signs all data."""
    return digest_of(dump(record))


def parse(data: object, where: str) -> Record:
    """A record from its data, as JSON has it; `where` starts the sentences of errors.

    Raises UsageError where it is no record or one of a newer form, IntegrityError where it is
    damaged.
    """
    kind = _KINDS.get(str(data.get("kind"))) if isinstance(data, dict) else None
    if kind is None or not isinstance(data, dict):
        raise UsageError(
            f"{where}: neither an approval nor an installation record",
            mend="name what `bundle record` or `bundlectl audit --report` wrote",
        )
    if isinstance(form := data.get("form"), int) and form > FORM:
        raise UsageError(
            f"{where}: has form {form}, this program reads up to {FORM}",
            mend="read it with the release that wrote it",
        )
    record: Record = from_data(kind, data, where, exact=True)
    _check(record, where)
    return record


def _check(record: Record, where: str) -> None:
    """Refuse what no honest writer writes: a digest is what people compare."""
    for value in _values(record):
        _check_value(value, where)
    releases = (
        [record.release]
        if isinstance(record, Approval)
        else [one.release for one in record.releases]
    )
    digests = [digest for one in releases for digest in (one.manifest_sha256, one.lock_sha256)]
    digests += [member.sha256 for one in releases for member in one.members]
    if isinstance(record, Approval):
        medium = record.medium
        digests += [medium.list_sha256, medium.manifest_sha256]
        digests += [file.sha256 for file in medium.files]
        if len(record.shares) > _MOST_SHARES or not all(one.size for one in record.shares):
            raise IntegrityError(f"{where}: areas of its picture that can't be drawn")
    else:
        _check_audited(record.audited, where)
    _once("release", [one.manifest_sha256 for one in releases], where)
    for one in releases:
        _once("member", [member.path for member in one.members], where)
        _once("part", [f"{part.kind} {part.name}" for part in one.parts], where)
        if one.created > _LAST:
            raise IntegrityError(f"{where}: made at {one.created}, which is no date")
    for digest in digests:
        if not DIGEST.fullmatch(digest):
            raise IntegrityError(f"{where}: {digest!r:.80} is not a sha256")


def _check_audited(audited: Audited, where: str) -> None:
    if audited.clean == bool(audited.count):
        raise IntegrityError(f"{where}: clean and with findings, or neither")
    sample = audited.sample
    if sample is not None and not (
        sample.files <= sample.of_files <= _MOST_FILES and sample.size <= sample.of_size
    ):
        raise IntegrityError(f"{where}: a sample of {sample.files} of {sample.of_files} files")


def _once(what: str, names: list[str], where: str) -> None:
    """Of two with one name, a comparison would look at one alone."""
    for name, count in Counter(names).items():
        if count > 1:
            raise IntegrityError(f"{where}: {count} times the same {what}, {name!r:.80}")


def _values(value: Any) -> Iterator[Any]:
    """All texts and numbers of a record."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from _values(getattr(value, field.name))
    elif isinstance(value, tuple):
        for one in value:
            yield from _values(one)
    else:
        yield value


def _check_value(value: Any, where: str) -> None:
    if isinstance(value, int) and not 0 <= value <= _MOST:
        raise IntegrityError(f"{where}: {value!r:.80} is no number of things")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise IntegrityError(f"{where}: {value!r:.80} is no text") from None
