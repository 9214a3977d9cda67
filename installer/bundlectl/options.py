"""Read a command line as the server's argparse would, from what its parser was seen to know.

Pure, and done in milliseconds where the server itself takes half a minute to say the same. What
can't be told from the outside (a value that a function of the server reads) is named, for the
parser itself to judge.
"""

import difflib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from manifests.trial import Option

#: argparse's _negative_number_matcher: such a word is a value, not an option.
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
#: nargs as argparse knows them → least and most values. It knows others (REMAINDER, PARSER), which
#: take options for values.
_COUNTS: dict[str, tuple[int, int | None]] = {
    "": (1, 1),
    "?": (0, 1),
    "*": (0, None),
    "+": (1, None),
}
_SHOWN = 60  # characters of a value in a message


@dataclass(frozen=True)
class Problem:
    """What the server would refuse; `place` is the word's number."""

    place: int
    text: str
    mend: str


@dataclass(frozen=True)
class Reading:
    """What came of a command line. `doubtful` are options with their values, to be asked about."""

    problems: tuple[Problem, ...] = ()
    doubtful: tuple[tuple[str, ...], ...] = ()


def _whole(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _fraction(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


#: Functions by which argparse reads a value: what they take, and how that is called.
_KINDS: dict[str, tuple[Callable[[str], bool], str]] = {
    "": (lambda _: True, "a text"),
    "int": (_whole, "a whole number"),
    "float": (_fraction, "a number"),
    "loads": (_is_json, 'JSON, such as {"key": "value"}'),
}
#: Functions of vLLM that take more than the plain numbers that are certain.
_PLAIN = {
    "human_readable_int": re.compile(r"\d+"),
    "human_readable_int_or_auto": re.compile(r"\d+"),
}


def read(options: Sequence[Option], words: Sequence[str]) -> Reading:
    """Hold a command line against a parser's options."""
    reader = _Reader(tuple(options), tuple(words))
    place = 0
    while place < len(words):
        place = reader.step(place)
    return Reading(tuple(reader.problems), tuple(dict.fromkeys(reader.doubtful)))


@dataclass
class _Reader:
    options: tuple[Option, ...]
    words: tuple[str, ...]
    problems: list[Problem] = field(default_factory=list)
    doubtful: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = {name: option for option in self.options for name in option.names}

    def step(self, place: int) -> int:
        """Take the word at a place with its values; gives the place after them."""
        word = self.words[place]
        if not _is_option(word):
            mend = "remove it, or write the option before it" if place else "remove it"
            self._wrong(place, f"{word[:_SHOWN]!r} belongs to no option", mend)
            return place + 1
        name, equals, value = word.partition("=")
        name = _dashed(name)
        following = self._values(place + 1)
        given = (value,) if equals else following
        after = place + 1 + (0 if equals else len(following))
        if (option := self.known.get(name)) is not None:
            return self._take(place, name, option, given, attached=bool(equals))
        if name.startswith("--") and "." not in name:
            self._unknown(place, name)
        elif name.startswith("--") and name.partition(".")[0] not in self.known:
            self._unknown(place, name.partition(".")[0])
        else:  # parts of JSON (--x.y 1), and short options with their value in one word
            self.doubtful.append((word, *following) if not equals else (word,))
        return after

    def _values(self, place: int) -> tuple[str, ...]:
        end = place
        while end < len(self.words) and not _is_option(self.words[end]):
            end += 1
        return self.words[place:end]

    def _take(
        self, place: int, name: str, option: Option, given: tuple[str, ...], *, attached: bool
    ) -> int:
        if (counts := _counts(option.nargs)) is None:
            value = given if attached else ()
            self.doubtful.append((name, *value, *self.words[place + 1 :]))
            return len(self.words)
        least, most = counts
        taken = given if most is None else given[:most]
        if attached and most == 0:
            self._wrong(place, f"{name} takes no value", f"write {name} alone")
            return place + 1
        if len(taken) < least:
            mend = f"write {name}=VALUE where the value begins with a dash"
            self._wrong(place, f"{name} needs a value", mend)
        elif not all(self._fits(place, name, option, value) for value in taken):
            self.doubtful.append((name, *taken))
        return place + 1 + (0 if attached else len(taken))

    def _fits(self, place: int, name: str, option: Option, value: str) -> bool:
        """Whether a value is right or certainly wrong; False where only the parser can tell."""
        shown = f"{value[:_SHOWN]!r}"
        if option.kind in _KINDS:
            takes, wanted = _KINDS[option.kind]
            if not takes(value):
                self._wrong(place, f"{name} is {shown}, and must be {wanted}", "correct it")
            elif option.choices and value not in option.choices:
                near = difflib.get_close_matches(value, option.choices, n=1)
                few = ", ".join(option.choices)
                mend = f"did you mean {near[0]}?" if near else f"choose from: {few}"
                self._wrong(place, f"{name} can't be {shown}", mend)
            return True
        plain = _PLAIN.get(option.kind)
        return plain is not None and plain.fullmatch(value) is not None

    def _unknown(self, place: int, name: str) -> None:
        # argparse takes an unambiguous beginning for the whole; that may be another in a later
        # release, and a mistyped word is not meant at all.
        meant = sorted(known for known in self.known if known.startswith(name))
        if len(name) > len("--") and meant:
            text = f"{name} is a part of: {', '.join(meant)}"
            self._wrong(place, text, f"write {meant[0]} out" if len(meant) == 1 else "write one")
            return
        near = difflib.get_close_matches(name, self.known, n=3)
        mend = f"did you mean {' or '.join(near)}?" if near else "remove it"
        self._wrong(place, f"the server has no option {name[:_SHOWN]}", mend)

    def _wrong(self, place: int, text: str, mend: str) -> None:
        self.problems.append(Problem(place, text, mend))


def _counts(nargs: str) -> tuple[int, int | None] | None:
    """Least and most values of an option; None where only argparse can tell."""
    if nargs.isdecimal():
        return int(nargs), int(nargs)
    return _COUNTS.get(nargs)


def _is_option(word: str) -> bool:
    if not word.startswith("-") or word == "-" or _NUMBER.fullmatch(word):
        return False
    return " " not in word.partition("=")[0]


def _dashed(name: str) -> str:
    """--a-b for --a_b, up to the first point, as vLLM's FlexibleArgumentParser has it."""
    if not name.startswith("--"):
        return name
    head, point, rest = name.partition(".")
    return head.replace("_", "-") + point + rest
