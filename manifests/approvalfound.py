"""The page of an installation record, below its heading."""

from collections.abc import Iterator
from functools import partial
from html import escape

from manifests.approval import Audited, Installation, Instance, Problem
from manifests.approvallayers import svg
from manifests.approvalmarks import (
    Row,
    amount,
    digest,
    few,
    joined,
    lines,
    pairs,
    section,
    signatures,
)
from manifests.approvalsections import risks, sizes, target, what
from manifests.approvalwords import markup
from manifests.console import size


def body(record: Installation, language: str) -> Iterator[str]:
    """Its sections."""
    say = partial(markup, language)
    yield section(say("verdict"), pairs(_verdict(record, language)), "verdict")
    for one in record.releases:
        release = one.release
        yield f'<h2 class="release">{say("release")}: {escape(release.name)}</h2>'
        yield '<div class="pictures"><div>'
        yield section(say("what"), pairs(what(release, language)))
        rows = [*target(release, language), *sizes(release, (), language)]
        if one.ignored:
            rows.append((say("ignored-checks"), escape(", ".join(one.ignored))))
        yield section(say("target"), pairs(rows))
        yield "</div>"
        yield section(say("layers"), svg(release.layers, language), "stack")
        yield "</div>"
        rows = [
            (say("manifest"), digest(release.manifest_sha256)),
            (say("lock"), digest(release.lock_sha256)),
            *risks(release, language),
        ]
        yield section(say("digests"), pairs(rows), "digests")
    yield section(say("settings"), pairs(_settings(record, language)))
    yield signatures(("audit", "security", "operations"), language)


def _verdict(record: Installation, language: str) -> Iterator[Row]:
    say, audited = partial(markup, language), record.audited
    key = _answer(audited)
    detail = "" if audited.clean else f"{say('problems')}: {audited.count:,}"
    if key == "intact":
        detail = say("intact-text")
    yield say("audit"), f'<strong class="{key}">{say(key)}</strong> {detail}'
    problems = [escape(_problem(one)) for one in audited.problems]
    if problems:
        yield "", few(problems, language, count=audited.count)
    yield say("covered"), amount(audited.size, audited.files, language)
    if (sample := audited.sample) is not None:
        read = f"{say('files')}: {sample.files:,} / {sample.of_files:,}"
        amounts = f"{size(sample.size)} / {size(sample.of_size)}"
        proofs = "; ".join(f"{count:,}: {chance}" for count, chance in sample.proofs())
        seed = f"{say('seed')} <code>{escape(sample.seed)}</code>"
        yield say("sampled"), lines(joined(amounts, read, seed), f"{say('missed')}: {proofs}")
    if audited.resumed:
        yield say("resumed"), f"{say('files')}: {audited.resumed:,}"
    if record.host:
        yield say("found-on"), escape(record.host)


def _answer(audited: Audited) -> str:
    if not audited.clean:
        return "not-intact"
    return "intact" if audited.sample is None else "sample-intact"


def _problem(one: Problem) -> str:
    detail = f" ({one.expected or '—'} → {one.found or '—'})" if one.expected or one.found else ""
    return f"{one.problem}: {one.path}{detail}"


def _settings(record: Installation, language: str) -> Iterator[Row]:
    say = partial(markup, language)
    keys = [f"<code>{escape(key)}</code>" for key in record.trusted]
    yield say("trusted"), "<br>".join(keys) or say("no-key")
    if record.instances is None:
        yield say("instances"), say("not-looked")
    for one in record.instances or ():
        yield f"{say('instances')}: {escape(one.name)}", _instance(one, language)


def _instance(one: Instance, language: str) -> str:
    say = partial(markup, language)
    serves = escape(f"{one.model or '—'} ← {one.release}") if one.release else say("serves-nothing")
    if one.problem:
        return joined(serves, escape(one.problem))
    reach = say("local" if one.local else "remote")
    return joined(serves, reach, say("remote-code") if one.remote_code else "")
