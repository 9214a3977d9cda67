"""Tokens per second: so many streams at a time against a server of OpenAI's interface.

Standard library only; one process, one task per stream. A stream's bytes are hardly looked at while
they come (the first piece's time, and at the end the server's own count in `usage`), so that ten
thousand pieces a second are no load worth mentioning.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: Bytes that hold the last pieces of a stream: the usage, and [DONE].
_TAIL = 8192


@dataclass(frozen=True)
class Target:
    """A server; `key` may be empty."""

    host: str
    port: int
    model: str
    key: str = ""


@dataclass(frozen=True)
class Stream:
    """One answer, in seconds and tokens."""

    first: float
    whole: float
    tokens: int


def prompt(number: int, length: int) -> list[int]:
    """Token ids, other ones for each number: no prompt's beginning is in a cache."""
    return [10 + (index * 7 + number * 13) % 200 for index in range(length)]


def body(target: Target, number: int, length: int, answer: int) -> dict[str, Any]:
    return {
        "model": target.model,
        "prompt": prompt(number, length),
        "max_tokens": answer,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def request(target: Target, path: str, document: Mapping[str, Any]) -> bytes:
    data = json.dumps(document).encode()
    lines = [
        f"POST {path} HTTP/1.1",
        f"Host: {target.host}:{target.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
        "Connection: close",
        *([f"Authorization: Bearer {target.key}"] if target.key else []),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


async def stream(target: Target, number: int, length: int, answer: int) -> Stream:
    """One request. Raises ValueError for a refusal or a stream that was cut off."""
    begun, first, tail = time.perf_counter(), 0.0, b""
    reader, writer = await asyncio.open_connection(target.host, target.port)
    try:
        writer.write(request(target, "/v1/completions", body(target, number, length, answer)))
        await writer.drain()
        status = await reader.readline()
        if b" 200 " not in status:
            raise ValueError(
                f"{status.decode(errors='replace').strip()}: {await reader.read(500)!r}"
            )
        while data := await reader.read(1 << 16):
            if not first and b"data: " in tail + data:
                first = time.perf_counter() - begun
            tail = (tail + data)[-_TAIL:]
    finally:
        writer.close()
    return Stream(first, time.perf_counter() - begun, usage(tail))


def usage(tail: bytes) -> int:
    """Tokens of the answer by the server's own count, in the end of a stream.

    Raises ValueError where the stream did not come to its end.
    """
    events = [line[6:] for line in tail.splitlines() if line.startswith(b"data: ")]
    if not events or events[-1].strip() != b"[DONE]":
        raise ValueError(f"a stream was cut off: {tail[-200:]!r}")
    for event in reversed(events[:-1]):
        if b'"usage"' in event and (count := json.loads(event).get("usage")):
            return int(count["completion_tokens"])
    raise ValueError("a stream without usage")


async def _burst(target: Target, streams: int, length: int, answer: int) -> list[Stream]:
    tasks = [stream(target, number, length, answer) for number in range(streams)]
    return list(await asyncio.gather(*tasks))


def measure(
    target: Target, streams: int, limit: float, length: int = 64, answer: int = 256
) -> dict[str, float]:
    """So many streams at once, from the first byte to the last.

    Raises TimeoutError, OSError, ValueError.
    """

    async def all_of_them() -> list[Stream]:
        return await asyncio.wait_for(_burst(target, streams, length, answer), limit)

    begun = time.perf_counter()
    found = asyncio.run(all_of_them())
    wall = time.perf_counter() - begun
    tokens = sum(one.tokens for one in found)
    firsts = sorted(one.first for one in found)
    return {
        "streams": streams,
        "tokens": tokens,
        "seconds": round(wall, 3),
        "tokens_per_second": round(tokens / wall, 1),
        "first_token_ms": round(statistics.median(firsts) * 1000, 1),
        "last_first_token_ms": round(firsts[-1] * 1000, 1),
    }


def interleaved(
    targets: Mapping[str, Target],
    sizes: Sequence[int],
    rounds: int,
    limit: float,
    answer: int = 256,
) -> dict[str, dict[str, list[dict[str, float]]]]:
    """Readings by number of streams and target, in the order A B B A A B …; first an unread one."""
    end = time.monotonic() + limit
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    names = list(targets)
    for size in sizes:
        for name in names:
            measure(targets[name], size, max(1.0, end - time.monotonic()), answer=answer)
        readings = found[str(size)] = {name: [] for name in names}
        for turn in range(rounds):
            for name in names if turn % 2 == 0 else reversed(names):
                left = max(1.0, end - time.monotonic())
                readings[name].append(measure(targets[name], size, left, answer=answer))
    return found


def medians(readings: Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]) -> dict[str, Any]:
    """By number of streams: the median of each target, and the first target's by the second's."""
    table: dict[str, Any] = {}
    for size, by_name in readings.items():
        row = {
            name: {
                "tokens_per_second": statistics.median(r["tokens_per_second"] for r in of_target),
                "first_token_ms": statistics.median(r["first_token_ms"] for r in of_target),
            }
            for name, of_target in by_name.items()
        }
        first, second = (row[name]["tokens_per_second"] for name in list(row)[:2])
        table[size] = {**row, "ratio": round(first / second, 3) if second else None}
    return table
