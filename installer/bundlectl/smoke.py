"""Is the server up? A completion says so: /health answers 200 while the first chat dies."""

import contextlib
import http
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bundlectl.api import Answer, Client, Refused, Unreachable
from bundlectl.serverlog import Watch, redact, telling_lines
from manifests.errors import ServerError

T = TypeVar("T")

_POLL = 0.25  # seconds
_SHORT = 5.0  # seconds for an answer that costs the server nothing
_FEW_TOKENS = 8
_LONGEST_DETAIL = 500  # characters of a refusal
_TAG = re.compile(r"</?think>")


@dataclass(frozen=True)
class Ready:
    """A server that has answered."""

    seconds: float  # from the first look to the completion
    answer: Answer
    listening: float = 0.0  # seconds of these until it answered /health


@dataclass(frozen=True)
class Finding:
    """Something wrong with a completion that came with status 200."""

    ident: str
    text: str
    mend: str


@dataclass(frozen=True)
class Switch:
    """Proof whether thinking can be switched: the prompts that the template made."""

    on: Answer
    off: Answer

    @property
    def effective(self) -> bool:
        """Whether the two prompts differ, by their tokens or at least by their number."""
        if self.on.prompt_token_ids and self.off.prompt_token_ids:
            return self.on.prompt_token_ids != self.off.prompt_token_ids
        return self.on.prompt_tokens != self.off.prompt_tokens


def ask(
    base_url: str,
    api_key: str,
    model: str,
    text: str,
    thinking: bool | None = None,
    max_tokens: int = 64,
    timeout: float = 120.0,
) -> Answer:
    """One chat completion; `timeout` in seconds, `thinking` None is the server's default.

    Raises ServerError.
    """
    try:
        return Client(base_url, api_key).chat(model, text, thinking, max_tokens, timeout)
    except Unreachable as error:
        raise ServerError(
            f"{base_url} does not answer: {error}", mend="run: bundlectl status"
        ) from None
    except Refused as error:
        raise ServerError(
            f"{base_url} refused a chat completion: HTTP {error.status}",
            findings=_lines(error.body, api_key),
            mend="run: bundlectl logs",
        ) from None


def compare_thinking(base_url: str, api_key: str, model: str, timeout: float = 120.0) -> Switch:
    """Ask the same with thinking on and off.

    Raises ServerError.
    """
    on, off = (ask(base_url, api_key, model, "Hello", way, 1, timeout) for way in (True, False))
    return Switch(on, off)


def judge(answer: Answer, thinking: bool | None) -> tuple[Finding, ...]:
    """What is wrong with a completion although its status was 200."""
    findings = []
    if _TAG.search(answer.content):
        findings.append(
            Finding(
                "tags-in-content",
                "the answer holds the tags of thinking",
                "start the server with the reasoning parser of this model family",
            )
        )
    if thinking is False and answer.reasoning:
        findings.append(
            Finding(
                "reasoning-while-off",
                "thinking was off, yet there is reasoning",
                "the reasoning parser or the chat template does not fit the model",
            )
        )
    if thinking is False and not answer.content.strip():
        findings.append(
            Finding(
                "empty-content",
                "thinking was off, yet the answer is empty",
                "the reasoning parser does not fit the model",
            )
        )
    return tuple(findings)


