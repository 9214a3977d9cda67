"""Compile caches that a bundle is to carry: files that a rehearsal has kept (manifests.caches)."""

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import zstandard

from bundler import media
from bundler.media import Opener
from manifests import caches, members
from manifests.bundle import Manifest, Member
from manifests.caches import Caches
from manifests.digests import hash_file
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.gpu import CPU


@dataclass(frozen=True)
class Chosen:
    """A file of compile caches, every byte of which was what its header says."""

    path: Path
    header: Caches
    member: Member

    @property
    def summary(self) -> str:
        """What it is, for people."""
        return f"{len(self.header.files)} files for {self.header.key.device}"


def look(paths: Sequence[Path]) -> tuple[Chosen, ...]:
    """Read the files, whole.

    Raises UsageError for what is no such file, or is named twice; IntegrityError for a damaged one.
    """
    found = tuple(map(_look, paths))
    if len({one.member.path for one in found}) != len(found):
        raise UsageError("--caches names the same caches twice", mend="leave one of them away")
    return found


def _look(path: Path) -> Chosen:
    try:
        with path.open("rb") as raw:
            unpacker = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
            with io.BufferedReader(cast("io.RawIOBase", unpacker)) as stream:
                header = caches.read(stream, str(path))
                for file in header.files:
                    caches.take(stream, file, "")
                if stream.read(1):
                    raise IntegrityError(f"{path}: more is in it than its header says")
        digest, size = hash_file(path), path.stat().st_size
    except OSError as error:
        raise from_oserror(error, "reading the compile caches", path) from error
    except zstandard.ZstdError as error:
        raise IntegrityError(
            f"{path}: not a file of compile caches ({error})",
            mend="make one: bundlectl rehearse --keep-caches FILE",
        ) from None
    name = f"{caches.FOLDER}{digest[:12]}{caches.SUFFIX}"
    return Chosen(path, header, Member(name, members.DOCUMENT, size, digest))


def added(manifest: Manifest, chosen: Sequence[Chosen]) -> Manifest:
    """A manifest with the caches.

    Raises UsageError for caches that no start of this bundle could use.
    """
    configs = {
        one.sha256
        for part in manifest.parts()
        for one in manifest.members
        if one.path == f"{part.start}config.json"
    }
    for one in chosen:
        key, why = one.header.key, ""
        if key.stack != manifest.stack:
            why = f"they are for the stack {key.stack}, the bundle's is {manifest.stack}"
        elif key.environment != caches.environment_of(manifest):
            why = "another environment has made them: other wheels, or another Python"
        elif key.model not in configs:
            why = "they are for a model of another shape"
        elif (capability := _capability(key.capability)) not in manifest.target.gpus:
            why = f"they are for {capability}, the bundle is for {', '.join(manifest.target.gpus)}"
        if why:
            raise UsageError(
                f"{one.path}: no start could use these compile caches",
                why=why,
                mend="rehearse a bundle made from the same lock: bundle rehearse --keep-caches",
            )
    return replace(manifest, members=(*manifest.members, *(one.member for one in chosen)))


def _capability(text: str) -> str:
    return f"sm_{text.replace('.', '')}" if text else CPU


def openers(chosen: Sequence[Chosen]) -> dict[str, Opener]:
    """What opens each of the members."""
    return {one.member.path: media.file_opener(one.path) for one in chosen}
