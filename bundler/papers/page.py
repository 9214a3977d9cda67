"""The frame of all papers that people read: one HTML page without scripts and without a network.

The look is that of `bundle plan --html`. Pieces of a body come from `bundler.plan.markup`. Only
this style sheet applies: a `style` attribute in a body is refused by browsers.
"""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from html import escape as html_escape
from importlib import resources

#: Our names of languages → those of HTML's lang attribute (BCP 47).
LANGUAGES = {"en": "en", "zh": "zh-Hans"}
_PLACE = re.compile("@([A-Z_]+)@")
#: What HTML forbids (https://html.spec.whatwg.org/#text), and what makes text read in another
#: order than it is written: https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


def visible(text: str) -> str:
    """A text that somebody else wrote: characters that nobody sees become U+FFFD."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n")
    return _HIDDEN.sub("\ufffd", plain)


def escape(text: str) -> str:
    """A text that somebody else wrote, as HTML."""
    return html_escape(visible(text))


def render(title: str, language: str, body_html: str, *, lead: str = "", style: str = "") -> str:
    """A document in one of LANGUAGES.

    `title` and `lead` are texts, `body_html` is HTML, `style` is CSS that this page alone needs.
    """
    sheet = "\n".join(filter(None, (_sheet(), style)))
    values = {
        "LANGUAGE": LANGUAGES[language],
        "STYLE_HASH": f"sha256-{b64encode(sha256(sheet.encode()).digest()).decode()}",
        "STYLE": sheet,
        "TITLE": escape(title),
        "LEAD": f'<p class="lead">{escape(lead)}</p>' if lead else "",
        "BODY": body_html,
    }
    return _PLACE.sub(lambda place: values[place[1]], _frame())


@cache
def _sheet() -> str:
    names = ("bundler.plan", "bundler.papers")
    return "".join((resources.files(name) / "page.css").read_text("utf-8") for name in names)


@cache
def _frame() -> str:
    return (resources.files("bundler.papers") / "page.html").read_text("utf-8")
