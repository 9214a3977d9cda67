"""The order of Python's versions, with nothing but the standard library.

As packaging.version has it; a test holds the two together. Format:
https://packaging.python.org/specifications/version-specifiers/ (PEP 440, and its Appendix B).
"""

import re
from functools import lru_cache
from typing import Any

_VERSION = re.compile(
    r"""\s*v?(?:(?P<epoch>[0-9]+)!)?(?P<release>[0-9]+(?:\.[0-9]+)*)
    (?:[-_.]?(?P<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>[0-9]+)?)?
    (?P<post>-(?P<post_n>[0-9]+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_m>[0-9]+)?)?
    (?P<dev>[-_.]?dev[-_.]?(?P<dev_n>[0-9]+)?)?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?\s*""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
#: Characters. Longer texts are no version, and their numbers take long to read.
_LONGEST = 200

#: The public part and the local one; both are compared by Python as they are.
Key = tuple[tuple[Any, ...], tuple[Any, ...]]


@lru_cache(maxsize=65536)
def key(text: str) -> Key | None:
    """What a version is compared by; None where the text is not one."""
    match = _VERSION.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    release = tuple(int(part) for part in match["release"].split("."))
    while len(release) > 1 and not release[-1]:
        release = release[:-1]
    public = (
        int(match["epoch"] or 0),
        release,
        _pre(match),
        -1 if match["post"] is None else int(match["post_n"] or match["post_m"] or 0),
        (1, 0) if match["dev"] is None else (0, int(match["dev_n"] or 0)),
    )
    local = re.split(r"[-_.]", match["local"].lower()) if match["local"] else []
    # Numbers come after words, and more parts after fewer.
    return public, tuple((1, int(one), "") if one.isdigit() else (0, 0, one) for one in local)


def _pre(match: re.Match[str]) -> tuple[int, str, int]:
    if match["pre"] is not None:
        word = match["pre"].lower()
        return 0, _PRE.get(word, word), int(match["pre_n"] or 0)
    only_dev = match["post"] is None and match["dev"] is not None
    return (-1, "", 0) if only_dev else (1, "", 0)


def compare(version: Key, bound: str) -> int:
    """-1, 0 or 1: whether a version comes before a bound, is it, or comes after it.

    A bound without a local part takes no notice of the version's: 2.5.1+cu124 is 2.5.1, as in PEP
    440's rules for `==` and `<=`. A bound that is no version comes before all of them, which is
    where packaging put what it called legacy versions.
    """
    other = key(bound)
    if other is None:
        return 1
    left, right = (version[:1], other[:1]) if not other[1] else (version, other)
    return (left > right) - (left < right)


def same(version: str, listed: str) -> bool:
    """Whether a version is the listed one, by the same rule; texts that are none by themselves."""
    found = key(version)
    if found is None or key(listed) is None:
        return version == listed
    return compare(found, listed) == 0
