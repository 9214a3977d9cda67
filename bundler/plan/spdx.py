"""SPDX licence expressions: the one place that knows license-expression.

Format: https://spdx.github.io/spdx-spec/v2.3/SPDX-license-expressions/.
"""

import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, TypeVar

from license_expression import ExpressionError, Licensing, get_spdx_licensing

T = TypeVar("T")
#: Looser than the format, which has `LicenseRef-` before names that are not on SPDX's list.
_NAME = re.compile(r"[\w.:-]+\+?(?: WITH [\w.:-]+)?", re.ASCII)
_LATER = re.compile(r"(?:-only|-or-later|\+)(?= WITH |$)", re.IGNORECASE)
_OWN = "licenseref-"
_PARSER = Licensing()


def fold(
    expression: str,
    leaf: Callable[[str], T],
    every: Callable[[Sequence[T]], T],
    either: Callable[[Sequence[T]], T],
) -> T:
    """What an expression comes to: AND asks for all of its licences, OR leaves the choice.

    `leaf` has one identifier, with its exception ("GPL-3.0-only WITH GCC-exception-3.1").
    Raises ValueError where it is no expression.
    """

    def value(node: Any) -> T:
        if isinstance(node, _PARSER.AND):
            return every([value(part) for part in node.args])
        if isinstance(node, _PARSER.OR):
            return either([value(part) for part in node.args])
        name = str(node)
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no identifier")
        return leaf(name)

    try:
        return value(_PARSER.parse(expression))
    except (ExpressionError, AssertionError, LookupError, TypeError, RecursionError) as error:
        # The parser means its ExpressionError; what is far from an expression trips it otherwise.
        raise ValueError(str(error)) from None


def leaves(expression: str) -> tuple[str, ...]:
    """The identifiers in an expression, each once, in its order.

    Raises ValueError where it is no expression.
    """

    def joined(parts: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for part in parts for name in part))

    return fold(expression, lambda name: (name,), joined, joined)


def known(name: str) -> bool:
    """Whether an identifier is on SPDX's list, or says itself that it is on somebody's own."""
    licence, _, exception = name.partition(" WITH ")
    listed = all(part.lower() in _listed() for part in (licence, exception) if part)
    return listed or licence.lower().startswith(_OWN)


def is_pattern(pattern: str) -> bool:
    """Whether a pattern, as of fnmatch, can fit an identifier; without regard to case."""
    licence, _, exception = pattern.lower().partition(" with ")
    own = licence.startswith(_OWN)
    return all(
        any(fnmatchcase(name, part) for name in _listed())
        for part in ("" if own else licence, exception)
        if part
    )


def undecided(name: str) -> str:
    """An identifier without what a licence's text alone can't say: `-only`, `-or-later`."""
    return _LATER.sub("", name)


def base(name: str) -> str:
    """An identifier in small letters without exception and without later versions."""
    return undecided(name).partition(" WITH ")[0].lower()


@cache
def _listed() -> frozenset[str]:
    symbols = get_spdx_licensing().known_symbols
    names = {name for symbol in symbols.values() for name in (symbol.key, *symbol.aliases)}
    return frozenset(name.lower() for name in names)
