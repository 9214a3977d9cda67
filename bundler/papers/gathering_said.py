"""What a wheel, a conda package or a model says about itself; a function of its own files.

The same files come from an artefact in the store and from an unpacked tree, and so one reading of
them serves both.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import HeaderParser
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from bundler.papers.bill import Text
from bundler.plan.licences import Licence, of_metadata, of_text
from manifests.bundle import digest_of

#: Where licence texts lie in a wheel's .dist-info (PEP 639), and where setuptools had them before.
_FOLDERS = ("licenses/", "license_files/")
#: Names of licence texts elsewhere: beside METADATA in older wheels, and in models.
_NAMES = re.compile(
    r"(licen[cs]e|notice|copying|copyright|eula|use_policy)([._-].*)?", re.IGNORECASE
)
#: Names in a .dist-info that hold nothing of a licence, and may be long.
_OTHERS = ("RECORD", "RECORD.jws", "RECORD.p7s", "WHEEL", "INSTALLER", "REQUESTED")
#: Bytes. The longest seen are third-party notices of 1 MB.
LONGEST = 4 << 20


@dataclass(frozen=True)
class Said:
    """What one component states."""

    declared: str = ""  # its licence, whole
    licence: Licence = of_text("")  # noqa: RUF009 - a constant
    needs: tuple[str, ...] = ()  # Requires-Dist of a wheel, match specs of a conda package
    texts: tuple[Text, ...] = ()
    base: str = ""  # of models


NOTHING = Said()


def is_wanted(name: str, size: int) -> bool:
    """Whether a file of a .dist-info may say something; `name` is its path below that."""
    return name not in _OTHERS and not name.startswith("sboms/") and size <= LONGEST


def is_text(name: str) -> bool:
    """Whether a file is called as licence texts are."""
    return _NAMES.fullmatch(name.rpartition("/")[2]) is not None


def info_of(folders: Collection[str], name: str, version: str) -> str:
    """That of the folders NAME-VERSION.dist-info which is a distribution's own; else empty.

    Compared by the rules for names (PEP 503) and for versions: torch-2.0 is no torch 2.13.
    """
    for folder in sorted(folders):
        found, _, stated = folder.removesuffix(".dist-info").rpartition("-")
        if canonicalize_name(found) == name and _is_same(stated, version):
            return folder
    return ""


def _is_same(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def of_wheel(files: Mapping[str, bytes]) -> Said:
    """A wheel, by the wanted files of its .dist-info.

    Format: https://packaging.python.org/specifications/core-metadata/. One without METADATA states
    nothing.
    """
    metadata = files.get("METADATA", b"").decode("utf-8", "replace")
    head = HeaderParser().parsestr(metadata, headersonly=True)
    listed = set(map(str, head.get_all("License-File", ())))
    texts = [
        text(name, data)
        for name, data in sorted(files.items())
        if name.startswith(_FOLDERS) or name in listed or is_text(name)
    ]
    needs = tuple(str(value).strip() for value in head.get_all("Requires-Dist", ()))
    declared, licence = _declared(head), of_metadata(metadata)
    return Said(declared, licence if licence.text else of_text(declared), needs, tuple(texts))


def _declared(head: Message) -> str:
    """What `of_metadata` reads, whole; where that is nothing, the classifiers that say little."""
    if expression := str(head.get("License-Expression", "")).strip():
        return expression
    stated = [value for value in map(str, head.get_all("Classifier", ())) if _is_licence(value)]
    precise = [_last(value) for value in stated if value.count("::") > 1]
    text = str(head.get("License", "")).strip()
    return " and ".join(precise) or text or " and ".join(map(_last, stated))


def _is_licence(classifier: str) -> bool:
    return classifier.startswith("License ::") and _last(classifier) != "OSI Approved"


def _last(classifier: str) -> str:
    return classifier.rpartition("::")[2].strip()


def of_conda(index: Mapping[str, Any], texts: Iterable[Text] = ()) -> Said:
    """A conda package, by its index.json or the record of it in conda-meta.

    Format: https://docs.conda.io/projects/conda-build/en/stable/resources/package-spec.html.
    """
    declared = index.get("license")
    declared = _sound(declared).strip() if isinstance(declared, str) else ""
    needs = index.get("depends")
    needs = tuple(map(str, needs)) if isinstance(needs, list) else ()
    return Said(declared, of_text(declared), needs, _sorted(texts))


def of_model(licence: str, files: Mapping[str, bytes], base: str) -> Said:
    """A model or an adapter, by the licence in its lock and those of its files that are texts."""
    texts = (text(name, data) for name, data in files.items() if is_text(name))
    return Said(licence, of_text(licence), (), _sorted(texts), _sound(base))


def text(path: str, data: bytes) -> Text:
    """A licence text; of what is no text (a PDF) only its digest is kept."""
    content = "" if b"\0" in data else data.decode("utf-8", "replace")
    return Text(_sound(path), digest_of(data), content)


def _sound(words: str) -> str:
    """Without halves of characters, which JSON and tar may bring and UTF-8 can't hold."""
    return words.encode("utf-8", "replace").decode()


def _sorted(texts: Iterable[Text]) -> tuple[Text, ...]:
    return tuple(sorted(texts, key=lambda one: one.path))
