"""What a server in service is asked: thinking on and off, a stream, the metrics, without a key."""

import asyncio
import json
from typing import Any

from tests.gpu.isolated.installed import Site
from tests.gpu.isolated.load import Target, stream


def ask_all(site: Site, model: str) -> dict[str, Any]:
    """Everything that is asked of a server, with `wrong`: what was not as it has to be."""
    found = {
        "thinking_on": chat(site, model, thinking=True),
        "thinking_off": chat(site, model, thinking=False),
        "stream": streamed(site, model),
        "metrics": metrics(site),
        "without_key": site.http("GET", "/v1/models", key=False)[0],
        "status": site.control("status", limit=30).answer,
    }
    return {**found, "wrong": wrong(found)}


def chat(site: Site, model: str, *, thinking: bool) -> dict[str, Any]:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "What crosses an air gap?"}],
        "max_tokens": 24,
        "temperature": 0,
        "chat_template_kwargs": {"enable_thinking": thinking},
    }
    status, text, seconds = site.http("POST", "/v1/chat/completions", body)
    record: dict[str, Any] = {"status": status, "seconds": seconds}
    if status != 200:
        return {**record, "said": text[:500]}
    answer = json.loads(text)
    message = answer["choices"][0]["message"]
    return {
        **record,
        "prompt_tokens": answer["usage"]["prompt_tokens"],
        "completion_tokens": answer["usage"]["completion_tokens"],
        "content": (message.get("content") or "")[:80],
        "reasoning": (message.get("reasoning") or message.get("reasoning_content") or "")[:80],
    }


def streamed(site: Site, model: str) -> dict[str, Any]:
    target = Target("127.0.0.1", site.port, model, site.key)
    try:
        found = asyncio.run(asyncio.wait_for(stream(target, 0, 64, 32), site.clock.left(60)))
    except (OSError, ValueError, TimeoutError) as error:
        return {"tokens": 0, "said": str(error)[:500]}
    return {"tokens": found.tokens, "first": round(found.first, 4), "whole": round(found.whole, 4)}


def metrics(site: Site) -> dict[str, int]:
    status, text, _ = site.http("GET", "/metrics", key=False)
    return {"status": status, "lines": sum(line.startswith("vllm") for line in text.splitlines())}


def wrong(found: dict[str, Any]) -> list[str]:
    """Sentences; none where all is well."""
    on, off = found["thinking_on"], found["thinking_off"]
    tests = {
        "a chat with thinking on failed": on["status"] == 200,
        "a chat with thinking off failed": off["status"] == 200,
        # The closed think block makes the prompt longer.
        "the switch did not reach the template": on.get("prompt_tokens")
        != off.get("prompt_tokens"),
        "the stream did not bring 32 tokens": found["stream"]["tokens"] == 32,
        "/metrics holds no line of vLLM's": found["metrics"]["lines"] > 0,
        "/v1 answers without a key": found["without_key"] == 401,
        "status does not say that it runs": found["status"].get("running") is True,
    }
    return [sentence for sentence, right in tests.items() if not right]
