"""Whether what was approved is what is installed, told field by field."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from manifests.approval import MODEL, Approval, Installation, Part, Release
from manifests.bundle import release_id
from manifests.names import printable

#: Of a release, what depends on who looks: without its lock, layers have no versions.
_NOT_COMPARED = ("layers",)
#: Named differences of one kind that are told; the rest is counted.
_MOST = 50


@dataclass(frozen=True)
class Difference:
    """One thing that is not as approved."""

    release: str  # name; empty: of the installation as a whole
    what: str  # the field: "target.gpus", "members.env.tar.zst.sha256"
    approved: str  # empty: nothing
    installed: str  # empty: nothing

    def __str__(self) -> str:
        start = f"{self.release}: " if self.release else ""
        approved, installed = self.approved or "nothing", self.installed or "nothing"
        return printable(f"{start}{self.what}: approved {approved}, installed {installed}")


@dataclass(frozen=True)
class Verdict:
    """The answer."""

    approved: tuple[str, ...]  # manifest digests of the approvals
    installed: tuple[str, ...]  # those of the releases that were found
    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """Whether what was approved is what is installed, intact, and nothing else is."""
        return not self.differences

    def as_record(self) -> dict[str, Any]:
        """As --json prints it."""
        return {
            "same": self.same,
            "approved": list(self.approved),
            "installed": list(self.installed),
            "differences": [dataclasses.asdict(one) for one in self.differences],
        }

    def text(self) -> str:
        """As a person reads it."""
        lines = [str(one) for one in self.differences[:_MOST]]
        if more := len(self.differences) - _MOST:
            lines += [f"and {more} more (--json has them)"] if more > 0 else []
        if self.same:
            return f"what was approved is what is installed: {', '.join(self.installed)}"
        return "\n".join((*lines, f"NOT as approved: {len(self.differences)} differences"))


def compare(approvals: Sequence[Approval], found: Installation) -> Verdict:
    """Compare; every release that is installed has to be one of those approved.

    A release belongs to the approval with its manifest's digest, else to one with its name: then
    the fields tell how the two differ.
    """
    installed = [one.release for one in found.releases]
    approved = [one.release for one in approvals]
    left = [one for one in installed if one.manifest_sha256 not in _digests(approved)]
    agreed = [one for one in installed if one not in left]
    differences = list(_audited(found))
    for wanted in approved:
        same = [one for one in installed if one.manifest_sha256 == wanted.manifest_sha256]
        named = [one for one in left if one.name == wanted.name]
        for other in same or named[:1]:
            differences += _of_release(wanted, other)
            left = [one for one in left if one is not other]
        if not (same or named):
            differences.append(
                Difference(wanted.name, "manifest_sha256", wanted.manifest_sha256, "")
            )
    more = [Difference(one.name, "manifest_sha256", "", one.manifest_sha256) for one in left]
    differences += [*more, *_instances(found, agreed)]
    return Verdict(_digests(approved), _digests(installed), tuple(differences))


def _digests(releases: Sequence[Release]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.manifest_sha256 for one in releases))


def _audited(found: Installation) -> Iterator[Difference]:
    audited = found.audited
    if (sample := audited.sample) is not None:
        read = f"a sample, {sample.files} of {sample.of_files} files"
        yield Difference("", "audit", "every file", read)
    if not audited.clean:
        yield Difference("", "verdict", "intact", f"{audited.count} findings")
    for one in audited.problems:
        yield Difference("", f"{one.problem} {one.path}", one.expected, one.found)


def _instances(found: Installation, agreed: Sequence[Release]) -> Iterator[Difference]:
    """Each has to serve a model of what was approved, by a release that was approved."""
    known = [release_id(one.name, one.manifest_sha256) for one in agreed]
    models = [part.name for one in agreed for part in one.parts if part.kind == MODEL]
    for one in found.instances or ():
        what = f"instances.{one.name}"
        if one.problem:
            yield Difference("", what, "", one.problem)
        if one.release and one.release not in known:
            yield Difference("", f"{what}.release", " or ".join(known), one.release)
        elif one.release and one.model not in models and not one.problem:
            yield Difference("", f"{what}.model", " or ".join(models), one.model)


def _of_release(wanted: Release, other: Release) -> Iterator[Difference]:
    here, there = _fields(wanted), _fields(other)
    for what in sorted({*here, *there}):
        if here.get(what) != there.get(what):
            yield Difference(wanted.name, what, here.get(what, ""), there.get(what, ""))


def _fields(release: Release) -> dict[str, str]:
    """Every field by its path; members by their own, parts by their names."""
    found: dict[str, str] = {}
    for field in dataclasses.fields(release):
        value = getattr(release, field.name)
        if field.name == "members":
            named = {member.path: member for member in value}
        elif field.name == "parts":
            named = {_called(part): part for part in value}
            found["parts"] = " ".join(map(_called, value))  # the default model is the first
        elif dataclasses.is_dataclass(value):
            found |= _flat(field.name, value)
            continue
        else:
            if field.name not in _NOT_COMPARED:
                found[field.name] = _text(value)
            continue
        for name, one in named.items():
            found |= _flat(f"{field.name}.{name}", one)
    return found


def _called(part: Part) -> str:
    return f"{part.kind}.{part.name}"


def _flat(start: str, record: Any) -> dict[str, str]:
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return {f"{start}.{name}": _text(value) for name, value in values.items()}


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
