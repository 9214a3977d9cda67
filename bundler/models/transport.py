"""What the Hub's HTTP client may raise, in words; repetition with growing pauses.

huggingface_hub 1.x stands on httpx, 2.x on httpx2: their exceptions share no class, so the one in
use is taken from the client's own error class.
"""

from collections.abc import Callable
from threading import Event
from typing import TypeVar

from huggingface_hub.errors import HfHubHTTPError

from manifests.errors import SourceError
from manifests.names import public_url

T = TypeVar("T")

#: What a connection may raise: HTTPError of httpx or httpx2 (timeouts included), and the system.
TRANSPORT: tuple[type[Exception], ...] = (HfHubHTTPError.__mro__[1], OSError)
#: Times that one thing is tried without any progress.
ATTEMPTS = 5
#: The longest pause, in seconds, even if the server asks for more.
LONGEST = 60.0
#: Answers that may be different next time (RFC 9110 §15; 429 is RFC 6585).
PASSING = frozenset({408, 429, 500, 502, 503, 504})


def status_of(error: Exception) -> int:
    """The HTTP status that caused a client's error; 0 where there was no answer."""
    response = getattr(error, "response", None)
    return int(getattr(response, "status_code", 0) or 0)


def with_retries(attempt: Callable[[], T], pause: float) -> T:
    """The result of `attempt`, repeated while it fails for a reason that may pass."""
    for number in range(ATTEMPTS):
        try:
            return attempt()
        except TRANSPORT as error:
            status = status_of(error)
            if number == ATTEMPTS - 1 or (status and status not in PASSING):
                raise
        wait(number, pause)
    raise AssertionError("the last attempt returns or raises")


def wait(number: int, pause: float, asked: str = "", stop: Event | None = None) -> None:
    """Wait before repetition `number` (from 0): `pause` seconds doubled each time, or as asked.

    `asked` is a Retry-After header; dates in it are ignored. Ends early when `stop` is set.
    """
    seconds = float(asked) if asked.isdigit() else pause * 2**number
    (stop or Event()).wait(min(seconds, LONGEST))


def unreachable(endpoint: str, why: str) -> SourceError:
    """The error for a Hub that does not answer as one."""
    return SourceError(
        f"the Hub at {public_url(endpoint)} can't be used: {why}",
        why="no connection, a proxy in between, or not the address of a Hub",
        mend="set HF_ENDPOINT to a mirror that you can reach, name a local folder as the model, "
        "or use --offline if everything was fetched before",
    )


def denied(repository: str, endpoint: str, status: int) -> SourceError:
    """The error for a model that needs an agreement or a token."""
    return SourceError(
        f"{repository}: access refused ({status})",
        why="the model is gated or private",
        mend=f"accept its conditions at {public_url(endpoint)}/{repository}, "
        "then log in with `hf auth login` or set HF_TOKEN",
    )
