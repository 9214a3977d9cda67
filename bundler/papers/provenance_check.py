"""Check a bundle's provenance offline: who signed it, and whether it is what this bundle gives.

Nothing in a statement is believed: it is made again from the bundle, and has to have the same
bytes. Two things can't be made again, and are said to be so: the builder's id, which is whatever
the signer claims, and a rehearsal whose proof is not at hand.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bundler.papers import dsse, provenance
from bundler.papers.dsse import Envelope
from bundler.papers.provenance import BUILD_TYPE, PREDICATE, STATEMENT, Finished
from bundler.papers.provenance_inputs import Descriptor
from bundler.papers.provenance_proof import is_descriptor
from manifests.errors import IntegrityError, UsageError
from manifests.names import printable
from manifests.signature import PublicKey

#: Differences that are named one by one.
_SHOWN = 20
_AGAIN = "get the statement of this very bundle, or make one: bundle provenance NAME"


@dataclass(frozen=True)
class Checked:
    """A statement that is what the bundle gives."""

    signer: PublicKey | None  # None: no signature was checked
    subjects: int
    inputs: int
    builder: str
    notes: tuple[str, ...]  # what was not compared


@dataclass(frozen=True)
class Paper:
    """A file of provenance: a statement, in an envelope or bare."""

    where: str
    payload: bytes
    statement: dict[str, Any]
    envelope: Envelope | None


def parse(data: bytes, where: str) -> Paper:
    """Read a file of provenance; `where` starts the sentences of errors.

    Raises IntegrityError where it is none, UsageError where another release wrote it.
    """
    value, envelope = dsse.loads(data, where), None
    if "payload" in value:
        envelope = dsse.parse(value, where)
        if envelope.kind != dsse.IN_TOTO:
            raise IntegrityError(
                f"{where}: holds {printable(envelope.kind)}, not {dsse.IN_TOTO}", mend=_AGAIN
            )
        data, value = envelope.payload, dsse.loads(envelope.payload, f"{where}: its payload")
    if value.get("_type") != STATEMENT or value.get("predicateType") != PREDICATE:
        raise IntegrityError(
            f"{where}: no provenance",
            why=f"that is a statement of the type {STATEMENT} about {PREDICATE}",
            mend=_AGAIN,
        )
    kind = _at(value, "predicate", "buildDefinition", "buildType")
    if kind != BUILD_TYPE:
        raise UsageError(
            f"{where}: its buildType is {kind!r:.80}, this release knows {BUILD_TYPE}",
            mend="check it with the release that made it",
        )
    return Paper(where, data, value, envelope)


def check(
    paper: Paper, made: Finished, keys: Sequence[PublicKey] = (), proof: Descriptor | None = None
) -> Checked:
    """Compare a statement with a bundle; `proof` is that of the rehearsal, where it is at hand.

    Raises IntegrityError where keys are given and none of them signed it, or where it is not what
    the bundle gives: the findings name what differs.
    """
    signer = None
    if keys:
        if paper.envelope is None:
            raise IntegrityError(
                f"{paper.where}: not signed, and a key was given",
                mend="get the signed one, or sign it: bundle provenance NAME --key KEY --force",
            )
        signer = dsse.signed_by(paper.envelope, keys, paper.where)
    notes = [] if signer else ["no signature was checked: give the signer's public key with --key"]
    claimed = rehearsal_of(paper, made)
    if claimed is not None and proof is None:
        notes.append(f"{made.proof_name} is not at hand: its digest was not compared")
    builder = _at(paper.statement, "predicate", "runDetails", "builder", "id")
    expected = provenance.statement(
        made, proof or claimed, builder if provenance.is_builder(builder) else ""
    )
    if provenance.dump(expected) != paper.payload:
        raise _different(paper, expected)
    if builder != provenance.builder_of(made.manifest):
        notes.append(f"the builder is whom the signer names: {builder}")
    definition = expected["predicate"]["buildDefinition"]
    return Checked(
        signer,
        len(expected["subject"]),
        len(definition["resolvedDependencies"]),
        str(builder),
        tuple(notes),
    )


def rehearsal_of(paper: Paper, made: Finished) -> Descriptor | None:
    """The proof of a rehearsal that a statement names; what has another form is none."""
    found = _at(paper.statement, "predicate", "runDetails", "byproducts")
    for one in found if isinstance(found, list) else []:
        if isinstance(one, dict) and one.get("name") == made.proof_name and is_descriptor(one):
            return one
    return None


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _different(paper: Paper, expected: dict[str, Any]) -> IntegrityError:
    found = list(differences(paper.statement, expected))
    if not found:
        found = ["its JSON says the same in another form than the canonical one"]
    left = len(found) - _SHOWN
    if left > 0:
        found = [*found[:_SHOWN], f"and {left} more"]
    return IntegrityError(
        f"{paper.where}: not the provenance of this bundle",
        why="it was altered, it is about another bundle, or the bundle was split in another way",
        mend=_AGAIN,
        findings=found,
    )


def differences(found: Any, expected: Any, where: str = "") -> Iterator[str]:
    """What differs between two values of JSON, a sentence each; `where` is the path so far."""
    if isinstance(found, list) and isinstance(expected, list):
        found, expected = _by_name(found), _by_name(expected)
        template = "{}[{}]"
    else:
        template = "{}.{}" if where else "{}{}"
    if not (isinstance(found, dict) and isinstance(expected, dict)):
        if found != expected or type(found) is not type(expected):
            yield f"{where}: {_short(found)}, of this bundle {_short(expected)}"
        return
    for key in sorted({*found, *expected}):
        place = template.format(where, printable(key))
        if key not in found:
            yield f"{place}: missing"
        elif key not in expected:
            yield f"{place}: not of this bundle"
        else:
            yield from differences(found[key], expected[key], place)


def _by_name(items: list[Any]) -> dict[str, Any]:
    """A list as a table: by the name of what it holds, else by place; a name again has a number."""
    table: dict[str, Any] = {}
    for place, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else None
        key = name if isinstance(name, str) else str(place)
        table[f"{key} ({place})" if key in table else key] = item
    return table


def _short(value: Any) -> str:
    return f"{value!r:.80}"
