"""The proof of a rehearsal (NAME.rehearsal.json), as provenance names it among the byproducts."""

from pathlib import Path
from typing import Any

from bundler.papers import dsse
from bundler.papers.provenance import Finished
from bundler.papers.provenance_inputs import Descriptor
from manifests import bundle, regular
from manifests.errors import IntegrityError, UsageError, from_oserror

#: What a bundle has shown that has answered; see bundler.rehearsal.
_NEEDED = ("installation", "cold start", "one completion", "audit of the installation")
ANSWERED = "installed from its medium, started cold, and answered"
_AGAIN = "rehearse this bundle: bundle rehearse NAME"


def look(made: Finished, path: Path) -> Descriptor:
    """The proof in a file, by its digest and verdict.

    Raises UsageError where there is no such file, IntegrityError where it is no proof, or that of
    another bundle; FilesystemError where it can't be read.
    """
    try:
        data = regular.read(path)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such proof", mend=_AGAIN) from None
    except OSError as error:
        raise from_oserror(error, "reading the proof", path) from None
    return descriptor(made, data, str(path))


def descriptor(made: Finished, data: bytes, where: str) -> Descriptor:
    """The same from the proof's bytes; `where` starts the sentences of errors.

    A delta is proved by what it installs, which has the manifest of its whole bundle.
    """
    found = dsse.loads(data, where)
    delta = made.manifest.delta
    ours = {made.digest, *([delta.manifest_sha256] if delta is not None else [])}
    digest = found.get("manifest_sha256")
    if not isinstance(digest, str):
        raise IntegrityError(f"{where}: no proof of a rehearsal", mend=_AGAIN)
    if digest not in ours:
        raise IntegrityError(
            f"{where}: the proof of another bundle",
            why=f"it is about the manifest {digest:.64}, this bundle's is {made.digest}",
            mend=f"{_AGAIN}; or move that file away",
        )
    done, left = _texts(found, "rehearsed", where), _texts(found, "not_rehearsed", where)
    if missing := [one for one in _NEEDED if one not in done]:
        raise IntegrityError(
            f"{where}: the rehearsal did not come to its end",
            why=f"not shown: {', '.join(missing)}",
            mend=_AGAIN,
        )
    return {
        "name": made.proof_name,
        "digest": {"sha256": bundle.digest_of(data)},
        "annotations": {"verdict": ANSWERED, "rehearsed": done, "notRehearsed": left},
    }


def is_descriptor(value: Any) -> bool:
    """Whether something that a statement names has the form of a proof's descriptor."""
    try:
        told = value["annotations"]
        lists = (told["rehearsed"], told["notRehearsed"])
        shape = {
            "name": value["name"],
            "digest": {"sha256": value["digest"]["sha256"]},
            "annotations": {
                "verdict": ANSWERED,
                "rehearsed": lists[0],
                "notRehearsed": lists[1],
            },
        }
        return value == shape and all(map(_are_texts, lists))
    except (KeyError, TypeError):
        return False


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(
        isinstance(one, str) and one.isprintable() for one in value
    )


def _texts(found: dict[str, Any], key: str, where: str) -> list[str]:
    value = found.get(key)
    if not isinstance(value, list) or not _are_texts(value):
        raise IntegrityError(f"{where}: {key} is no list of sentences", mend=_AGAIN)
    return value
