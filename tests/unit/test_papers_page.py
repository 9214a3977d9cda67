import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler.papers import page


class Seen(HTMLParser):
    """Elements, addresses and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.addresses: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        self.addresses += [value or "" for key, value in attrs if key in ("src", "href")]

    def handle_data(self, data):
        self.text.append(data)


def test_a_page_needs_nothing_but_itself():
    seen = Seen(page.render("T", "en", "<p>x</p>", lead="L"))
    assert "script" not in seen.elements
    assert seen.addresses == ["data:,"]


@pytest.mark.parametrize(("language", "tag"), [("en", "en"), ("zh", "zh-Hans")])
def test_a_page_says_its_language(language, tag):
    assert ("lang", tag) in Seen(page.render("T", language, "")).attributes


def test_the_policy_lets_just_this_style_through():
    html = page.render("T", "en", "", style=".mine { color: red; }")
    (sheet,) = re.findall("<style>(.*)</style>", html, re.DOTALL)
    assert ".mine" in sheet
    digest = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in html
    assert "script-src" not in html and "default-src 'none'" in html


def test_the_style_has_a_dark_side_and_a_paper_side():
    html = page.render("T", "en", "")
    assert "prefers-color-scheme: dark" in html
    assert "@media print" in html
    assert "url(" not in html and "@import" not in html


def test_title_and_lead_are_escaped_and_the_body_is_not():
    html = page.render("<b>&@BODY@", "en", "<i>@TITLE@</i>", lead="<u>")
    assert "<h1>&lt;b&gt;&amp;@BODY@</h1>" in html
    assert "&lt;u&gt;" in html
    assert "<i>@TITLE@</i>" in html


def test_what_nobody_sees_is_shown():
    assert page.escape("a\x00b\u202ec\ud800") == "a\ufffdb\ufffdc\ufffd"
    assert page.escape("a\r\nb\fc\rd\te") == "a\nb\nc\nd\te"


@given(st.text())
def test_no_text_makes_elements(text):
    html = page.escape(text)
    assert "<" not in html and ">" not in html and '"' not in html
    html.encode()
    assert Seen(f"<p>{html}</p>").elements == ["p"]
