"""METADATA and WHEEL files of a wheel, edited line by line so that all else stays as published.

Format: https://packaging.python.org/specifications/core-metadata/ (RFC 822 headers, then a text).
"""

from collections.abc import Callable, Mapping

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from manifests.errors import IntegrityError


def with_version(text: str, version: str) -> str:
    """METADATA with another version."""
    return _edited(text, "Version", lambda _: version)


def with_requirements(text: str, changes: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """METADATA with other requirements, and one sentence for each change.

    `changes` maps a project to its new requirement, or to "" where it is dropped; every line of
    that project goes. Raises IntegrityError where a project is not required at all.
    """
    found: dict[str, list[str]] = {}
    wanted: dict[str, str] = {canonicalize_name(name): value for name, value in changes.items()}

    def edit(value: str) -> str | None:
        name = canonicalize_name(Requirement(value).name)
        if name not in wanted:
            return value
        found.setdefault(name, []).append(value)
        return (wanted[name] or None) if len(found[name]) == 1 else None

    edited = _edited(text, "Requires-Dist", edit)
    for name in wanted:
        if name not in found:
            raise IntegrityError(f"METADATA does not require {name}, which is to be changed")
    return edited, tuple(
        f"the requirement {'; and '.join(map(repr, old))} "
        + (f"became {wanted[name]!r}" if wanted[name] else "was dropped")
        for name, old in found.items()
    )


def with_tag(text: str, tag: str) -> tuple[str, str]:
    """WHEEL with this one tag, and the tags that it had."""
    old: list[str] = []

    def edit(value: str) -> str | None:
        old.append(value)
        return tag if len(old) == 1 else None

    return _edited(text, "Tag", edit), ", ".join(old)


def _edited(text: str, field: str, edit: Callable[[str], str | None]) -> str:
    """The text with each value of a header field replaced by what `edit` says; None drops it."""
    head, separator, body = text.partition("\n\n")
    lines = []
    for line in head.split("\n"):
        name, colon, value = line.partition(":")
        if not colon or name.lower() != field.lower():
            lines.append(line)
        elif (new := edit(value.strip())) is not None:
            lines.append(f"{name}: {new}")
    return "\n".join(lines) + separator + body
