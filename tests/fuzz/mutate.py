"""Mutations without a guide: for runs without atheris, and for a quick test."""

import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from manifests import canonical
from tests.fuzz.seeds import SEEDS, WORDS

#: Formats of which hardly any change of bytes is canonical: their values are changed instead.
_CANONICAL = ("manifest", "locked", "receipt")
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 1 << 63, 10**40, 10**4000, "", "..", "/etc/passwd", "a/" * 3000, "²", "\0",
    "x" * 300, "\udce9", [], {}, ["x"], [[]], "link", "folder", "0" * 64, "model/x", "env/x",
)  # fmt: skip


def mutations(name: str, number: int, seed: int = 0) -> Iterator[bytes]:
    """The seeds of a target, and `number` changes of them; the same for the same `seed`."""
    generator = random.Random(f"{name} {seed}")
    yield from SEEDS[name]
    for _ in range(number):
        sound = generator.choice(SEEDS[name])
        if name in _CANONICAL and generator.random() < 0.8:
            yield _other_values(sound, generator)
            continue
        data = bytearray(sound)
        for _ in range(generator.choice((1, 1, 1, 2, 4))):
            generator.choice(_CHANGES)(data, generator)
        yield bytes(data)


def _other_values(sound: bytes, generator: random.Random) -> bytes:
    value = json.loads(sound)
    for _ in range(generator.choice((1, 1, 2))):
        place = value
        while True:
            keys = list(place) if isinstance(place, dict) else range(len(place))
            key = generator.choice(keys)
            if not place[key] or not isinstance(place[key], dict | list):
                break
            if generator.random() < 0.1:
                break
            place = place[key]
        change = generator.randrange(8)
        if change == 0:
            del place[key]
        elif change == 1 and isinstance(place, list):
            place.append(deepcopy(place[key]))
        else:
            place[key] = deepcopy(generator.choice(_VALUES))
    try:
        return canonical.dumps(value)
    except UnicodeEncodeError:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode() + b"\n"


def _place(data: bytearray, generator: random.Random) -> int:
    return generator.randrange(len(data) + 1)


def _flip(data: bytearray, generator: random.Random) -> None:
    if data:
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)


def _set(data: bytearray, generator: random.Random) -> None:
    if data:
        data[generator.randrange(len(data))] = generator.choice((0, 1, 0x7F, 0x80, 0xFF))


def _cut(data: bytearray, generator: random.Random) -> None:
    del data[_place(data, generator) :]


def _remove(data: bytearray, generator: random.Random) -> None:
    start = _place(data, generator)
    del data[start : start + generator.choice((1, 4, 16, 512))]


def _repeat(data: bytearray, generator: random.Random) -> None:
    start = _place(data, generator)
    piece = data[start : start + generator.choice((1, 8, 64))]
    data[start:start] = piece * generator.choice((1, 2, 100))


def _insert(data: bytearray, generator: random.Random) -> None:
    start = _place(data, generator)
    data[start:start] = generator.choice(WORDS)


def _replace(data: bytearray, generator: random.Random) -> None:
    """Put a word in the place of a number or a text, where the format has some."""
    start = _place(data, generator)
    stop = start
    while stop < len(data) and data[stop : stop + 1].isalnum():
        stop += 1
    data[start:stop] = generator.choice(WORDS)


_CHANGES = (_flip, _set, _cut, _remove, _repeat, _insert, _replace)
