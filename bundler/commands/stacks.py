"""`bundle stacks`: the tested combinations, and which of them a host can run."""

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from bundler.options import EPILOG, Settings, target_options, voice
from bundler.request import Request
from bundler.target import describe
from manifests.choice import Verdict, choose, described, driver_needed, newest_first, verdicts
from manifests.console import Console
from manifests.exitcodes import ExitCode
from manifests.lock import Target
from manifests.records import to_data
from manifests.stack import Stack

_HEAD = ("", "stack", "CUDA", "driver ≥", "glibc ≥", "Python", "GPUs")
_WIDTH = 100
_INDENT = 9


@click.command(name="stacks", cls=Settings, epilog=EPILOG)
@target_options
@voice
def command(console: Console, **asked: Any) -> int:
    """List the tested combinations; of a host, say which fit it and why the others do not.

    Exit 0, or 5 where a host was described and none fits it.
    """
    if not any(asked.values()):
        console.result({"stacks": [to_data(one) for one in newest_first()]}, _all())
        return ExitCode.OK
    host = describe(Request(model="", output=Path(), channel="", **asked))
    judged = tuple(zip(newest_first(), verdicts(host.target), strict=True))
    fits = any(verdict.fits for _, verdict in judged)
    chosen = choose(host.target).stack.name if fits else ""
    record = {
        "target": to_data(host.target),
        "notes": list(host.notes),
        "chosen": chosen,
        "stacks": [to_data(one) | _record(verdict) for one, verdict in judged],
    }
    rows = [_row(_mark(verdict, chosen), one, _gpus(one, host.target)) for one, verdict in judged]
    below = [(*verdict.reasons, *verdict.notes) for _, verdict in judged]
    head = [f"target: {described(host.target)}", *host.notes, ""]
    console.result(record, "\n".join([*head, *_table(rows, below)]))
    return ExitCode.OK if fits else ExitCode.TARGET


def _record(verdict: Verdict) -> dict[str, Any]:
    return {
        "fits": verdict.fits,
        "reasons": list(verdict.reasons),
        "notes": list(verdict.notes),
    }


def _all() -> str:
    rows = [_row("", one, one.gpus[:1]) for one in newest_first()]
    return "\n".join(_table(rows, [tuple(_summary(one)) for one in newest_first()]))


def _summary(one: Stack) -> Iterator[str]:
    yield one.summary
    yield f"serves {', '.join(one.families)} ({', '.join(one.architectures)})"
    yield from (f"note: {conflict}" for conflict in one.conflicts)


def _mark(verdict: Verdict, chosen: str) -> str:
    if verdict.stack == chosen:
        return "taken"
    return "fits" if verdict.fits else "no"


def _gpus(one: Stack, target: Target) -> tuple[str, ...]:
    """The target's GPUs that the stack serves; without any, one that it does serve."""
    return tuple(gpu for gpu in target.gpus if gpu in one.gpus) or one.gpus[:1]


def _row(mark: str, one: Stack, gpus: Sequence[str]) -> tuple[str, ...]:
    return (
        mark,
        one.name,
        one.cuda.version if one.cuda else "-",
        driver_needed(one, gpus) or "-",
        one.glibc,
        " ".join(sorted(one.python)),
        " ".join(one.gpus),
    )


def _table(rows: Sequence[tuple[str, ...]], below: Sequence[Sequence[str]]) -> Iterator[str]:
    """A line for each row, and what is to be said of it below."""
    widths = [max(map(len, column)) for column in zip(_HEAD, *rows, strict=True)]
    yield _aligned(_HEAD, widths)
    for row, sentences in zip(rows, below, strict=True):
        yield _aligned(row, widths)
        for sentence in sentences:
            yield textwrap.fill(
                sentence, _WIDTH, initial_indent=" " * _INDENT, subsequent_indent=" " * _INDENT
            )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "  ".join(cells).rstrip()
