"""Change one value in a TOML text, and not a byte beside it.

The text has to be valid; tomllib has said so before, and says again what came of the change, so
that a place that this reader misjudges is refused and never written.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from manifests.errors import UsageError

#: https://toml.io/en/v1.0.0: keys, strings and what may stand between statements.
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_STRINGS = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|' r"'''.*?'{3,5}|" r'"(?:[^"\\\n]|\\.)*"|' r"'[^'\n]*'", re.DOTALL
)
_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_COMMENT = re.compile(r"#[^\n]*")


@dataclass(frozen=True)
class Statement:
    """A line KEY = VALUE, or a [table]: where it stands in the text."""

    path: tuple[str, ...]  # the key's whole path
    start: int
    value: int  # where the value begins; of a table, where its line's content ends
    end: int  # after the value, without a comment behind it
    table: bool = False


def statements(text: str) -> Iterator[Statement]:
    """The statements of a valid TOML text, in order."""
    table: tuple[str, ...] = ()
    place = _after(_BLANK, text, 0)
    while place < len(text):
        if text[place] == "[":
            brackets = 2 if text.startswith("[[", place) else 1
            table, end = _key(text, place + brackets)
            end += brackets
            yield Statement(table, place, end, end, table=True)
        else:
            key, equals = _key(text, place)
            value = _after(_SPACE, text, equals + 1)
            end = _value_end(text, value)
            yield Statement((*table, *key), place, value, end)
        place = _after(_BLANK, text, end)


def changed(text: str, path: tuple[str, ...], value: Any, about: tuple[str, ...] = ()) -> str:
    """The text with a value set: a text, a number, true or false, or a list of texts.

    A key that is not there yet is put after its table's last one, below the lines `about` as
    comments. Raises UsageError where the text can't be changed like that.
    """
    data = tomllib.loads(text)
    known = list(statements(text))
    written = rendered(value)
    inline = [one for one in known if one.path == path[:-1] and not one.table]
    if found := [one for one in known if one.path == path and not one.table]:
        text = text[: found[0].value] + written + text[found[0].end :]
    elif len(path) > 1 and inline:
        text = _into_inline(text, inline[0], {**data[path[0]], path[1]: value})
    else:
        text = _added(text, known, path, written, about)
    return _proved(text, _with(data, path, value), path)


def without(text: str, path: tuple[str, ...]) -> str:
    """The text without a key and its line; comments above it stay.

    Raises UsageError as `changed` does.
    """
    data = tomllib.loads(text)
    known = list(statements(text))
    inline = [one for one in known if one.path == path[:-1] and not one.table]
    if found := [one for one in known if one.path == path and not one.table]:
        start, end = text.rfind("\n", 0, found[0].start) + 1, _line_end(text, found[0].end)
        text = text[:start] + text[end:]
    elif len(path) > 1 and inline:
        rest = {key: item for key, item in data[path[0]].items() if key != path[1]}
        text = _into_inline(text, inline[0], rest)
    return _proved(text, _with(data, path, None), path)


def rendered(value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, str):
        # A JSON string is a TOML basic string, except that TOML wants DEL escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(rendered, value))}]"
    return json.dumps(value)


def key_text(name: str) -> str:
    """One part of a key, in quotes where it needs them."""
    return name if _BARE.fullmatch(name) else rendered(name)


def _into_inline(text: str, place: Statement, values: dict[str, Any]) -> str:
    pairs = ", ".join(f"{key_text(key)} = {rendered(item)}" for key, item in values.items())
    table = f"{{ {pairs} }}" if pairs else "{}"
    return text[: place.value] + table + text[place.end :]


def _added(
    text: str,
    known: list[Statement],
    path: tuple[str, ...],
    written: str,
    about: tuple[str, ...],
) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    own = [one for one in known if one.path[: len(path) - 1] == path[:-1]]
    if len(path) == 1:  # before the first table, where there is one
        own = own[: next((n for n, one in enumerate(own) if one.table), len(own))]
    head = f"[{'.'.join(map(key_text, path[:-1]))}]" if len(path) > 1 and not own else ""
    keys = key_text(path[-1])
    if own and len(path) > 1 and not any(one.table for one in own):
        keys = ".".join(map(key_text, path))  # beside others that are written like that
    lines = [*(f"# {line}" for line in about), *([head] if head else []), f"{keys} = {written}"]
    tables = [one for one in known if one.table]
    place = _line_end(text, own[-1].end) if own else 0 if tables and len(path) == 1 else len(text)
    before, after = text[:place], text[place:]
    if before and not before.endswith("\n"):
        before += newline
    block = newline.join(lines) + newline
    spaced = bool(before) and (bool(about) or bool(head))
    return before + (newline if spaced else "") + block + after


def _proved(text: str, wanted: dict[str, Any], path: tuple[str, ...]) -> str:
    try:
        if tomllib.loads(text) == wanted:
            return text
    except (ValueError, RecursionError):
        pass
    name = ".".join(path)
    raise UsageError(
        f"{name} can't be changed in the file as it is written there",
        mend=f"edit {name} in the file yourself, then run: bundlectl config check",
    )


def _with(data: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The data with a value; None takes it away."""
    name, *rest = path
    if rest:
        value = _with(data.get(name, {}), tuple(rest), value)
    elif value is None:
        return {key: item for key, item in data.items() if key != name}
    return {**data, name: list(value) if isinstance(value, tuple) else value}


def _after(pattern: re.Pattern[str], text: str, place: int) -> int:
    found = pattern.match(text, place)
    return found.end() if found else place


def _key(text: str, place: int) -> tuple[tuple[str, ...], int]:
    """A key's parts, and the place of what follows it: = or ]."""
    parts: list[str] = []
    while True:
        place = _after(_SPACE, text, place)
        quoted = _STRINGS.match(text, place)
        found = quoted or _BARE.match(text, place)
        if found is None:
            return tuple(parts), place  # not valid TOML, which the caller has excluded
        word = found[0]
        parts.append(next(iter(tomllib.loads(f"{word} = 1"))) if quoted else word)
        place = _after(_SPACE, text, found.end())
        if not text.startswith(".", place):
            return tuple(parts), place
        place += 1


def _value_end(text: str, place: int) -> int:
    depth, end = 0, place
    while place < len(text):
        letter = text[place]
        if found := _STRINGS.match(text, place):
            place = end = found.end()
        elif letter == "#":
            if not depth:
                break
            place = _after(_COMMENT, text, place)
        elif letter == "\n" and not depth:
            break
        else:
            depth += (letter in "[{") - (letter in "]}")
            place += 1
            if letter not in " \t\r\n":
                end = place
    return end


def _line_end(text: str, place: int) -> int:
    found = text.find("\n", place)
    return len(text) if found < 0 else found + 1
