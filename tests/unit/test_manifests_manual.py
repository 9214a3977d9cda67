"""The manual: both languages say the same, what they name exists, and it is shown well."""

import argparse
import re
import shlex
from collections.abc import Iterator
from dataclasses import fields
from html.parser import HTMLParser
from itertools import pairwise

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.arguments import command_first, parser
from bundlectl.config import ServeConfig, _assignment
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from manifests.manual import page, text, topics
from manifests.manual.documents import documents
from manifests.manual.markup import CODE, HEADING, INLINE, ITEM, PARAGRAPH, Block, is_wide, parse
from tests.support.connectedcommands import bundle_commands
from tests.support.small import ROOT

#: Options of other programs, and what install.sh takes out of the words itself.
FOREIGN = {
    *("--device", "--gpus", "--ipc", "--shm-size", "--stop-timeout", "--shutdown"),
    *("--create-home", "--home-dir", "--system", "--noproxy"),
    *("--dtype", "--gdn-prefill-backend", "--load-format", "--seed"),
    *("--key", "--trust-digest"),
}
#: The only addresses that a manual for a host without a network may hold.
OWN_ADDRESS = "http://127.0.0.1:8000"


def blocks(name: str, language: str, kind: str) -> list[str]:
    return [block.text for block in topics.topic(name, language).blocks if block.kind == kind]


def commands(code: str) -> list[list[str]]:
    """The words of each line of a block of code, without comments."""
    lines = code.replace("\\\n", "").splitlines()
    return [words for line in lines if (words := line.split("  #")[0].split())]


def spoken(language: str) -> Iterator[str]:
    """Every line of code and every piece of `code` of all topics."""
    for name in topics.NAMES:
        topic = topics.topic(name, language)
        for block in topic.blocks:
            if block.kind == CODE:
                yield from (" ".join(words) for words in commands(block.text))
            else:
                yield from (match[1] for match in INLINE.finditer(block.text) if match[1])


def test_every_topic_has_its_file_in_every_language():
    for language in topics.LANGUAGES:
        folder = ROOT / "manifests/manual" / language
        assert sorted(path.stem for path in folder.iterdir()) == sorted(topics.NAMES)


@pytest.mark.parametrize("name", topics.NAMES)
def test_both_languages_have_the_same_parts(name):
    kinds = {
        tuple(block.kind for block in topics.topic(name, language).blocks)
        for language in topics.LANGUAGES
    }
    assert len(kinds) == 1


@pytest.mark.parametrize("name", topics.NAMES)
def test_both_languages_have_the_same_code(name):
    code = [
        [commands(block) for block in blocks(name, language, CODE)] for language in topics.LANGUAGES
    ]
    assert code[0] == code[1]
    assert code[0]  # each topic ends with something to type


@pytest.mark.parametrize("name", topics.NAMES)
def test_both_languages_name_the_same_words_and_topics(name):
    named = [
        sorted(
            match[0]
            for block in topics.topic(name, language).blocks
            for match in INLINE.finditer(block.text)
        )
        for language in topics.LANGUAGES
    ]
    assert named[0] == named[1]


@pytest.mark.parametrize("language", topics.LANGUAGES)
def test_no_line_is_wider_than_a_terminal(language):
    shown = [text.listing(language), *map(text.render, topics.all_topics(language))]
    lines = [line for one in shown for line in one.splitlines()]
    assert [line for line in lines if text.columns(line) > text.WIDTH] == []


@pytest.mark.parametrize("language", topics.LANGUAGES)
def test_other_topics_that_are_named_exist(language):
    for topic in topics.all_topics(language):
        for block in (Block(PARAGRAPH, topic.summary), *topic.blocks):
            for match in INLINE.finditer(block.text):
                assert not match[2] or match[2] in topics.NAMES
            assert block.kind == CODE or "[[" not in INLINE.sub("", block.text)


def test_no_address_but_the_servers_own():
    for content in documents().values():
        for found in re.findall(rb"[a-z]+://[^\s<]*", content):
            assert found.decode().startswith(OWN_ADDRESS)


