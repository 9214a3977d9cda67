"""Canonical JSON: one text for one value, so that a digest of the text identifies the value.

Sorted keys, no white space, UTF-8, no floats (their text is not unique across writers); a subset
of RFC 8785. One newline ends the document.
"""

import hashlib
import json
from typing import Any


def dumps(value: Any) -> bytes:
    """The canonical bytes of a value made of dict, list, str, int, bool and None.

    Raises TypeError on anything else, floats included.
    """
    _check(value)
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode() + b"\n"


def sealed(value: Any) -> bytes:
    """The canonical bytes behind their own sha256: for what is kept in our own cache."""
    data = dumps(value)
    return hashlib.sha256(data).hexdigest().encode() + b"\n" + data


def unsealed(data: bytes) -> Any:
    """The value in sealed bytes.

    Raises ValueError where they are not the ones that were sealed.
    """
    digest, _, rest = data.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise ValueError("not what was sealed")
    return loads(rest)


def _check(value: Any) -> None:
    """Refuse what JSON would turn into something else, or write in more than one way."""
    if isinstance(value, float):
        raise TypeError(f"a float ({value!r}) has no canonical form")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is not a text")
            _check(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item)


def loads(data: bytes) -> Any:
    """Parse canonical JSON.

    Raises ValueError when the bytes are not JSON, hold a duplicate key, or are not canonical.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique)
        canonical = dumps(value)
    except TypeError as error:
        raise ValueError(str(error)) from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if canonical != data:
        raise ValueError("not in canonical form")
    return value


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For json.loads: an object, whose keys are all different.

    Raises ValueError where they are not.
    """
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("duplicate key")
    return value
