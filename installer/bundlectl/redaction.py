"""What must not leave this machine in a text: secrets, known and by their shape.

Pure functions of a text. Each secret becomes `[removed:KIND]`, which no rule changes again, so that
a text can be treated twice. Secrets that are known (the API key) are found in every form in which
programs write them; others by a telling name before them, or by a telling shape.
"""

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import quote, quote_plus

#: Kinds: what a mark says was there.
KNOWN, PRIVATE_KEY, CREDENTIALS, QUERY = "known-secret", "private-key", "credentials", "query"
NAMED, TOKEN, RANDOM = "named-secret", "token", "random-text"

#: Characters. Anything shorter would be found inside ordinary words.
_SHORTEST = 6
#: Characters of a known secret's beginning that give it away where the rest was cut off.
_BEGINNING = 12

# A mark holds no blank or quote: to the rules below it is a value like any other.
_BARE = r"""(?:\[removed:[a-z-]+\]|[^\s"',;&)}>\\\]])"""
_VALUE = (
    r"""(?:(?:"(?:[^"\\\n]|\\.)*(?:"|$)|'(?:[^'\\\n]|\\.)*(?:'|$)"""
    # JSON inside of a text: as many backslashes before the last quote as before the first.
    r"""|(?P<esc>\\+)(?P<quote>["'])(?:(?!(?<!\\)(?P=esc)(?P=quote)).)*(?:(?P=esc)(?P=quote)|$))"""
    rf"{_BARE}*|{_BARE}+)"
)
#: How names of settings, variables, options, headers and JSON fields end whose value is a secret.
#: `token` only as the last word: `max_num_batched_tokens` and `eos_token_id` are none.
_NAME = (
    r"(?:(?:pass(?:word|wd|phrase|code)|secret|credential)[\w-]{0,100}"
    r"|(?:api|access|account|auth|encryption|license|master|private|secret|session|shared"
    r"|signing)[_-]?key(?:[_-]?id)?|(?<!eos_)(?<!bos_)(?<!pad_)(?<!unk_)token"
    r"|(?<![a-z])(?:pwd|pass|session_?id|bearer))"
)
#: Names of variables whose values are secrets, whatever they look like, but for switches.
SECRET_NAME = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH|PIN\b", re.IGNORECASE)
_SWITCH = re.compile(r"[01]?|true|false|on|off", re.IGNORECASE)
_UNTOLD = r"(?!\\*[\"']?(?:None|null|True|False|true|false)\b)"


@dataclass(frozen=True)
class _Rule:
    """Secrets of one shape; the pattern's group `keep`, if it has one, stays before the mark.

    Where that group exists and took no part, nothing is removed. A pattern whose search may run to
    the end of a word takes the word in that way too when it finds nothing, so that the same
    characters are not searched again from each place in it.
    """

    kind: str
    pattern: re.Pattern[str]
    judge: Callable[[str], bool] = lambda _text: True


def _is_random(text: str) -> bool:
    """Whether a run of letters and digits is nobody's word, and no digest or UUID either.

    In words, neighbours are mostly of one class (lower, upper, digit); in base64 two of three
    neighbours are not: 1 - (26² + 26² + 10² + 2²) / 64² = 0.64.
    """
    return any(
        len(part) >= 24
        and not re.fullmatch(r"(?:GPU-|MIG-)?[0-9a-fA-F_-]+=*", part)
        and sum(_class(a) != _class(b) for a, b in pairwise(part)) >= 0.45 * (len(part) - 1)
        for part in text.split("/")
    )


def _class(letter: str) -> int:
    return letter.isupper() + 2 * letter.islower() + 4 * letter.isdigit()


