"""The few calls of the server's HTTP interface that bundlectl makes. Never through a proxy."""

import http.client
import json
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

#: Bytes of an answer that are read; a server that sends more is not the one meant.
_LONGEST_ANSWER = 16 << 20
_LONGEST_REFUSAL = 2000  # bytes
_UNIX = "unix:"


class Unreachable(Exception):
    """No HTTP answer: nothing listens, the connection broke, or time ran out."""


class Refused(Exception):
    """An HTTP answer that is not 200; `status` and the start of its `body`, as text."""

    def __init__(self, status: int, body: str) -> None:
        super().__init__(f"HTTP {status}: {body}")
        self.status = status
        self.body = body


@dataclass(frozen=True)
class Answer:
    """One chat completion."""

    content: str
    reasoning: str
    prompt_tokens: int
    completion_tokens: int
    prompt_token_ids: tuple[int, ...] = ()
    finish_reason: str = ""


class _UnixConnection(http.client.HTTPConnection):
    """HTTP to a Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Open the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def at_socket(path: str) -> str:
    """The base of the addresses of a server that listens on a Unix socket."""
    return _UNIX + path


@dataclass(frozen=True)
class Client:
    """A server, by the base of its addresses, and its key."""

    base_url: str
    api_key: str = field(default="", repr=False)

    def get(self, path: str, timeout: float) -> bytes:
        """The body at a path.

        Raises Unreachable, Refused.
        """
        return self._send("GET", path, None, timeout)

    def models(self, timeout: float) -> tuple[str, ...]:
        """Names of the models that are served.

        Raises Unreachable, Refused.
        """
        data = _json(self.get("/v1/models", timeout))
        try:
            return tuple(str(item["id"]) for item in data["data"])
        except (KeyError, TypeError):
            raise Refused(200, f"not a list of models: {data!r:.200}") from None

    def chat(
        self, model: str, text: str, thinking: bool | None, max_tokens: int, timeout: float
    ) -> Answer:
        """One completion without randomness; `thinking` None leaves it to the server's default.

        Raises Unreachable, Refused.
        """
        body: dict[str, Any] = {
            "model": model,
            "messages": [{"role": "user", "content": text}],
            "max_tokens": max_tokens,
            "temperature": 0,
            "return_token_ids": True,
        }
        if thinking is not None:
            body["chat_template_kwargs"] = {"enable_thinking": thinking}
        return parse_answer(_json(self._send("POST", "/v1/chat/completions", body, timeout)))

    def _send(self, method: str, path: str, body: Any, timeout: float) -> bytes:
        headers = {"Connection": "close"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = self._connection(timeout)
        try:
            data = None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            if response.status == http.HTTPStatus.OK:
                return response.read(_LONGEST_ANSWER)
            # A redirect is refused like any other answer: the key must not follow it.
            beginning = response.read(_LONGEST_REFUSAL).decode("utf-8", "replace").strip()
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(str(error)) from None
        finally:
            connection.close()
        raise Refused(response.status, beginning)

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        if self.base_url.startswith(_UNIX):
            return _UnixConnection(self.base_url.removeprefix(_UNIX), timeout)
        place = urlsplit(self.base_url)
        return http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        raise Refused(200, f"not JSON: {body[:200]!r}") from None


def parse_answer(data: Any) -> Answer:
    """A chat completion's JSON. Newer servers name the reasoning field `reasoning`.

    Raises Refused where it is not one.
    """
    try:
        choice, usage = data["choices"][0], data["usage"]
        message = choice["message"]
        return Answer(
            content=message.get("content") or "",
            reasoning=message.get("reasoning") or message.get("reasoning_content") or "",
            prompt_tokens=int(usage["prompt_tokens"]),
            completion_tokens=int(usage.get("completion_tokens") or 0),
            prompt_token_ids=tuple(data.get("prompt_token_ids") or ()),
            finish_reason=choice.get("finish_reason") or "",
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise Refused(200, f"not a chat completion: {data!r:.200}") from None
