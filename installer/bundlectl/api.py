"""The few calls of the server's HTTP interface that bundlectl makes. Never through a proxy."""

import http.client
import json
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from typing import Any

#: Bytes of an answer that are read; a server that sends more is not the one meant.
_LONGEST_ANSWER = 16 << 20


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


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """The key must not follow a redirect to another host."""

    def redirect_request(self, *_args: Any, **_named: Any) -> None:
        """Treat a redirect as the answer."""
        return


# ProxyHandler({}) takes the place of the one that reads the environment's proxy variables.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())


@dataclass(frozen=True)
class Client:
    """A server, by the base of its addresses, and its key."""

    base_url: str
    api_key: str = field(default="", repr=False)

    def get(self, path: str, timeout: float) -> bytes:
        """The body at a path.

        Raises Unreachable, Refused.
        """
        return self._send(urllib.request.Request(self.base_url + path), timeout)  # noqa: S310 - own URL

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
        request = urllib.request.Request(  # noqa: S310 - own URL
            f"{self.base_url}/v1/chat/completions",
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        return parse_answer(_json(self._send(request, timeout)))

    def _send(self, request: urllib.request.Request, timeout: float) -> bytes:
        if self.api_key:
            request.add_header("Authorization", f"Bearer {self.api_key}")
        try:
            with _OPENER.open(request, timeout=timeout) as response:
                body: bytes = response.read(_LONGEST_ANSWER)
                return body
        except urllib.error.HTTPError as error:
            with error:
                raise Refused(error.code, _beginning(error)) from None
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(str(error)) from None


def _beginning(error: urllib.error.HTTPError) -> str:
    try:
        return error.read(2000).decode("utf-8", "replace").strip()
    except (OSError, http.client.HTTPException):
        return ""


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
