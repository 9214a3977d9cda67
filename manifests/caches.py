"""Compile caches that a bundle carries: what a server on the same GPU compiled at its first start.

What keys them, read in triton 3.6.0, torch 2.11.0 and vLLM 0.20.2:

- Triton (`runtime/cache.py`) names a kernel's folder by its source, Triton's own files, the options
  and the GPU's architecture, but never by the GPU's model, which the timings that autotuning keeps
  there (`runtime/autotuner.py`) depend on; and a launcher's `.so` by its source alone, although it
  asks for the glibc that it was linked with. So `Key` has device and glibc.
  `__grp__NAME.json` (`put_group`) holds absolute paths of the other files: it travels with a mark
  in the place of the cache folder.
- vLLM (`model_executor/models/registry.py`, `modelinfos`) compares a digest of the model's module.
- vLLM's and torch's graphs (`compilation/decorators.py`, `compilation/backends.py`) are found under
  digests of settings that hold the model's path and folders of the cache itself, and are pickles:
  they fit only where the cache lies at the same path.
- A file that fits nothing any more is not looked at by any of them: arguments that these caches
  compare themselves (a length of context) need not be the same.

The file is one zstd stream: a line of canonical JSON (`Caches`), then the files' bytes in order. It
holds machine code and pickles, so it is believed only under a manifest's digest.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from manifests import canonical, members
from manifests.bundle import Manifest, Member, digest_of
from manifests.digests import Hasher, sha256
from manifests.errors import IntegrityError
from manifests.names import DIGEST, check_path
from manifests.records import from_data, to_data

SCHEMA = 1
#: Where the archive, and so the release, keeps such files, and how they are called.
FOLDER, SUFFIX = "caches/", ".caches.zst"
#: Bytes of the first line; some hundred thousand files fit in.
LONGEST_HEADER = 64 << 20
#: Bytes of a file: a cubin, a pickle, a table. Each is read whole.
LARGEST_FILE = 1 << 30
#: Stands for the cache folder's path in a file that names it.
MARK = b"@VLLM-BUNDLE-CACHE@"
#: Folders of the cache, and whether what is in them fits at any path.
AREAS = {
    "triton": True,
    "vllm/modelinfos": True,
    "vllm/torch_compile_cache": False,
    "torch/inductor": False,
    "flashinfer": False,
}
#: What stays behind: locks, halves, bytecode; and vLLM's record of what it hashed, with the API
#: key in it (`VllmBackend.__call__`, `envs.compile_factors`), which it never reads.
_LEFT = re.compile(
    r"(.*/)?(lock|locks/.*|.*\.lock|tmp\.pid_.*|.*\.tmp|.*\.pyc|cache_key_factors\.json)"
)
_MARKED = re.compile(r"triton/.*/__grp__[^/]+\.json")
_OPTION = re.compile(r"--?[A-Za-z]")
#: Arguments that change names, numbers of tokens or memory, but no kernel.
_SHAPELESS = frozenset(
    {
        "--model",
        "--served-model-name",
        "--uds",
        "--load-format",
        "--reasoning-parser",
        "--default-chat-template-kwargs",
        "--enable-log-requests",
        "--lora-modules",
        "--seed",
        "--max-model-len",
        "--gpu-memory-utilization",
        "--kv-cache-memory-bytes",
    }
)


@dataclass(frozen=True)
class Key:
    """What a cache was made for."""

    device: str  # the GPU's product name, or the processor's where the server runs on that
    capability: str  # of the GPU, "9.0"
    glibc: str  # of the host; a newer one takes what an older one linked
    stack: str
    environment: str  # see `environment_of`
    model: str  # sha256 of its config.json
    arguments: tuple[str, ...]  # see `shaping`


@dataclass(frozen=True)
class File:
    """A file of a cache, in the stream's order."""

    path: str  # below the cache folder
    size: int  # bytes, as carried
    sha256: str
    marked: bool = False  # holds MARK


@dataclass(frozen=True)
class Caches:
    """The header."""

    schema: int
    key: Key
    place: str  # the cache folder that it was made in
    files: tuple[File, ...]

    def dump(self) -> bytes:
        """The header's line."""
        return canonical.dumps(to_data(self))

    def usable(self, place: str) -> tuple[File, ...]:
        """The files that fit in a cache folder at this path."""
        return tuple(one for one in self.files if place == self.place or _area(one.path))


