"""Where the dynamic loader finds the libraries that files of an environment ask for.

The order of ld.so(8), with what a Python server adds to it: the RPATH of the interpreter counts
for every library that has no RUNPATH of its own, LD_LIBRARY_PATH names one folder with the
libraries that must win, and a library that another package has loaded already is taken by its
name (torch loads the nvidia wheels' libraries in that way before its own).
"""

import posixpath
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from wheelhouse.elf.inventory import ElfFile, ElfInventory
from wheelhouse.elf.libraries import Libraries, matches

_ORIGIN = re.compile(r"\$ORIGIN\b|\$\{ORIGIN\}")
#: As many links as the kernel follows (path_resolution(7)).
_MOST_LINKS = 40


class Source(Enum):
    """Who supplies a library."""

    PATH = "found on a search path"
    LOADED = "found only where something has loaded it before"
    HOST = "part of glibc"
    DRIVER = "part of the NVIDIA driver"
    BENEATH = "in the environment of the host that this one lies on"
    NOTHING = "supplied by nothing"


@dataclass(frozen=True)
class Supply:
    """The answer for one library; the files it may be, the likeliest first."""

    source: Source
    files: tuple[ElfFile, ...] = ()


class Loader:
    """The loader of one environment; `winning` are the names on LD_LIBRARY_PATH.

    `beneath` are names of libraries in the environment that this one lies on, if it does.
    """

    def __init__(
        self,
        inventory: ElfInventory,
        libraries: Libraries,
        winning: Sequence[str] = (),
        beneath: Collection[str] = (),
    ) -> None:
        self._beneath = frozenset(beneath)
        self._libraries = libraries
        self._winning = frozenset(winning)
        #: folder → file name → file, links included
        self.folders: dict[str, dict[str, ElfFile]] = defaultdict(dict)
        self._by_name: dict[str, list[ElfFile]] = defaultdict(list)
        files = {file.path: file for file in inventory.files}
        named = [(file.path, file) for file in inventory.files]
        targets = {link.path: link.target for link in inventory.links}
        named += [
            (path, files[real]) for path in targets if (real := _follow(path, targets)) in files
        ]
        for path, file in named:
            folder, _, name = path.rpartition("/")
            self.folders[folder][name] = file
            self._by_name[name].append(file)
        for file in inventory.files:
            if file.soname and file not in self._by_name[file.soname]:
                self._by_name[file.soname].append(file)
        self._inherited = [
            folder
            for file in inventory.files
            if file.is_interpreter and file.rpath
            for folder in search_folders(file)
        ]

    def supply(self, file: ElfFile, library: str) -> Supply:
        """Who supplies what a file asks for."""
        if matches(library, self._libraries.host):
            return Supply(Source.HOST)
        found = [
            self.folders[folder][library]
            for folder in self._search(file, library)
            if library in self.folders.get(folder, ())
        ]
        if found:
            return Supply(Source.PATH, (found[0],))
        if matches(library, self._libraries.driver):
            return Supply(Source.DRIVER)
        if loaded := self._by_name.get(library):
            return Supply(Source.LOADED, tuple(loaded))
        if library in self._beneath:
            return Supply(Source.BENEATH)
        return Supply(Source.NOTHING)

    def kin(self, library: str) -> list[str]:
        """Names in the environment of the same library with another number."""
        stem = library.partition(".so")[0] + ".so"
        return sorted(name for name in self._by_name if name.startswith(stem) and name != library)

    def _search(self, file: ElfFile, library: str) -> Iterator[str]:
        if file.rpath or not file.runpath:
            yield from search_folders(file)
            yield from self._inherited
        if library in self._winning:
            yield "lib"
        if not file.rpath:
            yield from search_folders(file)


def search_folders(file: ElfFile) -> Iterator[str]:
    """The folders of a file's own search path that are inside the place."""
    for entry in file.runpath:
        if _ORIGIN.match(entry):
            folder = posixpath.normpath(_ORIGIN.sub(f"./{file.folder}", entry))
            if not folder.startswith("../"):
                yield "" if folder == "." else folder


def _follow(path: str, targets: dict[str, str]) -> str:
    """What a chain of links ends at; a path of no file where it ends nowhere."""
    for _ in range(_MOST_LINKS):
        if path not in targets:
            return path
        path = posixpath.normpath(posixpath.join(posixpath.dirname(path), targets[path]))
    return ""
