"""Bytes from a Hub into the store: hashed as they stream, continued after a break, tried again."""

import io
import re
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from threading import Event
from typing import Any, NoReturn, Protocol
from urllib.parse import urlsplit

from huggingface_hub import get_session
from huggingface_hub.errors import OfflineModeIsEnabled

from bundler.models.transport import ATTEMPTS, PASSING, TRANSPORT, denied, wait
from manifests import digests
from manifests.errors import IntegrityError, SourceError, from_oserror
from manifests.impostors import SNIFFED, sniff
from manifests.lock import ModelFile
from manifests.names import public_url
from wheelhouse.store import Progress, Store, silent

#: Largest file outside LFS that is taken into memory. A Hub refuses to keep one above 10 MiB there.
SMALL = 64 << 20
_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


@dataclass(frozen=True)
class Remote:
    """A file on a Hub."""

    file: ModelFile
    url: str
    headers: Callable[[], dict[str, str]]  # with the token, made for each request
    repository: str
    timeout: float  # seconds without a byte
    pause: float  # seconds before the first repetition


class Sink(Protocol):
    """What is being filled: a file's first `size` bytes."""

    size: int

    def write(self, data: bytes) -> None:
        """Append bytes."""
        ...

    def restart(self) -> None:
        """Throw away what is there."""
        ...


class _Buffer:
    """A sink in memory."""

    def __init__(self) -> None:
        self.data = b""
        self.size = 0

    def write(self, data: bytes) -> None:
        self.data += data
        self.size = len(self.data)

    def restart(self) -> None:
        self.data, self.size = b"", 0


class _PassingError(Exception):
    """A failure that may be gone at the next attempt."""

    def __init__(self, why: str, retry_after: str = "") -> None:
        super().__init__(why)
        self.retry_after = retry_after


def download(remote: Remote, store: Store, progress: Progress, stop: Event) -> None:
    """Put a file whose sha256 is known into the store; a partial one is continued.

    Raises IntegrityError where the bytes differ from the published digest twice, SourceError,
    FilesystemError; CancelledError once `stop` is set, which leaves what came so far.
    """
    file = remote.file
    with store.partial(file.sha256, file.path) as partial:
        if partial is None:
            progress(file.size)
            return
        progress(partial.size)
        for last in (False, True):
            _fill(remote, partial, progress, stop)
            if partial.matches():
                return
            found = partial.hexdigest()
            progress(-partial.size)
            partial.restart()
            if last:
                raise _differs(remote, f"sha256 {file.sha256}", found)


def read_small(remote: Remote, store: Store) -> str:
    """Put a file of which only the git blob id is known, or nothing, into the store; its sha256.

    Raises as `download` does.
    """
    file = remote.file
    if file.size > SMALL:
        raise SourceError(
            f"{file.path}: the Hub publishes no sha256 of its {file.size} bytes",
            why="nothing would tell the right bytes from wrong ones",
            mend="use another mirror (HF_ENDPOINT), or download the model and name its folder: "
            "its digests are computed then, and the bundle says so",
        )
    found = ""
    for _ in range(2):
        buffer = _Buffer()
        _fill(remote, buffer, silent, Event())
        hasher = digests.git_blob(file.size)
        hasher.update(buffer.data)
        found = hasher.hexdigest()
        if found == file.git_blob or not file.git_blob:
            return store.adopt(io.BytesIO(buffer.data))
    raise _differs(remote, f"git blob {file.git_blob}", found)


def _fill(remote: Remote, sink: Sink, progress: Progress, stop: Event) -> None:
    """Attempt after attempt, as long as they bring something or may bring something."""
    size, fruitless = remote.file.size, 0
    while sink.size < size:
        before, asked = sink.size, ""
        try:
            _attempt(remote, sink, progress, stop)
            continue
        except _PassingError as error:
            why, asked = str(error), error.retry_after
        except OfflineModeIsEnabled:
            raise SourceError(
                f"{remote.file.path}: HF_HUB_OFFLINE forbids fetching it",
                mend="unset HF_HUB_OFFLINE",
            ) from None
        except TRANSPORT as error:
            why = str(error) or type(error).__name__
        fruitless = 0 if sink.size > before else fruitless + 1
        if fruitless == ATTEMPTS:
            raise SourceError(
                f"{remote.file.path}: can't be fetched from {public_url(remote.url)}: {why}",
                why=f"{ATTEMPTS} attempts brought nothing; {sink.size} of {size} bytes are here",
                mend="run the same command again later: it continues where it stopped",
            )
        wait(fruitless, remote.pause, asked, stop)


