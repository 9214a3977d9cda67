"""Words of the records that people sign, in one language or in both side by side."""

import tomllib
from functools import cache
from html import escape
from importlib import resources

from manifests.approval import BOTH, CHINESE, ENGLISH

#: Our names of languages → those of HTML's lang attribute (BCP 47).
TAGS = {ENGLISH: "en", CHINESE: "zh-Hans"}


@cache
def words() -> dict[str, list[str]]:
    """All words by key: English, Chinese."""
    text = (resources.files("manifests") / "approval.toml").read_text("utf-8")
    return tomllib.loads(text)


def plain(language: str, key: str) -> str:
    """A text without markup: for titles and pictures."""
    return " ".join(text for _, text in _said(language, key))


def markup(language: str, key: str) -> str:
    """A text as HTML, escaped; where there are two, each says its language."""
    said = _said(language, key)
    if len(said) == 1:
        return escape(said[0][1])
    return " ".join(f'<span lang="{TAGS[one]}">{escape(text)}</span>' for one, text in said)


def named(language: str, kind: str, name: str) -> str:
    """A name that has words of its own, as HTML; any other as it is."""
    key = f"{kind}-{name}"
    return markup(language, key) if key in words() else escape(name)


def _said(language: str, key: str) -> list[tuple[str, str]]:
    """Texts by language; what is the same in both is said once."""
    english, chinese = words()[key]
    both = [(ENGLISH, english), (CHINESE, chinese)]
    if language == BOTH:
        return both[:1] if english == chinese else both
    return [pair for pair in both if pair[0] == language]
