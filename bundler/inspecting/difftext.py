"""A comparison as a person reads it: `+` came, `-` went, `~` differs."""

from collections import Counter
from collections.abc import Iterator

from bundler.inspecting.comparing import (
    ADDED,
    AREAS,
    CHANGED,
    REMOVED,
    REPLACED,
    Change,
    Comparison,
    Side,
    Thing,
)
from manifests.console import size

_SIGNS = {ADDED: "+", REMOVED: "-", CHANGED: "~", REPLACED: "~"}


def render(found: Comparison) -> str:
    """Both sides, then each difference below its area."""
    lines = [*_head("before", found.before), *_head("after", found.after)]
    for area in AREAS:
        changes = [change for change in found.changes if change.area == area]
        if changes:
            counts = Counter(change.change for change in changes)
            told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
            lines += ["", f"{_title(area)}: {told}", *map(_line, changes)]
    lines += ["", *_foot(found)]
    return "\n".join(lines)


def _head(title: str, side: Side) -> Iterator[str]:
    made = side.created_utc.replace("T", " ").replace("Z", " UTC")
    amount = f", {size(side.size)}" if side.size is not None else ""
    yield f"{title:>6}  {side.name}{amount}, made {made}"
    yield f"        {side.kind} {side.path}, sha256 {side.digest}"


def _foot(found: Comparison) -> Iterator[str]:
    if found.same:
        yield "nothing differs" + (" in what both know" if found.not_compared else "")
    if found.not_compared:
        areas = ", ".join(map(_title, found.not_compared))
        yield f"not compared, because one side does not say: {areas}"


def _title(area: str) -> str:
    return area.replace("_", " ")


def _line(change: Change) -> str:
    return f"  {_SIGNS[change.change]} {change.name}{_what(change)}"


def _what(change: Change) -> str:
    was, becomes = change.before, change.after
    if was is None or becomes is None:
        thing = was or becomes
        assert thing is not None
        return _one(thing)
    if change.change == CHANGED:
        return f" {was.text or 'none'} -> {becomes.text or 'none'}{_growth(was, becomes)}"
    version = f" {was.text}" if was.text else ""
    kind = next(kind for kind, digest in was.digests.items() if becomes.digests.get(kind) != digest)
    digests = f"{was.digests[kind][:12]} -> {becomes.digests[kind][:12]}"
    return f"{version}: other bytes, {kind} {digests}{_growth(was, becomes)}"


def _one(thing: Thing) -> str:
    amount = f" ({size(thing.size)})" if thing.size is not None else ""
    return f" {thing.text}{amount}" if thing.text else amount


def _growth(was: Thing, becomes: Thing) -> str:
    if was.size is None or becomes.size is None or was.size == becomes.size:
        return ""
    sign = "+" if becomes.size > was.size else "-"
    return f" ({size(becomes.size)}, {sign}{size(abs(becomes.size - was.size))})"
