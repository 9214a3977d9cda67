"""Says what a Python environment holds: one line of JSON, a `manifests.inventory.Inventory`.

    python inventory_script.py > inventory.json

It is run by the interpreter of that environment, on a host that has nothing of this project: it
stands alone, takes Python 3.8 and newer, and changes nothing there. Told are interpreter, platform
and distributions; not told are names of host and users, or what any file holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import sys
import sysconfig
from importlib import metadata
from pathlib import Path
from typing import Any

#: Neither the user's own packages nor PYTHON* variables, and no bytecode beside what is read.
FLAGS = ("-s", "-E", "-B")
#: What manylinux lets wheels take from a host, beside glibc itself (auditwheel, manylinux-policy).
_WHITELISTED = (
    *("libz.so.1", "libexpat.so.1", "libgcc_s.so.1", "libstdc++.so.6", "libatomic.so.1"),
    *("libX11.so.6", "libXext.so.6", "libXrender.so.1", "libICE.so.6", "libSM.so.6"),
    *("libGL.so.1", "libgobject-2.0.so.0", "libgthread-2.0.so.0", "libglib-2.0.so.0"),
)
_CACHE = Path("/etc/ld.so.cache")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
#: A version or a tag; a line of METADATA has not more characters than this.
_WORD, _LONGEST = re.compile(r"[^\s/]{1,255}"), 8192
_LIBRARY = re.compile(r"[^/\s]+\.so(\.[0-9][^/\s]*)?")


def main() -> None:
    """Print the inventory; under the flags above, whatever the caller gave."""
    flags = sys.flags
    if not (flags.no_user_site and flags.ignore_environment and flags.dont_write_bytecode):
        os.execv(sys.executable, [sys.executable, *FLAGS, __file__])  # noqa: S606
    text = json.dumps(inventory(), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")


def inventory() -> dict[str, Any]:
    """All that is told; what is empty is left out, as the record's defaults are."""
    folders = sites()
    return _filled(
        inventory=1,
        interpreter=_filled(
            version=platform.python_version(),
            implementation=sys.implementation.name,
            soabi=sysconfig.get_config_var("SOABI"),
            executable=sys.executable,
            base_executable=getattr(sys, "_base_executable", None) or sys.executable,
            sites=folders,
        ),
        platform=_filled(machine=platform.machine(), glibc=glibc(), libraries=libraries()),
        # As packaging's default_environment, but for what tells of the kernel's build.
        markers={
            "implementation_name": sys.implementation.name,
            "implementation_version": _implementation_version(),
            "os_name": os.name,
            "platform_machine": platform.machine(),
            "platform_python_implementation": platform.python_implementation(),
            "platform_system": platform.system(),
            "python_full_version": platform.python_version(),
            "python_version": ".".join(platform.python_version_tuple()[:2]),
            "sys_platform": sys.platform,
        },
        distributions=distributions(folders),
    )


def sites() -> list[str]:
    """The folders that packages are imported from, in order; the standard library is none."""
    standard = Path(os.__file__).absolute().parent
    # Python puts the folder of what it runs before all others.
    own = {Path(__file__).absolute().parent, Path(__file__).resolve().parent}
    others = {standard, standard / "lib-dynload", *own}
    folders = dict.fromkeys(Path(path).absolute() for path in sys.path if path)
    return [str(path) for path in folders if path not in others and path.is_dir()]


def glibc() -> str:
    """The C library's version as "2.35"; empty where it is none of GNU's."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    except (AttributeError, OSError, ValueError):
        return ""
    return version if name == "glibc" else ""


def libraries() -> list[str]:
    """Those of the whitelisted libraries that the loader's cache has."""
    try:
        known = {path.rpartition(b"/")[2] for path in _CACHE.read_bytes().split(b"\0")}
    except OSError:
        return []
    return sorted(name for name in _WHITELISTED if name.encode() in known)


def distributions(folders: list[str]) -> list[dict[str, Any]]:
    """Every distribution that has a name and a version; of two with one name the first counts."""
    found: dict[str, dict[str, Any]] = {}
    for distribution in metadata.distributions(path=folders):
        with contextlib.suppress(Exception):  # what an install left that broke off can be anything
            described = _described(distribution)
            found.setdefault(described["name"], described)
    return [found[name] for name in sorted(found)]


def _described(distribution: metadata.Distribution) -> dict[str, Any]:
    head: Any = distribution.metadata
    (name,), (version,) = _lines(head, "Name"), _lines(head, "Version")
    name = re.sub(r"[-_.]+", "-", name).lower()
    if not _NAME.fullmatch(name) or not version:
        raise ValueError(name)
    requires, extras = _lines(head, "Requires-Dist"), _lines(head, "Provides-Extra")
    requires_python = "".join(_lines(head, "Requires-Python"))
    tags = _tags(distribution.read_text("WHEEL") or "")
    # As manifests/inventory.py wants them; nothing can be built on a distribution of other words.
    texts = (version, *requires, requires_python, *extras, *tags)
    if not all(text.isprintable() and len(text) <= _LONGEST for text in texts):
        raise ValueError(name)
    if not all(map(_WORD.fullmatch, (version, *tags))):
        raise ValueError(name)
    return _filled(
        name=name,
        version=version,
        requires=requires,
        requires_python=requires_python,
        extras=extras,
        tags=tags,
        record_sha256=_record_sha256(distribution),
        libraries=_libraries(distribution.read_text("RECORD") or ""),
    )


def _lines(head: Any, field: str) -> list[str]:
    """The values of a header that may be there several times, each on one line."""
    return [" ".join(str(value).split()) for value in head.get_all(field) or ()]


def _tags(text: str) -> list[str]:
    pairs = (line.partition(":") for line in text.splitlines())
    values = (value.strip() for name, _, value in pairs if name.strip().lower() == "tag")
    return [value for value in values if value]


def _record_sha256(distribution: metadata.Distribution) -> str:
    """The digest of RECORD's own bytes; reading it as text would change its line ends."""
    folder = Path(getattr(distribution, "_path", None) or os.devnull)
    try:
        return hashlib.sha256((folder / "RECORD").read_bytes()).hexdigest()
    except OSError:  # an egg, or a package of the distribution's own kind
        return ""


def _libraries(record: str) -> list[str]:
    """Names of the shared libraries in a RECORD, without their folders."""
    paths = (line.rsplit(",", 2)[0].strip('"') for line in record.splitlines())
    names = {path.rpartition("/")[2] for path in paths}
    return sorted(name for name in names if _LIBRARY.fullmatch(name))


def _implementation_version() -> str:
    info = sys.implementation.version
    suffix = "" if info.releaselevel == "final" else f"{info.releaselevel[0]}{info.serial}"
    return f"{info.major}.{info.minor}.{info.micro}{suffix}"


def _filled(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


if __name__ == "__main__":
    main()
