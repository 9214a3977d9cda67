"""What a record's page says of a release, on both sides."""

import time
from collections.abc import Iterator
from functools import partial
from html import escape

from manifests import approval, gpu
from manifests.approval import File, Release
from manifests.approvalmarks import TIMES, Row, amount, few, joined, lines
from manifests.approvalwords import markup
from manifests.console import size


def what(release: Release, language: str, delta_on: str = "") -> Iterator[Row]:
    """What it is; `delta_on` names the bundle that a delta needs."""
    say = partial(markup, language)
    for part in release.parts:
        yield say(part.kind), joined(f"<b>{escape(part.name)}</b>", escape(part.licence))
        yield say("commit"), f"<code>{escape(part.revision)}</code>"
    layers = {layer.kind: layer for layer in release.layers}
    if server := layers.get(approval.SERVER):
        title = f"<b>{escape(f'{server.name} {server.version}'.strip())}</b>"
        yield say("server"), lines(title, f"<code>{escape(' '.join(release.server))}</code>")
    yield say("stack"), f"{escape(release.stack)}, {say('flavour')} {escape(release.flavour)}"
    made = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(release.created))
    yield say("made"), f"{made}, {escape(release.tool)}, {say('sequence')} {release.sequence}"
    if delta_on:
        yield say("delta"), escape(delta_on)


def target(release: Release, language: str) -> Iterator[Row]:
    """The host that it is for."""
    say, target, needs = partial(markup, language), release.target, release.needs
    if target.gpus == (gpu.CPU,):
        yield say("gpus"), say("no-gpu")
    else:
        count = f"{target.gpu_count} {TIMES} " if target.gpu_count else ""
        memory = f"{say('each')} {size(target.gpu_memory)}" if target.gpu_memory else ""
        yield say("gpus"), joined(escape(count + " / ".join(target.gpus)), memory)
        least = f"≥ {escape(needs.driver)}" if needs.driver else ""
        there = f"{say('told')} {escape(target.driver)}" if target.driver else ""
        yield say("driver"), joined(least, there) or "—"
    system = f"Linux {target.arch}, glibc ≥ {needs.glibc}, Python {target.python}"
    yield say("system"), escape(system)
    if needs.memory:
        yield say("free-memory"), f"≥ {size(needs.memory)}"


def sizes(release: Release, files: tuple[File, ...], language: str) -> Iterator[Row]:
    """Bytes on the media (where `files` lie there) and installed."""
    say = partial(markup, language)
    if files:
        known = [file.size for file in files if file.size is not None]
        total = sum(known) if len(known) == len(files) else None
        yield say("media"), amount(total, len(files), language)
    models = sum(part.files for part in release.parts)
    yield say("models"), amount(sum(part.size for part in release.parts), models, language)
    for name, tree in (("environment", release.environment), ("runtime", release.runtime)):
        if tree.files:
            yield say(name), amount(tree.size, tree.files, language)
    yield say("installed"), f"<b>{size(release.installed)}</b>"


def risks(release: Release, language: str) -> Iterator[Row]:
    """Files that can run code, where there are any."""
    if release.risks:
        yield markup(language, "risks"), few([escape(risk) for risk in release.risks], language)