def read(stream: BinaryIO, where: str) -> Caches:
    """The header of an unpacked stream, which is left at the first file's first byte.

    Raises IntegrityError where it is none; `where` starts its sentence.
    """
    line = stream.readline(LONGEST_HEADER)
    try:
        found = from_data(Caches, canonical.loads(line), where, exact=True)
    except ValueError as error:
        raise IntegrityError(f"{where}: not a file of compile caches ({error})") from None
    if found.schema != SCHEMA:
        raise IntegrityError(f"{where}: compile caches of format {found.schema}, not {SCHEMA}")
    before, seen = "", set()
    for one in found.files:
        check_path(one.path)
        seen.add(one.path)
        known = travels(one.path) and any(one.path.startswith(f"{area}/") for area in AREAS)
        if not known or one.path <= before or not seen.isdisjoint(_above(one.path)):
            raise IntegrityError(f"{where}: {one.path} has no place in a cache")
        if not 0 <= one.size <= LARGEST_FILE or not DIGEST.fullmatch(one.sha256):
            raise IntegrityError(f"{where}: {one.path} has no size or digest")
        before = one.path
    return found


def take(stream: BinaryIO, file: File, place: str) -> bytes:
    """A file's bytes as they belong into the cache folder at `place`.

    Raises IntegrityError where they are not the header's.
    """
    data = stream.read(file.size)
    if digest_of(data) != file.sha256:
        raise IntegrityError(f"compile caches: {file.path} is not what its header says")
    return data.replace(MARK, _in_json(place)) if file.marked else data


def give(path: str, data: bytes, place: str) -> tuple[File, bytes]:
    """A file of the cache folder at `place`, as it travels."""
    named = _in_json(place)
    marked = bool(_MARKED.fullmatch(path)) and named in data
    data = data.replace(named, MARK) if marked else data
    hasher: Hasher = sha256()
    hasher.update(data)
    return File(path, len(data), hasher.hexdigest(), marked), data


def _in_json(place: str) -> bytes:
    """A path as json.dumps writes it, which makes the files that are marked."""
    return json.dumps(place)[1:-1].encode("ascii")


def travels(path: str) -> bool:
    """Whether a file of an area is carried."""
    return not _LEFT.fullmatch(path)


def environment_of(manifest: Manifest) -> str:
    """A digest of all code that the server runs: its environment, and what that lies upon."""
    archives = [one.sha256 for one in manifest.members if one.role == members.ENVIRONMENT]
    return digest_of(canonical.dumps([archives, to_data(manifest.overlay)]))


def carried(manifest: Manifest) -> tuple[Member, ...]:
    """The members of a bundle that are compile caches."""
    return tuple(one for one in manifest.members if one.path.startswith(FOLDER))


def shaping(words: Iterable[str]) -> tuple[str, ...]:
    """The server's arguments that change what is compiled, each with its values, sorted."""
    groups: list[list[str]] = []
    for word in words:
        if _OPTION.match(word) or not groups:
            groups.append([])
        groups[-1].append(word)
    kept = (one for one in groups if _option(one[0]) not in _SHAPELESS)
    return tuple(sorted(" ".join(one) for one in kept))


def _option(word: str) -> str:
    """An option's name; vLLM takes it with underscores too (FlexibleArgumentParser)."""
    return word.partition("=")[0].replace("_", "-")


def differences(made: Key, here: Key) -> tuple[str, ...]:
    """Why caches can't be used here, what weighs most first; nothing where they can."""
    found = []
    if (made.device, made.capability) != (here.device, here.capability):
        found.append(f"they are for {made.device}, not for {here.device or 'this machine'}")
    if made.stack != here.stack:
        found.append(f"they are for the stack {made.stack}")
    elif made.environment != here.environment:
        found.append("they were made by another environment of the same stack")
    if made.model != here.model:
        found.append("they are for a model of another shape")
    if _numbers(made.glibc) > _numbers(here.glibc):
        found.append(f"they were linked with glibc {made.glibc}, and this host has {here.glibc}")
    if made.arguments != here.arguments:
        odd = sorted(set(made.arguments) ^ set(here.arguments))
        found.append(f"they are for other arguments of the server ({'; '.join(odd)})")
    return tuple(found)


def _above(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


def _area(path: str) -> bool:
    return any(free and path.startswith(f"{area}/") for area, free in AREAS.items())


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
