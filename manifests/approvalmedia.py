"""The page of an approval, below its heading."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from html import escape

from manifests.approval import Approval, Count, Part, Signer
from manifests.approvallayers import svg
from manifests.approvalmarks import (
    TIMES,
    Row,
    digest,
    few,
    joined,
    lines,
    pairs,
    section,
    signatures,
)
from manifests.approvalsections import risks, sizes, target, what
from manifests.approvalwords import markup, named

#: Files on the media that are listed; SHA256SUMS, whose digest is signed, has all of them.
_VOLUMES = 40


@dataclass(frozen=True)
class Pictures:
    """What is drawn by libraries that the isolated host lacks, as SVG."""

    code: str = ""  # QR code of the list's digest
    sizes: str = ""  # treemap


def body(record: Approval, language: str, pictures: Pictures) -> Iterator[str]:
    """Its sections."""
    release, say = record.release, partial(markup, language)
    yield '<div class="two">'
    yield section(say("what"), pairs(what(release, language, record.medium.delta_on)))
    yield section(say("from"), pairs(_sources(record, language)))
    yield section(say("target"), pairs(target(release, language)))
    yield section(say("sizes"), pairs(sizes(release, record.medium.files, language)))
    yield "</div>"
    yield '<div class="pictures">'
    yield section(say("picture"), pictures.sizes, "sizes")
    yield section(say("layers"), svg(release.layers, language), "stack")
    yield "</div>"
    yield section(say("digests"), pairs(_digests(record, language)), "digests")
    yield section(say("look"), pairs(_looked(record, language)))
    yield signatures(("security", "legal", "operations"), language)


def _sources(record: Approval, language: str) -> Iterator[Row]:
    say, sources = partial(markup, language), record.sources
    yield say("models"), escape(", ".join(dict.fromkeys(map(_source, record.release.parts))))
    if sources.wheels:
        told = [_counted_place(one.count, one.name, language) for one in sources.wheels]
        yield say("wheels"), ", ".join(told)
    if sources.conda:
        yield say("conda"), _counted_place(sources.conda, sources.channel, language)
    if sources.built:
        yield say("built"), escape(", ".join(sources.built))
    if sources.repaired:
        yield say("repaired"), str(sources.repaired)
    if sources.unpublished:
        yield say("unpublished"), f"{sources.unpublished} {TIMES} {say('unpublished-text')}"


def _counted_place(count: int, name: str, language: str) -> str:
    return f"{count} {TIMES} {named(language, 'place', name)}"


def _source(part: Part) -> str:
    scheme, _, rest = part.source.partition(":")
    return f"Hugging Face Hub: {rest}" if scheme == "hf" else part.source


def _digests(record: Approval, language: str) -> Iterator[Row]:
    say, release, medium = partial(markup, language), record.release, record.medium
    yield say("list"), f"<b>{digest(medium.list_sha256)}</b>"
    yield say("manifest"), digest(medium.manifest_sha256)
    if release.manifest_sha256 != medium.manifest_sha256:
        yield say("whole-manifest"), digest(release.manifest_sha256)
    yield say("lock"), digest(release.lock_sha256)
    for file in medium.files[:_VOLUMES]:
        name = file.name.removeprefix(release.name)  # which stands above
        yield escape(name), digest(file.sha256)
    if len(medium.files) > _VOLUMES:
        yield "", f"+ {len(medium.files) - _VOLUMES:,} {say('more')}"


def _looked(record: Approval, language: str) -> Iterator[Row]:
    say = partial(markup, language)
    yield say("signer"), _signer(record.medium.signer, language)
    yield say("licences"), _licences(record, language)
    yield say("vulnerabilities"), _vulnerabilities(record, language)
    yield from risks(record.release, language)


def _signer(signer: Signer | None, language: str) -> str:
    say = partial(markup, language)
    if signer is None:
        return say("unsigned")
    key = escape(signer.form)
    if signer.fingerprint:
        key = f"{say('key')} <code>{escape(signer.fingerprint)}</code>"
    return joined(key, say("checked" if signer.checked else "unchecked"))


def _licences(record: Approval, language: str) -> str:
    found = record.licences
    if found is None:
        return markup(language, "not-looked")
    look = _counted(found.look, "eye", language)
    read = markup(language, "to-read" if look else "none-to-read")
    return lines(_counted(found.families, "family", language), f"{read}: {look}" if look else read)


def _vulnerabilities(record: Approval, language: str) -> str:
    say, found = partial(markup, language), record.vulnerabilities
    if found is None:
        return say("not-looked")
    none = say("none-known-packages" if found.unscanned else "none-known")
    counts = _counted(found.counts, "severity", language) or none
    ignored = f"{found.ignored} {say('ignored')}" if found.ignored else ""
    database = f"{say('database')} {escape(found.database)}"
    old = f"<b>{say('old')}: {found.age:,}</b>" if found.age else ""
    unseen = f"{found.unseen} {say('unseen')}" if found.unseen else ""
    worst = few([escape(one) for one in found.worst], language, "; ")
    unscanned = ""
    if found.unscanned:
        why = named(language, "unscanned", found.unscanned)
        unscanned = f"<b>{say('unscanned')}</b>: {why}"
    first = "; ".join(filter(None, (counts, ignored, database, old, unseen)))
    return lines(first, unscanned, worst)


def _counted(counts: Iterable[Count], kind: str, language: str) -> str:
    return ", ".join(f"{one.count} {named(language, kind, one.name)}" for one in counts)
