"""What a support file says of the servers' logs: which failures they tell of, and their ends."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from bundlectl import doctor, evidence, loglines
from bundlectl.layout import Layout
from bundlectl.redaction import Redactor
from bundlectl.scene import gather
from bundlectl.supportstate import moment
from manifests.doctor import Answer, diagnose, read

#: Bytes of a log's end that are looked at.
_TAIL = 4 << 20


def findings(layout: Layout) -> Iterator[str]:
    """The known failures that the logs speak of; where, but not the lines themselves."""
    for one in layout.every():
        logs_read = [read(path) for path in doctor.of_server(one)]
        diagnosis = diagnose(logs_read, partial(_answers, one))
        yield f"instance {one.called}: {len(diagnosis.findings)} known failures in its logs"
        for found in diagnosis.findings:
            match = found.match
            yield f"  {match.rule.id}: {found.standing}, {match.log}:{match.line}"
            yield f"    {match.rule.words(match.values)[0]}"


def _answers(layout: Layout, names: Sequence[str]) -> Mapping[str, Answer]:
    return evidence.answers(gather(layout), names) if names else {}


def logs(layout: Layout) -> tuple[Path, ...]:
    """The logs of all instances, in order."""
    return tuple(
        path
        for one in layout.every()
        for path in sorted(one.logs.glob("*"))
        if path.is_file() and not path.is_symlink()
    )


def log(path: Path, count: int, redactor: Redactor) -> Iterator[str]:
    """The last `count` lines of a log that may be shown; the redactor counts the others too."""
    with path.open("rb") as handle:
        length = handle.seek(0, 2)
        handle.seek(max(0, length - _TAIL))
        text = handle.read(_TAIL).decode("utf-8", "replace")
    if length > _TAIL:
        text = text.partition("\n")[2]  # the first line's beginning is missing, and what it is
    text = "\n".join(loglines.bounded(line) for line in text.split("\n"))
    # Secrets first: what takes out a request's words may leave half a secret.
    lines = redactor(text).split("\n")
    whole = length <= _TAIL and loglines.starting(lines)
    kept = list(loglines.shown(lines, loglines.Sieve(redactor.removed, serving=not whole)))[-count:]
    yield f"{length} bytes, last written {moment(path.stat().st_mtime)}"
    yield from kept
