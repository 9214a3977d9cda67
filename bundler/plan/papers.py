"""METADATA of wheels, for what it says about their licences, without fetching the wheels.

From the wheel where it is at hand; otherwise the file that indexes serve beside it (PEP 658). That
one is a hint: nothing is installed by it, and it is not held to a digest, which most mirrors leave
out. Once the wheel is there, its own METADATA is read, which the lock pins.
"""

import re
import zipfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Event

import requests

from manifests.errors import from_oserror
from manifests.lock import Wheel
from wheelhouse import record
from wheelhouse.sources import Sources, local_path
from wheelhouse.store import Progress, Store, silent

_CONNECTIONS = 8
#: Bytes; the largest seen is 300 kB, with a long description.
_LARGEST = 4 << 20
_NAME = re.compile(r"^Name: *(\S+)", re.MULTILINE)


def at_hand(wheels: Iterable[Wheel], sources: Sources, store: Store) -> dict[str, Path]:
    """Wheels that are on this machine, by sha256: in the store, or in a configured folder."""
    folders = [path for place in sources.find_links if (path := local_path(place)) is not None]
    found = {}
    for wheel in wheels:
        places = [store.path(wheel.sha256)]
        if wheel.url.startswith("file:"):
            places += [folder / wheel.filename for folder in folders]
        path = next(filter(zipfile.is_zipfile, places), None)
        if path is not None:
            found[wheel.sha256] = path
    return found


def inside(path: Path) -> str:
    """The METADATA in a wheel; empty where there is none.

    Raises FilesystemError where it can't be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.count("/") == 1 and name.endswith(".dist-info/METADATA"):
                    return record.text_of(archive, name, "replace")
    except OSError as error:
        raise from_oserror(error, "reading a wheel", path) from error
    except record.UNSOUND:
        return ""
    return ""


class Papers:
    """What indexes say about wheels that are not here; kept below `folder`, by wheel."""

    def __init__(self, sources: Sources, folder: Path, *, offline: bool = False) -> None:
        self._sources = sources
        self._folder = folder
        self._session = sources.session()
        self._stop = Event()
        if offline:
            self._stop.set()

    def of(self, wheels: Iterable[Wheel], progress: Progress = silent) -> dict[str, str]:
        """METADATA by the wheel's sha256, of as many as can be had.

        `progress` hears of bytes. A licence is worth no failure: what can't be had is left out,
        and after a connection that fails nothing more is asked.
        """
        wheels = tuple(wheels)
        found = {}
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            for wheel, text in zip(wheels, pool.map(self._one, wheels), strict=True):
                if text:
                    found[wheel.sha256] = text
                    progress(len(text))
        return found

    def _one(self, wheel: Wheel) -> str:
        kept = self._folder / wheel.sha256
        with suppress(OSError):
            return kept.read_text("utf-8")
        if self._stop.is_set() or not wheel.url.startswith(("http:", "https:")):
            return ""
        text = self._fetched(wheel)
        stated = _NAME.search(text)
        if stated is None or re.sub(r"[-_.]+", "-", stated[1]).lower() != wheel.name:
            return ""  # a page that says there is nothing, with a status that says there is
        kept.parent.mkdir(parents=True, exist_ok=True)
        growing = kept.with_suffix(".partial")
        growing.write_text(text, "utf-8")
        growing.replace(kept)
        return text

    def _fetched(self, wheel: Wheel) -> str:
        url = self._sources.authorised(f"{wheel.url}.metadata")
        try:
            with self._session.get(url, stream=True, timeout=self._sources.timeout) as answer:
                data = b""
                for piece in answer.iter_content(1 << 16) if answer.ok else ():
                    data += piece
                    if len(data) > _LARGEST:
                        return ""
        except (requests.RequestException, OSError):
            self._stop.set()
            return ""
        return data.decode("utf-8", "replace")
