"""GPU code in one file of any kind: library, object, archive of objects, fat binary, cubin."""

from collections import Counter
from collections.abc import Iterable, Iterator

from manifests.kernels.images import CUBIN, DATA, RELOCATABLE, SECTION, Containers
from wheelhouse.kernels import cubin, fatbin, makers
from wheelhouse.kernels.ar import ARCHIVE, objects
from wheelhouse.kernels.fatbin import Container
from wheelhouse.kernels.malformed import Malformed
from wheelhouse.kernels.sections import (
    EM_CUDA,
    IDENT,
    MAGIC,
    SHF_ALLOC,
    SHF_EXECINSTR,
    Buffer,
    Header,
    Section,
    header,
    machine,
    sections,
)

#: Sections that hold containers and nothing else, as nvcc and nvlink name them: what the host code
#: registers, and the relocatable originals of a device link (`nvcc -rdc=true`).
_CARRIERS = {".nv_fatbin": SECTION, "__nv_relfatbin": RELOCATABLE}
#: First bytes of everything that `read` understands.
STARTS = (MAGIC, fatbin.MAGIC, ARCHIVE)

_Found = Iterator[tuple[str, Container]]
_SLACK = 1 << 20  # bytes


def read(view: Buffer) -> tuple[tuple[Containers, ...], tuple[str, ...]]:
    """The containers of a file, equal ones counted together, and the makers of kernels it names.

    Raises Malformed where GPU code is cut off or garbled. A file that holds none may be anything.
    """
    counts = Counter(_parts(view, 0, len(view)))
    groups = tuple(
        Containers(found.images, count, carrier, found.empty)
        for (carrier, found), count in sorted(counts.items())
    )
    return groups, makers.of_binary(view)


def _parts(view: Buffer, start: int, end: int) -> _Found:
    head = view[start : start + len(ARCHIVE)]
    if head.startswith(fatbin.MAGIC):
        yield from ((SECTION, found) for found in fatbin.containers(view, start, end))
    elif head == ARCHIVE:
        for first, last in objects(view, start, end):
            if view[first : first + len(MAGIC)] == MAGIC:
                yield from _elf(view, first, last)
    elif head.startswith(IDENT):
        yield from _elf(view, start, end)


def _elf(view: Buffer, start: int, end: int) -> _Found:
    try:
        found = header(view, start)
        if found.machine == EM_CUDA:
            yield CUBIN, _bare(view, found, start, end)
            return
        table = sections(view, start, end)
    except Malformed:
        if _promises(view, start, end):
            raise
        return  # nothing of ours: some packages carry broken files on purpose
    for section in table:
        if section.name in _CARRIERS:
            for held in fatbin.containers(view, section.start, section.end):
                yield _CARRIERS[section.name], held
    for first, last in _data(table) if table else [(start + len(IDENT), end)]:
        yield from _among_data(view, first, last)


def _promises(view: Buffer, start: int, end: int) -> bool:
    """Whether a broken ELF file had GPU code."""
    return machine(view, start) == EM_CUDA or view.find(fatbin.MAGIC, start, end) >= 0


def _data(table: Iterable[Section]) -> Iterator[tuple[int, int]]:
    """Where libraries such as cuFFT and cuDNN embed containers that they load themselves."""
    for section in table:
        loaded = section.flags & SHF_ALLOC and not section.flags & SHF_EXECINSTR
        if loaded and section.name not in _CARRIERS:
            yield section.start, section.end


def _among_data(view: Buffer, start: int, end: int) -> _Found:
    position = start
    for first, last, held in fatbin.embedded(view, start, end):
        yield DATA, held
        yield from _cubins(view, position, first)  # not those inside containers
        position = last
    yield from _cubins(view, position, end)


def _bare(view: Buffer, found: Header, start: int, end: int) -> Container:
    return Container((cubin.image(view, found, start, end),), False)


def _cubins(view: Buffer, start: int, end: int) -> _Found:
    position, claimed = view.find(IDENT, start, end), 0
    while position >= 0:
        try:
            found = header(view, position)
            if found.machine == EM_CUDA:
                claimed += found.entries * found.entry_size
                yield CUBIN, _bare(view, found, position, end)
        except Malformed:
            pass  # it only looked like one
        if claimed > 4 * (end - start) + _SLACK:
            raise Malformed(position, "cubins in cubins without end")
        position = view.find(IDENT, position + len(IDENT), end)
