"""Where the bytes of an installation go, for the picture of sizes: from the manifest alone."""

import re
from collections import Counter
from collections.abc import Iterator

from manifests import approval, tree
from manifests.approval import Share
from manifests.bundle import Manifest

#: Groups of the picture. Their order decides the colour.
PACKAGES, PYTHON, TOOLS = "packages", "python", "tools"
GROUPS = (approval.MODEL, PACKAGES, PYTHON, TOOLS)
#: Areas below this share of the whole are drawn as one: they could bear no name.
_SMALLEST = 0.008
#: A top folder or file of an environment's packages; NVIDIA's wheels share theirs.
_PACKAGE = re.compile(r"lib/python3\.\d+/site-packages/(nvidia/[^/]+|[^/]+)")


def shares(carried: Manifest) -> tuple[Share, ...]:
    """The areas by group, the largest first; what is too small to be seen, together."""
    manifest = carried.whole()
    sizes = {
        approval.MODEL: Counter(dict(_models(manifest))),
        PACKAGES: _below(manifest.environment, packages=True),
        PYTHON: _below(manifest.environment, packages=False),
        TOOLS: Counter({"": sum(entry.size for entry in manifest.runtime)}),
    }
    whole = sum(found.total() for found in sizes.values())
    return tuple(share for group in GROUPS for share in _group(group, sizes[group], whole))


def _models(manifest: Manifest) -> Iterator[tuple[str, int]]:
    """Files of models and adapters by their path below models/."""
    several = len(manifest.parts()) > 1
    for part in manifest.parts():
        start = f"{part.item.name}/" if several else ""
        yield from ((start + entry.path, entry.size) for entry in manifest.part_entries(part))


def _below(entries: tuple[tree.Entry, ...], *, packages: bool) -> Counter[str]:
    """Packages by their folder; everything else of the environment under no name."""
    found: Counter[str] = Counter()
    for entry in entries:
        match = _PACKAGE.match(entry.path)
        if entry.kind == tree.FILE and (match is not None) == packages:
            found[match[1] if match else ""] += entry.size
    return found


def _group(group: str, sizes: Counter[str], whole: int) -> Iterator[Share]:
    large = {name: size for name, size in sizes.items() if name and size >= whole * _SMALLEST}
    for name, size in sorted(large.items(), key=lambda item: (-item[1], item[0])):
        if size:
            yield Share(group, name, size)
    rest = {name: size for name, size in sizes.items() if name not in large and size}
    if rest:
        yield Share(group, "", sum(rest.values()), len(rest))
