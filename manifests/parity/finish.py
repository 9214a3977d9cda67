"""What a restored folder has besides the files that parity covers, and the proof of all of them."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from manifests import regular, signature, sums, synced
from manifests.bundle import digest_of
from manifests.errors import Damage, IntegrityError
from manifests.medium import INSTALLER
from manifests.parity.names import RESTORER, head_name
from manifests.parity.scheme import Scheme
from manifests.parity.shelf import Shelf

FROM_SOURCE = (
    "copy the bundle from its source again, or name a second copy of the medium, which may be "
    "damaged too, with --volumes-in"
)
#: What SHA256SUMS does not name and a restored folder has nevertheless, where it can be read.
_SIGNATURES = (signature.FILE_NAME, signature.SIDECAR)


@dataclass(frozen=True)
class Papers:
    """What parity does not cover. Read before anything else: its medium may go for another."""

    lists: tuple[bytes, ...]
    signatures: Mapping[str, bytes | None]  # None: can't be read


def papers(shelf: Shelf) -> Papers:
    """The lists and signatures of the media at hand."""
    names = shelf.names()
    return Papers(
        tuple(
            data
            for name in (sums.FILE_NAME, sums.COPY_NAME)
            for data in shelf.whole(name, regular.SMALL)
        ),
        {
            name: next(shelf.whole(name, regular.SMALL), None)
            for name in _SIGNATURES
            if name in names
        },
    )


def beside(
    found_papers: Papers, scheme: Scheme, work: Path, digests: Mapping[str, str], trusted: str
) -> tuple[str, ...]:
    """Write the rest of the folder, SHA256SUMS last; gives what a person should know.

    `digests` are those of the files in `work`. Raises IntegrityError where they are not what
    SHA256SUMS names.
    """
    first = scheme.files[0].name
    script = regular.read(work / INSTALLER)
    with (work / first).open("rb") as source:
        head = source.read(scheme.head)
    more = {RESTORER: script, head_name(first): head}
    found = {**digests, **{name: digest_of(data) for name, data in more.items()}}
    listing = sums.render(found)
    _prove(found_papers.lists, listing, found, trusted)
    for name, data in more.items():
        synced.write(work / name, data, 0o755 if name == RESTORER else 0o644)
    notes = []
    for name, signed in found_papers.signatures.items():
        if signed is not None:
            synced.write(work / name, signed, 0o644)
        else:
            notes.append(f"{name}: can't be read, and parity does not cover it: get it again")
    synced.write(work / sums.COPY_NAME, listing, 0o644)
    synced.write(work / sums.FILE_NAME, listing, 0o644)
    return tuple(notes)


def _prove(lists: Sequence[bytes], listing: bytes, found: Mapping[str, str], trusted: str) -> None:
    """Compare what was restored with the list: the trusted one, else the medium's or its copy."""
    if trusted:
        if digest_of(listing) != trusted:
            raise Damage(
                f"{sums.FILE_NAME} of what was restored",
                trusted,
                digest_of(listing),
                mend="don't use the bundle; get it and the digest again, each by its own road",
            )
        return
    if listing in lists:
        return
    raise IntegrityError(
        f"{sums.FILE_NAME}: does not name what was restored, and neither does its copy",
        findings=_differences(lists, found),
        why="the parity is that of another bundle, or both lists are damaged",
        mend=f"{FROM_SOURCE}; where both lists are damaged, name the digest of the right one with "
        "--trust-digest HEX",
    )


def _differences(lists: Sequence[bytes], found: Mapping[str, str]) -> list[str]:
    """What differs from the list that is nearest."""
    nearest: list[str] | None = None
    for data in lists:
        try:
            listed = sums.parse(data)
        except IntegrityError:
            continue
        names = sorted({*listed, *found})
        lines = [
            f"{name}: listed is {listed.get(name, 'nothing')}, "
            f"restored {found.get(name, 'nothing')}"
            for name in names
            if listed.get(name) != found.get(name)
        ]
        if nearest is None or len(lines) < len(nearest):
            nearest = lines
    return nearest if nearest is not None else [f"{sums.FILE_NAME} and its copy can't be read"]


def write_at(handle: int, data: bytes, offset: int) -> None:
    """Write all of some bytes at a place of a file."""
    view = memoryview(data)
    while view:
        count = os.pwrite(handle, view, offset)
        view, offset = view[count:], offset + count
