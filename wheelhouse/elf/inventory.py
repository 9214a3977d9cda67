"""What ELF files ask of the machine that loads them: the records."""

import re
from dataclasses import dataclass

SHARED, PROGRAM, STATIC = "shared", "program", "static"
_INTERPRETER = re.compile(r"bin/python[\d.]*")


@dataclass(frozen=True)
class VersionNeed:
    """Symbol versions that a file wants from one library; weak ones, which may be absent, aside."""

    library: str  # "libc.so.6"
    versions: tuple[str, ...]  # "GLIBC_2.32", as written


@dataclass(frozen=True)
class ElfFile:
    """One program or shared library, as the loader sees it."""

    path: str  # below the place that was scanned
    machine: str  # "x86_64"; other files of other machines have no more than that
    kind: str = SHARED
    soname: str = ""
    needed: tuple[str, ...] = ()  # DT_NEEDED, in order
    runpath: tuple[str, ...] = ()  # entries of the search path in force, as written
    rpath: bool = False  # they are a DT_RPATH, which beats LD_LIBRARY_PATH
    versions: tuple[VersionNeed, ...] = ()
    defines: tuple[str, ...] = ()  # symbol versions that it has to offer
    interpreter: str = ""  # of a program: the loader's path
    build_id: str = ""  # hexadecimal; equal ones are the same build

    @property
    def name(self) -> str:
        """The file's name without its folder."""
        return self.path.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """The folder it lies in; "" for the top."""
        return self.path.rpartition("/")[0]

    @property
    def is_interpreter(self) -> bool:
        """Whether it is the environment's Python."""
        return self.kind == PROGRAM and _INTERPRETER.fullmatch(self.path) is not None

    @property
    def wanted(self) -> tuple[str, ...]:
        """All symbol versions that it wants, of any library."""
        return tuple(version for need in self.versions for version in need.versions)


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    path: str
    target: str


@dataclass(frozen=True)
class Unreadable:
    """A file that starts as ELF and goes on as something else."""

    path: str
    reason: str


@dataclass(frozen=True)
class MissingSymbols:
    """Symbols that a file takes from a library of the place, which does not have them."""

    path: str
    library: str  # as in libraries.toml, "torch"
    first: str  # of them, sorted; mangled
    count: int


@dataclass(frozen=True)
class ElfInventory:
    """All of a place, sorted by path."""

    files: tuple[ElfFile, ...]
    links: tuple[Link, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    missing: tuple[MissingSymbols, ...] = ()

    @property
    def has_interpreter(self) -> bool:
        """Whether it is a whole environment."""
        return any(file.is_interpreter for file in self.files)
