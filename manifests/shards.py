"""Weights against their index: every shard there and whole, every tensor in its place and once.

Loaders drop duplicates by the index, but not all of them check the reverse; a server can start
with a shard missing and answer nonsense.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from manifests.errors import BundleError, from_oserror
from manifests.findings import Finding
from manifests.safetensors import Tensor, read_header

INDEX, SUFFIX = "model.safetensors.index.json", ".safetensors"
#: How save_pretrained numbers shards.
_NUMBERED = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")

#: A name alone can claim 99,999 others; nobody reads so many lines.
_MOST_TOLD = 100

Headers = dict[str, tuple[Tensor, ...]]


def shards_of(names: Collection[str]) -> list[str]:
    """The weight files among some names, sorted."""
    return sorted(name for name in names if name.endswith(SUFFIX))


def read_headers(files: Mapping[str, Path]) -> tuple[Headers, list[Finding]]:
    """The tensors of every weight file by its name, and what is wrong with those left out."""
    headers: Headers = {}
    findings = []
    for name in shards_of(files):
        try:
            with files[name].open("rb") as handle:
                headers[name] = read_header(handle, os.fstat(handle.fileno()).st_size, name)
        except BundleError as error:
            findings.append(Finding.of(error))
        except OSError as error:
            findings.append(Finding.of(from_oserror(error, "reading the weights")))
    return headers, findings


def weight_map_of(index: Any) -> dict[str, str] | None:
    """Tensor → shard as an index states it; None where that is no index."""
    found = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found.values()):
        return None
    return found


def check_names(shards: Collection[str], index: Any) -> Iterator[Finding]:
    """Compare the names of the weight files with the parsed index, None where there is none."""
    if index is None:
        yield from _check_series(shards)
        return
    weight_map = weight_map_of(index)
    if weight_map is None:
        yield Finding(f"{INDEX}: no `weight_map`", _FROM_SOURCE, damage=True)
        return
    named = set(weight_map.values())
    for shard in sorted(named - set(shards)):
        yield _missing(shard, f"{INDEX} names it")
    for shard in sorted(set(shards) - named):
        yield Finding(
            f"{shard}: not named by {INDEX} (extra-shard)",
            "remove the file, or the index if that is the older one",
            damage=True,
        )


def check_tensors(headers: Headers, index: Any) -> Iterator[Finding]:
    """Compare the tensors in the weight files with the index and with each other.

    Of a shard that the index names and that has no header here nothing is said: other checks did.
    """
    places: dict[str, list[str]] = {}
    for shard, tensors in headers.items():
        for tensor in tensors:
            places.setdefault(tensor.name, []).append(shard)
    for name, shards in places.items():
        if len(shards) > 1:
            yield Finding(
                f"the tensor {name} is in {' and in '.join(shards)} (duplicate-tensor)",
                "remove the weight file that does not belong here",
                damage=True,
            )
    weight_map = weight_map_of(index)
    if weight_map is None:
        return
    for name, shard in weight_map.items():
        if shard in headers and shard not in places.get(name, ()):
            yield Finding(
                f"{shard} does not contain {name}, which {INDEX} places there (missing-tensor)",
                _FROM_SOURCE,
                damage=True,
            )
    named = set(weight_map.values())
    for name, shards in places.items():
        if name not in weight_map and named.intersection(shards):
            yield Finding(
                f"{shards[0]} contains {name}, which {INDEX} does not know (stale-index)",
                _FROM_SOURCE,
                damage=True,
            )


_FROM_SOURCE = "copy the weights and their index again, both from the same revision of the source"


def _missing(shard: str, why: str) -> Finding:
    return Finding(
        f"{shard}: missing, {why} (missing-shard)",
        "copy or download the missing weight files",
        damage=True,
    )


def _check_count(match: re.Match[str], shards: Collection[str]) -> Iterator[Finding]:
    missing = [
        twin
        for number in range(1, int(match["count"]) + 1)
        if (twin := f"{match['stem']}-{number:05}-of-{match['count']}{SUFFIX}") not in shards
    ]
    for twin in missing[:_MOST_TOLD]:
        yield _missing(twin, f"{match[0]} counts it")
    if len(missing) > _MOST_TOLD:
        yield _missing(f"{len(missing) - _MOST_TOLD} more", f"{match[0]} counts them")


def _check_series(shards: Collection[str]) -> Iterator[Finding]:
    for name in sorted(shards):
        if match := _NUMBERED.fullmatch(name):
            yield from _check_count(match, shards)
            break
    if len(shards) > 1:
        what = f"{INDEX}: missing, and there are {len(shards)} weight files (missing-index)"
        yield Finding(what, "copy the index from the model's source", damage=True)
