"""Downloads into the store: parallel, resumable, hashed in the stream that is kept."""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import requests

from manifests import digests
from manifests.errors import SourceError, from_oserror
from manifests.lock import Wheel
from manifests.names import public_url
from wheelhouse.index import WAYS_OUT, Index, reason
from wheelhouse.sources import Sources, host, local_path
from wheelhouse.store import Partial, Progress, Store, silent

#: Measured: 4 fill 400 MB/s from a near server; far ones give a connection less.
CONNECTIONS = 8
#: Transfers that break off are continued after these waits, in seconds.
_WAITS = (1.0, 3.0, 9.0)


@dataclass(frozen=True)
class Wanted:
    """One file to have. `url` as a lock holds it: public, or `file:NAME` from a local source."""

    name: str  # what a person calls it, usually the file name
    url: str
    sha256: str
    size: int = 0  # bytes, for the message; 0 where unknown
    project: str = ""  # where an index is to be asked for a `file:NAME`


def wanted(wheel: Wheel) -> Wanted:
    """A wheel of a lock, to be fetched."""
    return Wanted(wheel.filename, wheel.url, wheel.sha256, wheel.size, project=wheel.name)


class _Stopped(Exception):
    """Another transfer failed, or the user gave up."""


class _StalePartial(Exception):
    """A continued transfer did not give the pinned bytes."""


class Fetcher:
    """Brings files from the sources into a store."""

    def __init__(
        self,
        sources: Sources,
        store: Store,
        *,
        offline: bool = False,
        waits: Sequence[float] = _WAITS,
    ) -> None:
        self._sources = sources
        self._store = store
        self._offline = offline
        self._waits = waits
        self._session = sources.session()
        self._index = Index(sources)
        self._stop = threading.Event()

    def fetch(self, files: Iterable[Wanted], progress: Progress = silent) -> None:
        """Have every file in the store.

        `progress` hears of bytes as they arrive, those already there included, from one thread at
        a time; a transfer that starts anew takes its bytes back with a negative count.

        Raises SourceError naming what can't be had, IntegrityError where a source's bytes are not
        the pinned ones. What was transferred is kept: the next run continues.
        """
        items = list({item.sha256: item for item in files}.values())
        missing = [
            item for item in items if not self._store.usable(item.sha256, item.name, item.size)
        ]
        if self._offline and missing:
            raise SourceError(
                f"--offline, and {len(missing)} files are not in the cache",
                findings=[item.name for item in missing[:20]],
                mend="run once without --offline",
            )
        told = _one_at_a_time(progress)
        for item in items:
            if item not in missing:
                told(self._store.path(item.sha256).stat().st_size)
        self._all(missing, told)

    def _all(self, items: Sequence[Wanted], progress: Progress) -> None:
        self._stop.clear()
        # The largest first: begun last, it would be waited for alone.
        items = sorted(items, key=lambda item: item.size, reverse=True)
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            transfers = [pool.submit(self._one, item, progress) for item in items]
            try:
                for transfer in as_completed(transfers):
                    transfer.result()
            except BaseException:
                # Ctrl-C included: without this the pool would end every transfer first.
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _one(self, item: Wanted, progress: Progress) -> None:
        path = self._local(item)
        if path is not None:
            self._copy(item, path, progress)
            return
        try:
            self._download(item, progress)
        except _StalePartial:
            self._download(item, progress)

    def _local(self, item: Wanted) -> Path | None:
        """The file of a local source; None where the item is remote.

        Raises SourceError where no local source has it.
        """
        if not item.url.startswith("file:"):
            return local_path(item.url)
        for place in self._sources.find_links:
            folder = local_path(place)
            if folder is not None and (folder / item.name).is_file():
                return folder / item.name
        if item.project:
            for link in self._index.files(item.project):
                if link.filename == item.name and link.local is not None:
                    return link.local
        raise SourceError(
            f"{item.name} is in none of the configured folders",
            why="it was taken from a local folder when the lock was made",
            mend="name the folder that has it with --find-links",
        )

    def _copy(self, item: Wanted, path: Path, progress: Progress) -> None:
        with self._store.partial(item.sha256, f"{item.name} from {path.parent}") as partial:
            if partial is None:
                return
            partial.restart()
            try:
                with path.open("rb", buffering=0) as handle:
                    for view in digests.chunks(handle):
                        self._check_stop()
                        partial.write(view)
                        progress(len(view))
            except OSError as error:
                raise from_oserror(error, f"copying {item.name}", error.filename) from error

    def _download(self, item: Wanted, progress: Progress) -> None:
        with self._store.partial(item.sha256, f"{item.name} from {host(item.url)}") as partial:
            if partial is None:
                return
            resumed = partial.size
            progress(resumed)
            for wait in (*self._waits, None):
                try:
                    self._transfer(item, partial, progress)
                    break
                except requests.RequestException as error:
                    if wait is None:
                        raise SourceError(
                            f"{item.name}: the transfer from {host(item.url)} failed",
                            why=reason(error),
                            mend=f"run the command again, it continues; or {WAYS_OUT}",
                        ) from None
                    if self._stop.wait(wait):
                        raise _Stopped from None
            if resumed and not partial.matches():
                # What an earlier run left may be at fault, not the source: once more, from zero.
                progress(-partial.size)
                partial.restart()
                raise _StalePartial

    def _transfer(self, item: Wanted, partial: Partial, progress: Progress) -> None:
        headers = {"Range": f"bytes={partial.size}-"} if partial.size else {}
        with self._session.get(
            self._sources.authorised(item.url),
            headers=headers,
            stream=True,
            timeout=self._sources.timeout,
        ) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                # Nothing after our last byte: it is complete, or was never a part of this file.
                return
            if not response.ok:
                raise _refused(item, response)
            if response.status_code != requests.codes.partial_content and partial.size:
                progress(-partial.size)
                partial.restart()
            for data in response.iter_content(digests.CHUNK):
                self._check_stop()
                partial.write(data)
                progress(len(data))

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise _Stopped


def _refused(item: Wanted, response: requests.Response) -> SourceError:
    code = response.status_code
    return SourceError(
        f"{item.name}: {host(item.url)} answers {code} {response.reason}",
        why=public_url(item.url),
        mend="check the credentials for that index (~/.netrc, or in the index URL)"
        if code in (401, 403)
        else WAYS_OUT,
    )


def _one_at_a_time(progress: Progress) -> Callable[[int], None]:
    lock = threading.Lock()

    def told(count: int) -> None:
        with lock:
            progress(count)

    return told
