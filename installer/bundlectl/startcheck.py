"""Whether the server would take its arguments, and load the tokenizer: before every start.

The release's own parser and transformers say so. What they said is remembered, so that a start
after which nothing changed costs nothing; what changed is asked about again.
"""

import re
from collections.abc import Sequence
from dataclasses import fields

from bundlectl import command, config, environment, inquiry, options, planned
from bundlectl.command import Argument
from bundlectl.config import ServeConfig
from bundlectl.inquiry import Memory
from bundlectl.layout import Layout
from bundlectl.models import Installed
from bundlectl.planned import Planned
from manifests import trial
from manifests.errors import UsageError
from manifests.trial import Answer, Question

_KEYS = frozenset(key.name for key in fields(ServeConfig))
_OTHERS = {
    command.BUNDLE: "an argument that comes from the bundle",
    command.STACK: "an argument that comes from the release's stack",
    command.FIT: "an argument that was chosen to fit the memory",
}
#: How argparse names the option in its messages: "argument --tensor-parallel-size/-tp: invalid …".
_NAMED = re.compile(r"argument (\S+?):")


def check(layout: Layout, release: str, settings: ServeConfig, model: Installed) -> tuple[str, ...]:
    """Refuse what the server would refuse; gives a sentence for each thing worth knowing.

    A stack that names no parser is taken at its word. Raises UsageError naming the line of
    etc/serve.toml, ServerError where the release's Python can't say.
    """
    plan = planned.plan(layout, release, settings, model)
    if not plan.server.parser:
        return ("arguments and tokenizer not checked: the stack names no parser of its server",)
    memory = _memory(layout, release, plan)
    known = memory.recall("options")
    doubtful = [("extra_arguments", *settings.extra_arguments)]
    if known is not None:
        doubtful += _read(layout, plan, known)
    about_model = ("model", inquiry.identity(plan.folder), str(settings.trust_remote_code))
    tokenized = memory.recall(*about_model)
    parse = known is None or not all(memory.recall("accepted", *pair) for pair in doubtful)
    if parse or tokenized is None:
        question = Question(
            folder="" if tokenized else str(plan.folder),
            remote_code=settings.trust_remote_code,
            parser=plan.server.parser if parse else "",
            arguments=tuple(plan.words),
        )
        environment.prepare(layout)
        answer = inquiry.ask(question, plan.python, plan.environment, layout.run)
        if parse:
            _keep_parsed(layout, plan, answer, memory, doubtful)
        if tokenized is None:
            tokenized = answer
            _refuse_tokenizer(answer, model)
            memory.keep(_about_model(answer), *about_model)
    return _notes(tokenized, model)


def check_known(layout: Layout, release: str, settings: ServeConfig, model: Installed) -> None:
    """As `check`, without asking: what is known already to be refused.

    Raises UsageError.
    """
    plan = planned.plan(layout, release, settings, model)
    known = _memory(layout, release, plan).recall("options")
    if known is not None:
        _read(layout, plan, known)


def _memory(layout: Layout, release: str, plan: Planned) -> Memory:
    return Memory(layout.cache / "checked", (release, plan.server.parser))


def _read(layout: Layout, plan: Planned, known: Answer) -> tuple[tuple[str, ...], ...]:
    """Refuse what a parser's options exclude; gives what only the parser itself can judge."""
    reading = options.read(known.options, plan.words)
    _refuse(layout, plan.arguments, reading.problems)
    return reading.doubtful


def _keep_parsed(
    layout: Layout,
    plan: Planned,
    answer: Answer,
    memory: Memory,
    doubtful: Sequence[tuple[str, ...]],
) -> None:
    """Remember the options, and what was accepted with them; UsageError where it was not."""
    memory.keep(Answer(options=answer.options), "options")
    doubtful = (*doubtful, *_read(layout, plan, answer))
    if answer.refused:
        raise UsageError(
            f"{_place(layout, *_culprit(plan.arguments, answer.refused))}: "
            f"the server would not take it: {answer.refused}",
            mend=f"correct it; then run: {layout.spoken} config check",
        )
    for pair in set(doubtful):
        memory.keep(Answer(), "accepted", *pair)


def _refuse(
    layout: Layout, arguments: Sequence[Argument], problems: Sequence[options.Problem]
) -> None:
    if not problems:
        return
    sources = [(one.source, word) for one in arguments for word in one.words]
    texts = [f"{_place(layout, *sources[one.place])}: {one.text}" for one in problems]
    mend = "; ".join(dict.fromkeys(one.mend for one in problems))
    if len(texts) == 1:
        raise UsageError(texts[0], mend=mend)
    what = "the server would refuse its arguments"
    raise UsageError(what, findings=texts, mend=mend)


def _culprit(arguments: Sequence[Argument], message: str) -> tuple[str, str]:
    """Source and word of the argument that a message is about; what the operator added if none."""
    found = _NAMED.search(message)
    names = found[1].split("/") if found else []
    for one in reversed(arguments):
        for word in one.words:
            if word.partition("=")[0].replace("_", "-") in names:
                return one.source, word
    return "extra_arguments", ""


def _place(layout: Layout, source: str, word: str) -> str:
    """Where an argument was written: file, line and key."""
    if source not in _KEYS:
        return f"{_OTHERS[source]} ({word})"
    text = config.read(layout.config_file) if layout.config_file.exists() else ""
    return f"{layout.config_file}:{_line(text, source, word)}: {source}"


def _line(text: str, key: str, word: str) -> int:
    """The line of a word in a key's value, or of the key."""
    first = config.line_of(text, key)
    below = enumerate(text.splitlines()[first - 1 :], first)
    return next((number for number, line in below if word and word in line), first)


def _refuse_tokenizer(answer: Answer, model: Installed) -> None:
    mend = "run: bundlectl audit; then: bundlectl repair --from MEDIA"
    if model.model.risks:
        mend = "read the model's own code (bundlectl audit lists it), and set trust_remote_code"
    if answer.error and answer.error != trial.MISSING:
        told = f"it looked for {', '.join(dict.fromkeys(answer.wanted))}" if answer.wanted else ""
        raise UsageError(
            f"{model.name}: transformers {answer.version} can't load its tokenizer: "
            f"{answer.error.splitlines()[0]}",
            why=told,
            mend=mend,
        )
    if answer.template not in ("", "none", "renders"):
        raise UsageError(
            f"{model.name}: its chat template can't be rendered: {answer.template.splitlines()[0]}",
            mend=mend,
        )


def _about_model(answer: Answer) -> Answer:
    """The part that is kept with the model."""
    return Answer(
        version=answer.version,
        tokenizer=answer.tokenizer,
        template=answer.template,
        thinking=answer.thinking,
        error=answer.error,
    )


def _notes(answer: Answer, model: Installed) -> tuple[str, ...]:
    if answer.error:
        return (f"{model.name}: tokenizer not checked: {answer.error}",)
    if answer.template == "none":
        return (f"{model.name}: no chat template, so that chat completions answer with an error",)
    if not answer.thinking:
        return (
            f"{model.name}: the chat template has no enable_thinking: thinking changes nothing",
        )
    return ()