def test_the_chinese_text_is_chinese():
    for name in topics.NAMES:
        chars = "".join(topics.topic(name, topics.CHINESE).summary)
        assert sum(map(is_wide, chars)) > len(chars) / 4


@pytest.mark.parametrize("language", topics.LANGUAGES)
def test_every_exit_code_is_told(language):
    told = [item for item in blocks("exit-codes", language, ITEM) if re.match(r"`\d+`: ", item)]
    assert [int(item.split("`")[1]) for item in told] == [int(code) for code in ExitCode]
    if language == topics.ENGLISH:
        assert [item.partition(": ")[2] for item in told] == [code.meaning for code in ExitCode]
    else:
        assert all(is_wide(item.partition(": ")[2][0]) for item in told)


@pytest.mark.parametrize("language", topics.LANGUAGES)
def test_every_setting_is_told_with_its_default(language):
    told = [
        match[1] for item in blocks("settings", language, ITEM) if (match := INLINE.match(item))
    ]
    default = ServeConfig()
    expected = [
        "environment = {}"
        if item.name == "environment"  # a table in the file
        else _assignment(item.name, getattr(default, item.name))
        for item in fields(ServeConfig)
    ]
    assert sorted(told) == sorted(expected)


@pytest.mark.parametrize("language", topics.LANGUAGES)
def test_the_limits_of_settings_are_the_programs(language):
    told = {item.split("`")[1].split(" ")[0]: item for item in blocks("settings", language, ITEM)}
    limits = {item.name: item.metadata["high"] for item in fields(ServeConfig)}
    for name in ("port", "gpu_memory_utilization"):  # those that a person runs into
        assert str(limits[name]) in told[name]


def parsers(found: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands of a parser, each with its own parser."""
    for action in found._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def options(found: argparse.ArgumentParser) -> set[str]:
    """All options of a parser, those of its commands included."""
    known = {option for action in found._actions for option in action.option_strings}
    return known.union(*(options(sub) for _, sub in parsers(found)))


def known_options() -> set[str]:
    known = options(parser())
    for command in bundle_commands().values():
        for option in command.params:
            if isinstance(option, click.Option):
                known |= {*option.opts, *option.secondary_opts}
    return known


@pytest.mark.parametrize("language", topics.LANGUAGES)
def test_every_option_exists(language):
    source = "\n".join(topics._text(name, language) for name in topics.NAMES)
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", source))
    assert len(named) > 20
    assert named - FOREIGN - known_options() == set()


def taken(line: str) -> list[str] | None:
    """The words that bundlectl gets of a line; None where it is for another program."""
    words = shlex.split(line.replace("…", "WORD").replace("$?", "0"))
    if words[:2] in (["sh", "install.sh"], ["sh", "restore.sh"]):
        words = ["restore", *words[2:]] if words[1] == "restore.sh" else words[2:]
        for option in ("--key", "--trust-digest"):
            if option in words:
                del words[words.index(option) : words.index(option) + 2]
        return words
    return words[1:] if words and words[0].rpartition("/")[2] == "bundlectl" else None


def alternatives(words: list[str]) -> Iterator[list[str]]:
    """`start|stop` as two lines."""
    first, *rest = words or [""]
    for word in first.split("|"):
        yield [word, *rest] if word else rest


def test_every_command_line_is_understood_and_every_command_told():
    reader, understood, wrong = parser(), set(), []
    for line in spoken(topics.ENGLISH):
        if line.count('"') % 2 or "'" in line:
            continue  # a part of a longer line
        words = taken(line)
        if words is None or words in (["COMMAND"], ["help", "TOPIC"]):
            continue
        for one in alternatives(words):
            try:
                understood.add(reader.parse_args(command_first(one)).command)
            except UsageError as error:
                wrong.append(f"{line}: {error.what}")
    assert wrong == []
    assert understood == {name for name, _ in parsers(reader)}


def test_every_command_of_the_connected_side_exists():
    for language in topics.LANGUAGES:
        for line in spoken(language):
            match = re.match(r"bundle ([a-z-]+)", line)
            assert not match or match[1] in bundle_commands(), line


class Elements(HTMLParser):
    """Checks that elements are closed in order, and keeps links, anchors and other addresses."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()
        self.links: set[str] = set()
        self.anchors: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)
        given = dict(attrs)
        assert set(given) <= {"lang", "charset", "name", "content", "href", "id"}
        if "href" in given:
            self.links.add(given["href"])
        if "id" in given:
            self.anchors.append(given["id"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone():
    elements = Elements()
    elements.feed(page.render())
    elements.close()
    assert elements.open == []
    assert elements.seen.isdisjoint({"script", "link", "img", "iframe", "object"})
    assert len(elements.anchors) == len(set(elements.anchors)) == 2 * len(topics.NAMES)
    assert elements.links == {f"#{anchor}" for anchor in elements.anchors}
    style = page.render().partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style and "@import" not in style
    assert style.count("{") == style.count("}")


def test_the_page_shows_signs_as_they_are():
    assert "&lt;think&gt;&lt;/think&gt;" in page.render()
    assert page._inline("a < `b & c` > [[gpu]]", "zh") == (
        'a &lt; <code>b &amp; c</code> &gt; <a href="#zh-gpu">gpu</a>'
    )


def test_the_files_are_the_same_each_time_and_lie_in_one_folder():
    first = documents()
    topics.topic.cache_clear()
    assert documents() == first
    assert list(first) == ["docs/manual.en.txt", "docs/manual.html", "docs/manual.zh.txt"]
    for name in topics.NAMES:
        for language in topics.LANGUAGES:
            assert f"\n[{name}]\n".encode() in first[f"docs/manual.{language}.txt"]


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("instal", "install"),
        ("GPU memory", "gpu"),
        ("803", "gpu"),
        ("drivr", "preflight"),
        ("exit", "exit-codes"),
    ],
)
def test_near_topics_are_offered(word, first):
    with pytest.raises(UsageError) as caught:
        topics.topic(word, topics.ENGLISH)
    assert first in caught.value.mend


