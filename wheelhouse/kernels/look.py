"""What one file holds, and how equal files are told as one."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from manifests.errors import IntegrityError
from manifests.kernels import Containers, FileKernels, Image, Inventory
from manifests.kernels.images import CUBIN
from wheelhouse.kernels import binary, makers
from wheelhouse.kernels.malformed import Malformed
from wheelhouse.kernels.places import Piece

#: Where Python's packages begin in an environment.
_PACKAGES = "site-packages"
_LONGEST = max(map(len, binary.STARTS))


@dataclass(frozen=True)
class Look:
    """The answer for one file."""

    path: str
    containers: tuple[Containers, ...] = ()
    makers: tuple[str, ...] = ()


def look(piece: Piece) -> Look:
    """Open a file and read what GPU code it holds.

    Raises IntegrityError with the file and the offset where that is cut off or garbled, OSError
    and zipfile.BadZipFile where it can't be opened.
    """
    with piece.content() as view:
        if piece.path.endswith(".py"):
            return Look(piece.path, makers=makers.of_source(view))
        if not view[:_LONGEST].startswith(binary.STARTS):
            return Look(piece.path)
        try:
            return Look(piece.path, *binary.read(view))
        except Malformed as error:
            raise IntegrityError(
                f"{piece.path}: {error}",
                why="its GPU code is cut off or altered, so nobody can say which GPUs it serves",
                mend="fetch or copy the file again, and compare its digest",
            ) from None


def inventory(looks: Iterable[Look]) -> Inventory:
    """All answers as an inventory.

    The Python files of a package are told as one, and so are the bare cubins of a folder, of which
    FlashInfer has thousands.
    """
    containers: dict[str, Counter[Containers]] = {}
    found: dict[str, set[str]] = {}
    for one in looks:
        path = _told_as(one)
        for group in one.containers:
            one_of_them = replace(group, count=1)
            containers.setdefault(path, Counter())[one_of_them] += group.count
        if one.makers:
            found.setdefault(path, set()).update(one.makers)
    return Inventory(
        tuple(
            FileKernels(
                path,
                tuple(
                    replace(group, count=count)
                    for group, count in sorted(containers.get(path, Counter()).items(), key=_order)
                ),
                tuple(sorted(found.get(path, ()))),
            )
            for path in sorted(containers.keys() | found.keys())
        )
    )


def _order(item: tuple[Containers, int]) -> tuple[str, tuple[Image, ...], bool]:
    return item[0].carrier, item[0].images, item[0].empty


def _told_as(one: Look) -> str:
    path = PurePosixPath(one.path)
    if path.suffix == ".py":
        parts = path.parts
        start = parts.index(_PACKAGES) + 1 if _PACKAGES in parts else 0
        package = "/".join(parts[: start + 1])
        return package if package == one.path else f"{package}/**/*.py"
    bare = [group.carrier for group in one.containers] == [CUBIN]
    if bare and path.suffix == ".cubin" and len(path.parts) > 1:
        return f"{path.parent}/*.cubin"
    return one.path
