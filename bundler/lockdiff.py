"""What differs between two locks, a sentence for each thing."""

from collections.abc import Iterable, Mapping
from typing import Any

from manifests.lock import Lock
from manifests.records import to_data

#: By name, what is told of a thing: first what a person would ask for.
_Told = Mapping[str, tuple[str, ...]]
_ABSENT = ("absent",)


def changes(old: Lock, new: Lock) -> tuple[str, ...]:
    """Each difference as `NAME: FROM -> TO`; when they were made does not count."""
    found: list[str] = []
    for title, before, after in (
        ("", _head(old), _head(new)),
        ("conda package ", _versions(old.conda), _versions(new.conda)),
        ("runtime's conda package ", _versions(old.runtime_conda), _versions(new.runtime_conda)),
        ("", _versions(old.wheels), _versions(new.wheels)),
        ("runtime's ", _versions(old.runtime_wheels), _versions(new.runtime_wheels)),
        ("build of ", _versions(old.builds), _versions(new.builds)),
        ("model file ", _files(old), _files(new)),
    ):
        found += _compare(title, before, after)
    return tuple(found)


def _compare(title: str, before: _Told, after: _Told) -> Iterable[str]:
    """One sentence for each name, about the first thing that differs."""
    for name in sorted({*before, *after}):
        old, new = before.get(name, _ABSENT), after.get(name, _ABSENT)
        if old != new:
            was, becomes = next(pair for pair in zip(old, new, strict=False) if len({*pair}) > 1)
            yield f"{title}{name}: {was} -> {becomes}"


def _head(lock: Lock) -> _Told:
    target = ", ".join(f"{key} {value}" for key, value in to_data(lock.target).items())
    return {
        "target": (target,),
        "stack": (lock.stack,),
        "flavour": (lock.flavour,),
        "channel": (lock.channel,),
        "model": (lock.model.source, lock.model.revision),
        **{f"model {one.name}": (one.source, one.revision) for one in lock.others},
        **{f"adapter {one.name}": (one.source, one.revision) for one in lock.adapters},
    }


def _versions(packages: Iterable[Any]) -> _Told:
    return {p.name: (p.version, getattr(p, "filename", p.url), p.sha256) for p in packages}


def _files(lock: Lock) -> _Told:
    """By path; of all but the default model below the part's name."""
    return {
        (file.path if part is lock.model else f"{part.name}/{file.path}"): (
            file.sha256 or file.git_blob,
        )
        for part in lock.parts
        for file in part.files
    }