def test_a_word_that_is_like_nothing_gets_all_topics():
    with pytest.raises(UsageError) as caught:
        topics.topic("§§§§", topics.CHINESE)
    assert all(name in caught.value.mend for name in topics.NAMES)


def test_the_markup():
    topic = parse(
        "x",
        "# Title\nSummary\ngoes on.\n\n## Part\npara `a b`\nmore\n- one\n  two\n- three\n"
        "    code  here\n\n      deeper\n中文\n继续\n",
    )
    assert (topic.title, topic.summary) == ("Title", "Summary goes on.")
    assert topic.blocks == (
        Block(HEADING, "Part"),
        Block(PARAGRAPH, "para `a b` more"),
        Block(ITEM, "one two"),
        Block(ITEM, "three"),
        Block(CODE, "code  here"),
        Block(CODE, "  deeper"),
        Block(PARAGRAPH, "中文继续"),
    )


@pytest.mark.parametrize("text", ["# only\n", "no title\n\nmore\n", ""])
def test_a_topic_without_title_or_summary_is_refused(text):
    with pytest.raises(ValueError, match=r"title|unpack"):
        parse("x", text)


#: Chinese comma, full stop and closing brackets; then opening ones.
CLOSING, OPENING = "\uff0c\u3002\uff09\u300d", "\uff08\u300c"


@given(st.text(f"ab cd{CLOSING}{OPENING}汉字é→-", max_size=120), st.integers(8, 40))
def test_wrapping_loses_nothing_and_keeps_its_width(given, width):
    lines = text.wrapped(given, width=width).splitlines()
    assert "".join(lines).replace(" ", "") == given.replace(" ", "")
    for line in lines:
        assert text.columns(line) <= width or len(list(text._atoms(line))) == 1
    for before, line in pairwise(lines):
        assert line[0] not in CLOSING or f" {line[0]}" in given
        assert before[-1] not in OPENING or f"{before[-1]} " in given