def _attempt(remote: Remote, sink: Sink, progress: Progress, stop: Event) -> None:
    file = remote.file
    headers = {**remote.headers(), "Accept-Encoding": "identity"}
    if sink.size:
        headers["Range"] = f"bytes={sink.size}-"
    session = get_session()
    with session.stream("GET", remote.url, headers=headers, timeout=remote.timeout) as response:
        _check_status(remote, response)
        begin = _begin(response, sink, progress)
        start = b""
        # As they come: collected into larger ones, a break would lose what was collected.
        chunks = response.iter_bytes()
        announced = _announced(response, begin)
        if announced not in (None, file.size):
            _wrong_length(remote, next(chunks, b""), f"{announced}")
        # Only now: a page in the place of the file is no reason to lose what is here.
        if begin != sink.size:
            progress(-sink.size)
            sink.restart()
        for chunk in chunks:
            if stop.is_set():
                raise CancelledError
            start = start or chunk[:SNIFFED]
            if sink.size + len(chunk) > file.size:
                progress(-sink.size)
                sink.restart()
                _wrong_length(remote, start, f"more than {file.size}")
            _write(sink, chunk, file.path)
            progress(len(chunk))
    if (came := sink.size) < file.size:
        if begin == 0 and start and sniff(start[:SNIFFED]):
            # Continuing after a page's bytes would bring the whole file for nothing.
            progress(-came)
            sink.restart()
        _wrong_length(remote, start, f"{came}")


def _check_status(remote: Remote, response: Any) -> None:
    status = response.status_code
    if status in (200, 206, 416):
        return
    path, url = remote.file.path, public_url(remote.url)
    if status in PASSING:
        raise _PassingError(f"the Hub answered {status}", response.headers.get("Retry-After", ""))
    missing = response.headers.get("X-Error-Code") == "RepoNotFound"
    if status in (401, 403) and not missing:
        raise denied(remote.repository, f"{urlsplit(url).scheme}://{urlsplit(url).netloc}", status)
    if missing or status in (404, 410):
        raise SourceError(
            f"{path}: no longer on the Hub at the commit that was pinned ({url})",
            why="the file or the commit was removed, or the repository was renamed or made private",
            mend="lock the model again with `bundle lock`, or name another revision; for a private "
            "one log in with `hf auth login`",
        )
    raise SourceError(f"{path}: the Hub answered {status} ({url})")


def _begin(response: Any, sink: Sink, progress: Progress) -> int:
    """Where in the file the body begins: where the sink ends, or at 0."""
    if response.status_code == 200:
        return 0
    if response.status_code == 206:
        found = _CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
        if found and int(found[1]) == sink.size:
            return sink.size
    progress(-sink.size)
    sink.restart()
    raise _PassingError(f"the Hub answered {response.status_code} with another range")


def _announced(response: Any, begin: int) -> int | None:
    """The file's size by this answer, if it says one."""
    length = response.headers.get("Content-Length", "")
    if not length.isdigit() or response.headers.get("Content-Encoding", "identity") != "identity":
        return None
    return begin + int(length)


def _wrong_length(remote: Remote, start: bytes, found: str) -> NoReturn:
    file = remote.file
    if impostor := sniff(start[:SNIFFED]) if start else None:
        raise SourceError(
            f"{file.path}: what came {impostor.what} ({impostor.kind})",
            why=f"{public_url(remote.url)} answered with {found} bytes, {file.size} are published",
            mend=impostor.mend,
        )
    raise _PassingError(f"{found} bytes came of {file.size}")


def _write(sink: Sink, chunk: bytes, name: str) -> None:
    # Told apart from OSErrors of the connection here, because those are tried again.
    try:
        sink.write(chunk)
    except OSError as error:
        raise from_oserror(error, f"storing {name}") from error


def _differs(remote: Remote, published: str, found: str) -> IntegrityError:
    return IntegrityError(
        f"{remote.file.path}: pinned as {published}, what came has {found}",
        why=f"{public_url(remote.url)} or something in between altered it; it was fetched twice",
        mend="try again from another network or mirror (HF_ENDPOINT); if the Hub itself changed, "
        "lock the model again with `bundle lock`",
    )
