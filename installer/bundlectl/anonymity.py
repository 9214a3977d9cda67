"""Names of people, machines and addresses in a text, replaced by placeholders.

The same name has the same placeholder everywhere in one file, so that who did what can still be
followed: `user-1`, `host-1`, `address-2`. A pure function of the texts and of the names given.
"""

import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from bundlectl.redaction import MARK

USER, HOST, ADDRESS, DEVICE = "user", "host", "address", "device"

#: Names that every machine has, and that tell nothing.
_COMMON = frozenset(
    ("root", "vllm", "nobody", "daemon", "ubuntu", "debian", "admin", "user", "home", "localhost")
)
#: A home folder names its user, also one whom nobody has told us.
_HOME = re.compile(r"(?:/home/|/Users/|/var/home/|/export/home/)(?P<name>[\w.-]+)")
_ADDRESS = re.compile(
    r"(?<![\w.:-])(?P<four>\d{1,3}(?:\.\d{1,3}){3})(?![\w.]*\w)"
    r"|(?<![\w:.])(?P<six>(?=[0-9A-Fa-f:.]*:[0-9A-Fa-f]*:)[0-9A-Fa-f:.]{3,45})(?![\w:])"
)
#: Network cards, and GPUs as nvidia-smi names them.
_DEVICE = re.compile(
    r"(?<![\w:-])(?:[0-9A-Fa-f]{2}(?:[:-])){5}[0-9A-Fa-f]{2}(?![\w:-])"
    r"|(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?<=Serial Number)\s*:\s*\d{8,}"
)


@dataclass
class Anonymiser:
    """Replaces names; `names` are those known, each with its kind (USER, HOST)."""

    names: Mapping[str, str] = field(default_factory=dict)
    given: dict[tuple[str, str], str] = field(default_factory=dict)  # (kind, name) → placeholder

    def learn(self, texts: Iterable[str]) -> None:
        """Take note of the users whose home folders are named in texts."""
        found = {match["name"]: USER for text in texts for match in _HOME.finditer(text)}
        self.names = {**found, **self.names}

    def __call__(self, text: str) -> str:
        """The text without names; marks of the redaction stay."""
        names = [name for name in self.names if len(name) > 2 and name.lower() not in _COMMON]
        names.sort(key=lambda name: (-len(name), name))
        words = "|".join(map(re.escape, names))
        known = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])", re.IGNORECASE) if words else None
        kinds = {name.lower(): kind for name, kind in self.names.items()}

        def clean(part: str) -> str:
            if known is not None:
                part = known.sub(lambda m: self._placeholder(kinds[m[0].lower()], m[0]), part)
            part = _DEVICE.sub(lambda m: self._placeholder(DEVICE, m[0]), part)
            return _ADDRESS.sub(self._address, part)

        marks = [match[0] for match in MARK.finditer(text)]
        parts = [clean(part) for part in MARK.split(text)]
        return "".join(part + mark for part, mark in zip(parts, [*marks, ""], strict=True))

    def _placeholder(self, kind: str, name: str) -> str:
        key = (kind, name.lower())
        if key not in self.given:
            self.given[key] = f"{kind}-{sum(other == kind for other, _ in self.given) + 1}"
        return self.given[key]

    def _address(self, match: re.Match[str]) -> str:
        text = match[0]
        try:
            address = ipaddress.ip_address(text.rstrip(".:") if match["four"] else text)
        except ValueError:
            return text
        # What every machine has alike is needed to read the rest.
        if address.is_loopback or address.is_unspecified:
            return text
        return self._placeholder(ADDRESS, str(address))
