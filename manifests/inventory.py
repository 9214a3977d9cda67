"""The inventory of a Python environment that an isolated host has, as its script prints it.

It comes from outside and is read as such: what it says is compared with what is needed, and none
of its texts is run, fetched or taken for a path on this machine.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests import canonical
from manifests.errors import IntegrityError, UsageError
from manifests.names import DIGEST
from manifests.records import from_data, to_data

VERSION = 1
#: Bytes. One of 200 distributions has 100 KB.
LIMIT = 32 << 20
#: How the script is run: without the user's own packages and variables, leaving no bytecode. It
#: runs itself so where it was run otherwise.
FLAGS = ("-s", "-E", "-B")
#: Names as PEP 503 normalises them.
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_RELEASE = re.compile(r"[0-9]{1,4}(\.[0-9]{1,4}){1,3}((a|b|rc)[0-9]{1,4})?\+?")
_GLIBC = re.compile(r"[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?")
_WORD = re.compile(r"[^\s/]{1,255}")
#: Characters of a line; requirements of extras with many markers have some hundred.
_LONGEST = 8192
_LONGEST_NAME = 200
_MEND = (
    "make it on the host with `bundlectl inventory --python PATH`, "
    "or with the script that `bundle inventory-script` prints"
)


@dataclass(frozen=True)
class Interpreter:
    """The environment's Python. Paths are absolute, and of that host."""

    version: str  # "3.12.3"
    implementation: str  # "cpython"
    soabi: str  # sysconfig's SOABI, "cpython-312-x86_64-linux-gnu"
    executable: str
    base_executable: str  # sys._base_executable: of a virtual environment, what it was made with
    sites: tuple[str, ...] = ()  # folders of its packages, in the order of sys.path

    @property
    def minor(self) -> str:
        """Its version as a target has it, "3.12"."""
        return ".".join(self.version.split(".")[:2])


@dataclass(frozen=True)
class Platform:
    """The machine, as far as wheels depend on it."""

    machine: str  # "x86_64"
    glibc: str = ""  # "2.39"; empty where the C library is another
    libraries: tuple[str, ...] = ()  # of those that wheels take from a host, what it has


@dataclass(frozen=True)
class Distribution:
    """One installed distribution. Texts are as its METADATA has them, in one line each."""

    name: str  # normalised (PEP 503)
    version: str
    requires: tuple[str, ...] = ()  # Requires-Dist
    requires_python: str = ""
    extras: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()  # of WHEEL, "cp312-cp312-manylinux_2_28_x86_64"
    record_sha256: str = ""  # of RECORD's bytes; empty where it has none
    libraries: tuple[str, ...] = ()  # names of the shared libraries in RECORD


@dataclass(frozen=True)
class Inventory:
    """What an environment holds; distributions are sorted by name, each name once."""

    inventory: int  # version of this format
    interpreter: Interpreter
    platform: Platform
    markers: dict[str, str]  # PEP 508, by name
    distributions: tuple[Distribution, ...] = ()

    def dump(self) -> bytes:
        """The canonical bytes, which are what the script prints."""
        return canonical.dumps(to_data(self))

    def by_name(self) -> dict[str, Distribution]:
        """The distributions by their names."""
        return {one.name: one for one in self.distributions}


def script_path() -> Path:
    """The script to be run by the environment's interpreter, with FLAGS."""
    return Path(__file__).with_name("inventory_script.py")


def load(path: Path) -> Inventory:
    """Read an inventory.

    Raises UsageError where the file can't be read or understood.
    """
    try:
        with path.open("rb") as handle:
            data = handle.read(LIMIT + 1)
    except OSError as error:
        raise UsageError(f"{path}: can't be read: {error.strerror}", mend=_MEND) from None
    return parse(data, str(path))


def parse(data: bytes, where: str) -> Inventory:
    """Read an inventory's bytes; `where` names them in errors.

    Raises UsageError for whatever no inventory of this version holds.
    """
    value = _value(data, where)
    version = value.get("inventory")
    if type(version) is not int or version < 1:
        raise UsageError(f"{where}: not an inventory of a Python environment", mend=_MEND)
    if version > VERSION:
        raise UsageError(
            f"{where}: an inventory of version {version}, this release reads {VERSION}", mend=_MEND
        )
    try:
        found = from_data(Inventory, value, where)
    except (IntegrityError, RecursionError) as error:
        raise UsageError(f"{error}", mend=_MEND) from None
    problems = [*_wrong_host(found), *_wrong_names(found)]
    for one in found.distributions:
        problems += [f"{one.name}: {problem}" for problem in _wrong(one)]
    if problems:
        raise UsageError(
            f"{where}: not what the inventory's script prints", findings=problems[:20], mend=_MEND
        )
    return found


def _value(data: bytes, where: str) -> dict[str, Any]:
    if len(data) > LIMIT:
        raise UsageError(f"{where}: too large for an inventory", mend=_MEND)
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=canonical.unique)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error!s:.200}", mend=_MEND) from None
    if not isinstance(value, dict):
        raise UsageError(f"{where}: not an inventory of a Python environment", mend=_MEND)
    return value


def _wrong_host(found: Inventory) -> list[str]:
    told, machine = found.interpreter, found.platform
    paths = (told.executable, told.base_executable, *told.sites)
    lines = [f"{path!r:.80} is no absolute path" for path in paths if not _is_path(path)]
    if not _RELEASE.fullmatch(told.version):
        lines.append(f"{told.version!r:.80} is no version of Python")
    if machine.glibc and not _GLIBC.fullmatch(machine.glibc):
        lines.append(f"{machine.glibc!r:.80} is no version of glibc")
    words = (told.implementation, told.soabi, machine.machine, *machine.libraries)
    lines += [f"{word!r:.80} is no plain word" for word in words if not _is_word(word)]
    texts = (*found.markers, *found.markers.values())
    return lines + [f"{text!r:.80} is no marker" for text in texts if not _is_line(text)]


def _wrong_names(found: Inventory) -> list[str]:
    names = [one.name for one in found.distributions]
    lines = [
        f"{name!r:.80} is not the name of a distribution"
        for name in names
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name)
    ]
    return lines or (["a distribution is there twice"] if len({*names}) != len(names) else [])


def _wrong(one: Distribution) -> list[str]:
    words = (one.version, *one.tags, *one.libraries)
    lines = [f"{word!r:.80} is no plain word" for word in words if not _is_word(word)]
    if one.record_sha256 and not DIGEST.fullmatch(one.record_sha256):
        lines.append(f"{one.record_sha256!r:.80} is not a sha256")
    texts = (*one.requires, one.requires_python, *one.extras)
    return lines + [f"{text!r:.80} is no line of METADATA" for text in texts if not _is_line(text)]


def _is_word(text: str) -> bool:
    return text.isprintable() and _WORD.fullmatch(text) is not None


def _is_path(text: str) -> bool:
    return text.startswith("/") and _is_line(text)


def _is_line(text: str) -> bool:
    return len(text) <= _LONGEST and (text.isprintable() or not text)