_RULES = (
    # RFC 7468, and OpenSSH's and PGP's; also one that was cut off, or written with \n on one line.
    _Rule(
        PRIVATE_KEY,
        re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----[\w\s+/=\\:,-]*"),
    ),
    # RFC 3986, 3.2.1. A password may hold a bare "@" or "/" all the same.
    _Rule(
        CREDENTIALS,
        re.compile(r"""(?P<keep>://)(?!/)[^\s"'<>]*(?=@)|://(?!/)[^\s"'<>]*"""),
    ),
    _Rule(
        QUERY,
        re.compile(r"""(?P<keep>(?:://|"(?:GET|POST|HEAD|PUT) /)[^\s"'<>?]*\??)[^\s"'<>]*"""),
    ),
    # Header lines, in dictionaries too; what follows the scheme's name is the secret.
    _Rule(
        NAMED,
        re.compile(
            r"""(?P<keep>(?:authorization|cookie)[\\"']*\s*[:=,]\s*(?-i:b)?[\\"']*)"""
            r"""(?:(?:bearer|basic|digest|negotiate|token)\s+)?[^\s"'\\][^"'\n\\]*""",
            re.IGNORECASE,
        ),
    ),
    _Rule(
        TOKEN,
        re.compile(r"""(?P<keep>\b(?:bearer|negotiate)\s+)[^\s"',;<>\\]+""", re.IGNORECASE),
    ),
    _Rule(
        TOKEN,
        re.compile(r"(?P<keep>\b[Bb][Aa][Ss][Ii][Cc]\s+)(?=\S*[A-Z0-9=])[\w+/-]{8,}={0,2}"),
    ),
    # NAME=value, NAME: value, "name": "value", --name value, '--name', 'value'.
    _Rule(
        NAMED,
        re.compile(
            rf"""(?P<keep>{_NAME}[\\"']*(?:\s*[:=]\s*|\s*,\s*(?=\\*["'])))"""
            rf"{_UNTOLD}{_VALUE}",
            re.IGNORECASE | re.MULTILINE,
        ),
    ),
    _Rule(
        NAMED,
        re.compile(
            rf"(?P<keep>(?<![\w-])(?:--[\w-]{{0,60}}?{_NAME}|-u|--user|--proxy-user)(?:\s+|=))"
            rf"(?!-){_UNTOLD}{_VALUE}",
            re.IGNORECASE | re.MULTILINE,
        ),
    ),
    # Hugging Face, OpenAI, GitHub, GitLab, Slack, AWS, Google, NVIDIA, PyPI, npm; RFC 7519.
    _Rule(
        TOKEN,
        re.compile(
            r"hf_[A-Za-z0-9]{16,}|(?<![A-Za-z0-9])sk-[\w-]{16,}|gh[pousr]_\w{16,}|github_pat_\w{16,}"
            r"|glpat-[\w-]{16,}|xox[abeprs]-[\w-]{8,}|(?:AKIA|ASIA|AGPA|AROA|AIDA)[A-Z0-9]{12,}"
            r"|AIza[\w-]{30,}|ya29\.[\w-]{16,}|nvapi-[\w-]{16,}|pypi-\w{16,}|npm_\w{30,}"
        ),
    ),
    _Rule(TOKEN, re.compile(r"eyJ[\w-]{8,}(?:\.[\w-]+(?:\.[\w-]*)?)?"), lambda text: "." in text),
    # The secret half of an AWS access key has no mark of its own but its length.
    _Rule(
        TOKEN,
        re.compile(
            r"(?<![\w/+=.-])(?=\S{0,39}[A-Z])(?=\S{0,39}[a-z])(?=\S{0,39}\d)"
            r"[A-Za-z0-9+][A-Za-z0-9/+]{39}(?![\w/+=.-])"
        ),
    ),
    _Rule(RANDOM, re.compile(r"[\w+/-]{32,}={0,2}", re.ASCII), _is_random),
)
#: A mark as it stands in a text.
MARK = re.compile(rf"\[removed:(?:{'|'.join(sorted({rule.kind for rule in _RULES} | {KNOWN}))})\]")


def mark(kind: str) -> str:
    """What stands for a secret."""
    return f"[removed:{kind}]"


def forms(secret: str) -> Iterator[str]:
    """How programs write a secret down: as it is, quoted, escaped, encoded."""
    data = secret.encode("utf-8", "surrogateescape")
    yield secret
    yield from (quote(data, safe=""), quote(data), quote_plus(data))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (json.dumps(json.dumps(secret))[3:-3], repr(secret)[1:-1])
    yield from (data.hex(), data.hex().upper())
    # In base64 of something longer ("user:secret") it looks different at each of three places;
    # the characters at its ends depend on its neighbours.
    for place in range(3):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            text = encode(b"\0" * place + data).decode()
            start, spare = (0, 2, 3)[place], (0, 3, 2)[(place + len(data)) % 3]
            yield text[start : len(text) - spare]


@dataclass
class Redactor:
    """Removes secrets, and counts them by kind. `secrets` are those that are known."""

    secrets: Iterable[str] = ()
    removed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        known = [secret for secret in self.secrets if len(secret) >= _SHORTEST]
        texts = {form for secret in known for form in forms(secret) if len(form) >= _SHORTEST}
        words = [re.escape(text) for text in sorted(texts, key=lambda text: (-len(text), text))]
        # Of a secret that a limit on the length of a line cut off, the beginning.
        starts = {s[:_BEGINNING] for s in known if len(s) >= 2 * _BEGINNING}
        words += [rf"{re.escape(start)}[\w.~+/=-]*" for start in sorted(starts)]
        self._known = re.compile("|".join(words)) if words else None

    def __call__(self, text: str) -> str:
        """The text without secrets; may have several lines."""
        if self._known is not None:
            text = self._known.sub(self._mark(_Rule(KNOWN, self._known)), text)
        for rule in _RULES:
            text = rule.pattern.sub(self._mark(rule), text)
        return text

    def _mark(self, rule: _Rule) -> Callable[[re.Match[str]], str]:
        def replace(match: re.Match[str]) -> str:
            kept = match["keep"] if "keep" in rule.pattern.groupindex else ""
            taken = match[0][len(kept) :] if kept is not None else ""
            if not taken or MARK.fullmatch(taken) or not rule.judge(taken):
                return match[0]
            self.removed[rule.kind] += 1
            return kept + mark(rule.kind)

        return replace


def of_variable(name: str, value: str) -> str:
    """The value of a variable as it may be shown to whoever may see the others."""
    if SECRET_NAME.search(name) and not _SWITCH.fullmatch(value):
        return mark(NAMED)
    return redact(value)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """A text without the secrets given and without what looks like one."""
    return Redactor(secrets)(text)