def wait_until_ready(
    base_url: str,
    api_key: str,
    model: str,
    alive: Callable[[], bool],
    log: Path,
    deadline: float,
    progress: Callable[[float], object] = lambda _: None,
    new_log: bool = True,
) -> Ready:
    """Wait for health, the model's name, and one completion.

    `deadline` is the number of seconds that all this may take; `progress` is told the seconds
    gone by. The log began with this start, unless `new_log` is False: what was written up to now
    may be anybody's words then. Raises ServerError as soon as the server is dead or its engine has
    failed, with the telling lines of its log.
    """
    begun = time.monotonic()
    watch = Watch(log, new_log)
    trial = _Trial(Client(base_url, api_key), model, begun + deadline)
    try:
        while True:
            with contextlib.suppress(TimeoutError):
                trial.outcome.exception(_POLL)
            seconds = time.monotonic() - begun
            progress(seconds)
            # The server first: what answers while ours is dead is another one on the same port.
            problem = _problem(alive, watch) or trial.problem()
            if problem is None and trial.outcome.done():
                return Ready(seconds, trial.outcome.result(), trial.listening - begun)
            if problem is None and seconds >= deadline:
                problem = _TOO_LATE
            if problem is not None:
                raise problem.error(log, api_key)
    finally:
        trial.end()


@dataclass(frozen=True)
class _Problem:
    """Why a wait is over without success."""

    what: str
    mend: str
    detail: str = ""

    def error(self, log: Path, api_key: str) -> ServerError:
        lines = (*_lines(self.detail, api_key), *telling_lines(log, (api_key,)))
        return ServerError(self.what, findings=lines, why=f"the log is {log}", mend=self.mend)


_TOO_LATE = _Problem(
    "the server did not answer in time",
    "set a larger start_timeout in etc/serve.toml (the first start compiles), or look into the log",
)
_AGAIN = "correct what the log names, then start it again"
_DIED = _Problem("the server ended before it answered", _AGAIN)
_ENGINE = _Problem("the server's engine did not come up", _AGAIN)


def _problem(alive: Callable[[], bool], watch: Watch) -> _Problem | None:
    if not alive():
        return _DIED
    return _ENGINE if watch.engine_failed() else None


def _lines(text: str, api_key: str) -> tuple[str, ...]:
    return (redact(text, (api_key,))[:_LONGEST_DETAIL],) if text else ()


class _Trial:
    """The questions, asked in a thread of their own: a server that hangs must not hold us."""

    def __init__(self, client: Client, model: str, deadline: float) -> None:
        self._client = client
        self._model = model
        self._deadline = deadline  # of time.monotonic()
        self._ended = threading.Event()
        self.listening = 0.0  # of time.monotonic(), since when it answers /health
        self.outcome: Future[Answer] = Future()
        threading.Thread(target=self._run, daemon=True).start()

    def end(self) -> None:
        """Ask no more."""
        self._ended.set()

    def problem(self) -> _Problem | None:
        """What the server refused, if it did."""
        error = self.outcome.exception() if self.outcome.done() else None
        if error is None:
            return None
        if not isinstance(error, Refused):
            raise error
        if error.status in (401, 403, 404):
            mend = "another server may hold the port: choose another port in etc/serve.toml"
        else:
            mend = _AGAIN
        what = f"the server refused its first request: HTTP {error.status}"
        return _Problem(what, mend, error.body)

    def _run(self) -> None:
        try:
            self.outcome.set_result(self._questions())
        except BaseException as error:  # the waiting thread raises it
            self.outcome.set_exception(error)

    def _questions(self) -> Answer:
        self._patiently(lambda: self._client.get("/health", _SHORT))
        self.listening = time.monotonic()
        models = self._patiently(lambda: self._client.models(_SHORT))
        if self._model not in models:
            raise Refused(404, f"it serves {', '.join(models) or 'nothing'}, not {self._model}")
        return self._patiently(
            lambda: self._client.chat(self._model, "Hello", None, _FEW_TOKENS, self._left())
        )

    def _left(self) -> float:
        return max(_SHORT, self._deadline - time.monotonic())

    def _patiently(self, question: Callable[[], T]) -> T:
        """Ask until there is an answer; 503 is what a server says that isn't ready."""
        while True:
            try:
                return question()
            except Unreachable as error:
                last: Exception = error
            except Refused as error:
                if error.status != http.HTTPStatus.SERVICE_UNAVAILABLE:
                    raise
                last = error
            if self._ended.wait(_POLL):
                raise last
