"""The report in its forms."""

import json
import re

import pytest
from markdown_it import MarkdownIt

from bundler.papers import (
    licences,
    licences_html,
    licences_markdown,
    licences_report,
    licences_told,
    page_markdown,
    policy_file,
)
from bundler.papers import policy as policies
from bundler.papers.licences import EYES
from manifests.canonical import dumps
from tests.support import bills
from tests.support.licencetexts import TEXTS
from tests.unit.test_papers_page import Seen

LANGUAGES = ("en", "zh")
ODD = "<script>alert(1)</script> | `x` [a](b) ``` \u202e\x00 &amp; *b* @STYLE@"
POLICY = b"""
allow = ["permissive"]
deny = ["proprietary"]
[exceptions."conda/libstdcxx"]
reason = "the exception of <GCC>"
"""


@pytest.fixture(scope="module")
def report():
    odd = bills.wheel(
        "odd", declared=ODD, texts=(bills.text("licenses/<b>.txt", ODD), bills.text("NOTICE", ""))
    )
    mit = bills.wheel("zz", declared="MIT", texts=(bills.text("LICENSE", TEXTS["MIT"]),))
    again = bills.wheel("zz", "2.0", declared="MIT", texts=mit.texts)
    return licences.read(bills.bill(components=(*bills.components(), odd, mit, again)))


@pytest.fixture(scope="module")
def findings(report):
    return policies.judge(report, policy_file.parse(POLICY, "p"))


def rendered(text: str) -> Seen:
    return Seen(MarkdownIt("commonmark", {"html": False}).enable("table").render(text))


def test_the_languages_have_the_same_words():
    english, chinese = (licences_told._words()[language] for language in LANGUAGES)
    assert english.keys() == chinese.keys()
    assert {f"{start}-{eye}" for eye in EYES for start in ("eye", "why")} <= english.keys()
    for key, words in english.items():
        assert re.findall(r"\{\w+\}", words) == re.findall(r"\{\w+\}", chinese[key]), key
        assert words.strip() and chinese[key].strip()


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("texts_at", ["", "licence-texts.html"])
def test_the_page_holds_everything_and_no_markup_of_others(report, findings, language, texts_at):
    html = licences_html.render(report, language, findings, texts_at)
    seen = Seen(html)
    assert "script" not in seen.elements and "b" not in seen.elements
    told = "".join(seen.text)
    for line in report.lines:
        assert line.component.name in told
    for eye in EYES:
        assert (licences_told.say(language, f"why-{eye}") in told) == bool(report.looked_at(eye))
    assert "the exception of <GCC>" in told
    assert "\u202e" not in html and "\x00" not in html
    for text in report.texts:
        lines = [one.strip() for one in text.content.splitlines() if one.strip()]
        assert not texts_at or not any(len(one) > 90 and one in told for one in lines)
        if not texts_at and text.content == TEXTS["MIT"]:
            assert told.count(text.content) == 1


def test_links_lead_to_texts(report):
    everything = licences_html.texts(report)
    ids = {value for key, value in Seen(everything).attributes if key == "id"}
    assert len(ids) == len(report.texts)
    for language in LANGUAGES:
        seen = Seen(licences_html.render(report, language, (), "licence-texts.html"))
        links = [one for one in seen.addresses if "#" in one]
        assert links and {one.partition("#")[2] for one in links} == ids
        assert {one.partition("#")[0] for one in links} == {"licence-texts.html"}
        alone = Seen(licences_html.render(report, language))
        assert {f"#{one}" for one in ids} == {one for one in alone.addresses if "#" in one}


@pytest.mark.parametrize("language", LANGUAGES)
def test_markdown_holds_the_same_and_no_markup_of_others(report, findings, language):
    seen = rendered(licences_markdown.render(report, language, findings))
    told = "".join(seen.text)
    assert told.count(TEXTS["MIT"].strip()) == 1
    assert "script" not in seen.elements and "em" not in seen.elements
    assert seen.elements.count("pre") == sum(bool(text.content) for text in report.texts)
    assert {one for one in seen.addresses if not one.startswith("#")} == set()
    tables = seen.elements.count("table")
    looked_at = sum(bool(report.looked_at(eye)) for eye in EYES)
    assert tables == 3 + looked_at  # policy, families, all
    # A | in what somebody declares does not make a column.
    for row in re.findall(r"^\|.*odd.*\|$", licences_markdown.render(report, language), re.M):
        assert len(re.findall(r"(?<!\\)\|", row)) == 8


@pytest.mark.parametrize("text", ["", "a\n```\nb", "````\n", "a\r\nb", "~~~"])
def test_a_fence_holds_any_text(text):
    seen = rendered(page_markdown.verbatim(text))
    assert seen.elements == ["pre", "code"]
    assert "".join(seen.text).split() == text.split()


def test_the_carried_files(report):
    files = licences_report.documents(report.bill)
    assert sorted(files) == [
        "papers/licence-texts.html",
        "papers/licences.en.html",
        "papers/licences.en.md",
        "papers/licences.zh.html",
        "papers/licences.zh.md",
    ]
    assert files == licences_report.documents(report.bill)
    for path, data in files.items():
        told = data.decode()
        assert ("MERCHANTABILITY" in told) == ("texts" in path)
        assert "file:" not in told and "/tmp" not in told
    assert "许可证" in files["papers/licences.zh.md"].decode()


def test_a_bundle_without_texts():
    bill = bills.bill(components=(bills.wheel("a", declared="MIT"),))
    for language in LANGUAGES:
        told = licences_html.render(licences.read(bill), language)
        assert licences_told.say(language, "no-texts") in told
        assert licences_told.say(language, "nothing-to-look-at") in told
        assert licences_told.say(language, "no-texts") in licences_markdown.render(
            licences.read(bill), language
        )
    assert len(licences_report.documents(bill)) == 5


def test_the_text_for_a_terminal(report, findings):
    told = licences_report.text(report, "en", findings)
    assert "NVIDIA's licence agreements (1): nvidia-cublas-cu12 12.8.4.1" in told
    assert "GPL with the run-time exception (1): libstdcxx 15.2.0" in told
    assert "deny: wheel nvidia-cublas-cu12" in told
    assert len(told.splitlines()) < 40


def test_the_record_for_a_machine(report, findings):
    record = licences_report.record(report, findings)
    assert json.loads(dumps(record)) == record
    by_ref = {one["ref"]: one for one in record["components"]}
    assert len(by_ref) == len(report.lines)
    cublas = by_ref["environment/wheel/nvidia-cublas-cu12@12.8.4.1"]
    assert cublas["policy"]["verdict"] == "deny" and cublas["look"] == ["nvidia"]
    gcc = by_ref["environment/conda/libstdcxx@15.2.0"]
    assert gcc["found"] == ["GPL-3.0 WITH GCC-exception-3.1"]
    assert gcc["policy"]["exception"] == "the exception of <GCC>"
    assert "policy" not in licences_report.record(report)["components"][0]
    (mit,) = (
        one for one in record["texts"] if one["licences"] == ["MIT"] and len(one["carried"]) > 1
    )
    assert [one["path"] for one in mit["carried"]] == ["LICENSE", "LICENSE"]
