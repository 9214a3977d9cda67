"""The wheels of a lock as requirement files in pip-tools' form, for people and other tools.

`pip install --require-hashes --no-deps -r FILE` takes exactly these files, and `pip-compile` reads
them. They are made from the lock and never read back.
"""

from collections.abc import Iterable
from pathlib import Path

from bundler import whole
from manifests.errors import from_oserror
from manifests.lock import COMPUTED, Lock, Wheel
from wheelhouse.resolve import requirements_text


def paths(lock: Path) -> tuple[Path, Path]:
    """The files that lie beside a lock: for the serving environment, for the bundle's runtime."""
    return (
        lock.with_name(f"{lock.stem}.requirements.txt"),
        lock.with_name(f"{lock.stem}.runtime-requirements.txt"),
    )


def texts(lock: Lock) -> tuple[str, str]:
    """What stands in them."""
    return (
        text(lock, lock.wheels, "the serving environment"),
        text(lock, lock.runtime_wheels, "the bundle's own runtime"),
    )


def text(lock: Lock, wheels: Iterable[Wheel], what: str) -> str:
    """A requirement file; the header says for which target it holds."""
    target = lock.target
    host = f"Python {target.python}, {target.arch}, glibc {target.glibc}"
    header = [
        f"{what} of {lock.stack} ({lock.flavour}) for {', '.join(target.gpus)}",
        f"target: {host}; holds for no other",
        "made by `bundle lock` of vllm-bundle from pip-tools' pins; not edited by hand",
    ]
    entries = map(_entry, sorted(wheels, key=lambda wheel: wheel.name))
    return _comment(*header) + "".join(entries)


def write(lock: Lock, path: Path) -> tuple[Path, ...]:
    """Write the files beside the lock at `path`, each whole or not at all.

    Raises FilesystemError.
    """
    for file, content in zip(paths(path), texts(lock), strict=True):
        whole.write(file, content.encode(), "writing the requirement files")
    return paths(path)


def stale(lock: Lock, path: Path) -> tuple[str, ...]:
    """A sentence for each file beside the lock at `path` that says something else.

    Raises FilesystemError.
    """
    found = []
    for file, content in zip(paths(path), texts(lock), strict=True):
        try:
            if file.read_bytes() != content.encode():
                found.append(f"{file.name}: does not say what the lock says")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise from_oserror(error, "reading the requirement files", file) from None
    return tuple(found)


def _entry(wheel: Wheel) -> str:
    note = ""
    if wheel.derived is not None:
        note = _comment(
            f"no index has this one: made from {wheel.derived.origin}",
            f"(sha256 {wheel.derived.sha256})",
        )
    elif wheel.digest_from == COMPUTED:
        note = _comment(f"{wheel.filename} from a local folder: its digest was computed here")
    return note + requirements_text((wheel,))


def _comment(*lines: str) -> str:
    return "".join(f"# {line}\n" for line in lines)
