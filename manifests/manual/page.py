"""The whole manual as one HTML page: no scripts, nothing from elsewhere, good on paper.

The order of elements is the order of reading, so that a text browser shows it as well.
"""

from collections.abc import Iterator
from html import escape
from importlib import resources
from itertools import groupby

from manifests.manual.markup import CODE, HEADING, INLINE, ITEM, Block, Topic
from manifests.manual.topics import LANGUAGES, all_topics, words

#: Our names of languages → those of HTML's lang attribute (BCP 47).
_TAGS = {"en": "en", "zh": "zh-Hans"}
_ELEMENTS = {HEADING: "h3", CODE: "pre"}


def render() -> str:
    """The page, in all languages."""
    style = (resources.files(__package__) / "page.css").read_text("utf-8")
    title = " · ".join(words(language)["title"] for language in LANGUAGES)
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>\n{style}</style></head>",
            "<body>",
            *(line for language in LANGUAGES for line in _contents(language)),
            *(line for language in LANGUAGES for line in _chapters(language)),
            "</body></html>\n",
        )
    )


def _contents(language: str) -> Iterator[str]:
    yield f'<nav lang="{_TAGS[language]}"><h1>{escape(words(language)["title"])}</h1>'
    yield f"<p>{escape(words(language)['about'])}</p><ul>"
    for topic in all_topics(language):
        link = f'<a href="#{language}-{topic.name}">{escape(topic.name)}</a>'
        yield f"<li>{link} {escape(topic.title)}</li>"
    yield "</ul></nav>"


def _chapters(language: str) -> Iterator[str]:
    yield f'<main lang="{_TAGS[language]}">'
    for topic in all_topics(language):
        yield from _section(topic, language)
    yield "</main>"


def _section(topic: Topic, language: str) -> Iterator[str]:
    yield f'<section id="{language}-{topic.name}"><h2>{escape(topic.title)}</h2>'
    yield f"<p><strong>{_inline(topic.summary, language)}</strong></p>"
    for kind, blocks in groupby(topic.blocks, lambda block: block.kind):
        if kind == ITEM:
            yield "<ul>"
            yield from (f"<li>{_inline(block.text, language)}</li>" for block in blocks)
            yield "</ul>"
        else:
            yield from (_block(block, language) for block in blocks)
    yield "</section>"


def _block(block: Block, language: str) -> str:
    element = _ELEMENTS.get(block.kind, "p")
    inner = escape(block.text) if block.kind == CODE else _inline(block.text, language)
    return f"<{element}>{inner}</{element}>"


def _inline(text: str, language: str) -> str:
    """A text with its marks as elements; what is not a mark is escaped."""
    parts, place = [], 0
    for match in INLINE.finditer(text):
        parts.append(escape(text[place : match.start()]))
        code, name = match.groups()
        parts.append(
            f"<code>{escape(code)}</code>" if code else f'<a href="#{language}-{name}">{name}</a>'
        )
        place = match.end()
    return "".join((*parts, escape(text[place:])))
