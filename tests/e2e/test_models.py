"""The real server with two models and an adapter: what is carried is what answers."""

import json
import time
import urllib.request

import pytest

from bundlectl import apikey
from bundlectl.layout import Layout
from bundler import tinymodel
from manifests.audit import audit
from tests.support import lora, small
from tests.support.load import load
from tests.support.scratch import scratch

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def host(demo, tmp_path_factory):
    """A prefix where the first of two models serves, with an adapter. The demo filled the cache."""
    with scratch(tmp_path_factory, "models") as root:
        tinymodel.make(root / "tiny-two", seed=2)
        adapter = lora.make(root / "poet", rank=4)
        words = ["--gpu", "cpu", "--channel", "host", "--output", str(root / "media")]
        words += ["--model", str(demo[1] / "tiny-qwen3.5"), "--model", str(root / "tiny-two")]
        done = small.bundle("create", *words, "--lora", f"{adapter}=poet")
        assert done.returncode == 0, done.stderr
        (media,) = (root / "media").iterdir()
        prefix = root / "host"
        done = small.install(media, "--prefix", str(prefix), "--port", str(small.free_port()))
        assert done.returncode == 0, done.stderr
        yield prefix
        small.control(prefix, "stop")


def served(prefix):
    status = small.control(prefix, "status", "--json")
    assert status.returncode == 0, status.stderr
    return json.loads(status.stdout)


def asked(prefix, path, question=None):
    """A request to the server, with its key."""
    request = urllib.request.Request(
        served(prefix)["url"] + path,
        data=None if question is None else json.dumps(question).encode(),
        headers={
            "Authorization": f"Bearer {apikey.read(Layout(prefix).api_key)}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def answer(prefix, model):
    question = {"model": model, "prompt": "Hello", "max_tokens": 24, "temperature": 0}
    return asked(prefix, "/v1/completions", question)["choices"][0]["text"]


def test_models_and_adapter_answer_and_use_switches(host):
    assert served(host)["model"] == "tiny-qwen3.5"
    assert {model["id"] for model in asked(host, "/v1/models")["data"]} == {"tiny-qwen3.5", "poet"}
    first = answer(host, "tiny-qwen3.5")
    assert answer(host, "poet") != first  # the adapter's weights are at work
    assert answer(host, "tiny-qwen3.5") == first

    done = small.control(host, "use", "tiny-two")
    assert done.returncode == 0, done.stderr
    assert served(host)["model"] == "tiny-two"
    assert {model["id"] for model in asked(host, "/v1/models")["data"]} == {"tiny-two"}
    assert answer(host, "tiny-two") != first
    assert audit(host).intact


def test_a_switch_under_load_loses_no_request(host):
    """The two models under one name, asked all the time, with and without streams."""
    settings = host / "etc/serve.toml"
    settings.write_text(settings.read_text().replace('_model_name = ""', '_model_name = "llm"'))
    done = small.control(host, "restart")
    assert done.returncode == 0, done.stderr
    key, url = apikey.read(Layout(host).api_key), served(host)["url"]
    messages = [{"role": "user", "content": "Hello"}]
    for words in (("tiny-qwen3.5",), ("tiny-two", "--stop-first")):
        # With pauses: on a processor, a server that starts shares its cores with one that answers.
        with load(url, key, "llm", 1, 2.0, messages=messages, max_tokens=64) as clients:
            while clients.total < 3:
                time.sleep(0.1)
            done = small.control(host, "use", *words)
            assert done.returncode == 0, done.stderr
            before = clients.total
            while clients.total < before + 3 and not clients.failures:
                time.sleep(0.1)
        print(f"use {' '.join(words)}: {clients.summary()}")
        assert clients.failures == []
