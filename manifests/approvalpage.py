"""A record as one page for paper: nothing fetched, nothing run, its own data inside.

Who reads a page back lays it out again from these data and compares every byte, so that what a
person reads and what a machine reads can't differ. Of what the page does not show it has a digest.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256
from html import escape
from importlib import resources

from manifests import approval, approvalfound, approvalmedia, canonical
from manifests.approval import Approval, Record
from manifests.approvalmarks import digest, grouped
from manifests.approvalmedia import Pictures
from manifests.approvalwords import TAGS, markup, plain
from manifests.errors import IntegrityError, UsageError
from manifests.names import printable

#: Draws what only one side can draw, for a record in a language.
Draw = Callable[[Record, str], Pictures]
#: Bytes. A record of a bundle with thousands of members takes less than one million.
LIMIT = 16 << 20
_DATA = re.compile(
    r'<script type="application/json" id="record" data-language="([a-z]+)">(.*?)</script>',
    re.DOTALL,
)
#: What could end the element or begin another inside it, as JSON may write it as well.
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def no_pictures(_record: Record, _language: str) -> Pictures:
    """For the isolated host, which has no library that draws."""
    return Pictures()


def render(record: Record, language: str, draw: Draw = no_pictures) -> str:
    """The page."""
    style = (resources.files("manifests") / "approval.css").read_text("utf-8")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; base-uri 'none'; form-action 'none'"
    pictures = draw(record, language)
    title = f"{plain(language, record.kind)}: {_name(record)}"
    return "\n".join(
        (
            "<!DOCTYPE html>",
            f'<html lang="{TAGS.get(language, "en")}">',
            '<head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            f"<title>{escape(title)}</title>",
            f"<style>{style}</style></head>",
            f'<body class="{record.kind}"><main>',
            _head(record, language, pictures),
            _body(record, language, pictures),
            f"<footer>{markup(language, 'data')} {digest(approval.digest(record))}<br>"
            f"{escape(record.tool)}. {markup(language, 'footer')}</footer>",
            "</main>",
            f'<script type="application/json" id="record" data-language="{language}">'
            f"{_embedded(record)}</script>",
            "</body></html>\n",
        )
    )


def _hash(text: str) -> str:
    """A source expression of CSP level 2 for an inline text."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _name(record: Record) -> str:
    if isinstance(record, Approval):
        return record.release.name
    return ", ".join(one.release.name for one in record.releases) or "—"


def _head(record: Record, language: str, pictures: Pictures) -> str:
    code = ""
    if isinstance(record, Approval) and pictures.code:
        first = grouped(record.medium.list_sha256).split()
        caption = f"{markup(language, 'code')}<br><code>{first[0]} {first[1]} … {first[-1]}</code>"
        code = f"<figure>{pictures.code}<figcaption>{caption}</figcaption></figure>"
    return (
        f'<header><div><p class="kind">{markup(language, record.kind)}</p>'
        f"<h1>{escape(_name(record))}</h1>"
        f'<p class="about">{markup(language, f"about-{record.kind}")}</p></div>{code}</header>'
    )


def _body(record: Record, language: str, pictures: Pictures) -> str:
    if isinstance(record, Approval):
        return "\n".join(approvalmedia.body(record, language, pictures))
    return "\n".join(approvalfound.body(record, language))


def _embedded(record: Record) -> str:
    text = approval.dump(record).decode()
    return "".join(_ESCAPES.get(char, char) for char in text)


def read(data: bytes, where: str, draw: Draw = no_pictures) -> Record:
    """A record from a page or from its JSON; `where` starts the sentences of errors.

    Raises UsageError where it is neither, IntegrityError where it is damaged, or a page does not
    say what its data say.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise IntegrityError(f"{where}: not UTF-8", mend="get the record again") from None
    if text.lstrip().startswith("{"):
        return approval.parse(_loads(text, where), where)
    found = _DATA.findall(text)
    if len(found) != 1 or found[0][0] not in approval.LANGUAGES:
        raise UsageError(
            f"{where}: no record",
            why=f"it holds {len(found)} blocks of data, one is needed",
            mend="name what `bundle record` or `bundlectl audit --report` wrote",
        )
    language, inner = found[0]
    record = approval.parse(_loads(inner, where), where)
    again = render(record, language, draw)
    if again.encode() != data:
        raise IntegrityError(
            f"{where}: the page does not say what its data say{_first(text, again)}",
            why="it was edited or damaged, or another release laid it out "
            f"(it names {printable(record.tool)})",
            mend="get the record again; a page of another release is read by that release",
        )
    return record


def _loads(text: str, where: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=canonical.unique)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(
            f"{where}: its data are damaged ({error})", mend="get the record again"
        ) from None


def _first(found: str, expected: str) -> str:
    """Where two pages begin to differ."""
    pairs = enumerate(zip(found.split("\n"), expected.split("\n"), strict=False), 1)
    line = next((number for number, (a, b) in pairs if a != b), 0)
    return f" (line {line})" if line else ""
