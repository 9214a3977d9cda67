"""The default for thinking, wherever it is set; and the curl line that is printed."""

import json
import shutil
import subprocess

import pytest

from tests.support.small import control, free_port, install
from tests.support.stub_vllm import PROMPT_TOKENS


def tokens(prefix, *words):
    """Prompt tokens of one question, as the server counts them."""
    return json.loads(control(prefix, "ask", "Hello", *words, "--json").stdout)["prompt_tokens"]


@pytest.fixture
def host(tmp_path):
    yield tmp_path / "host"
    control(tmp_path / "host", "stop")


def test_the_default_is_made_at_create_and_a_request_can_differ(workplace, host, tmp_path):
    folder = workplace.create(tmp_path / "media", "--thinking", "off", channel="host")
    done = install(folder, "--prefix", str(host), "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    assert tokens(host) == PROMPT_TOKENS[False]
    assert tokens(host, "--thinking", "on") == PROMPT_TOKENS[True]


@pytest.mark.e2e
def test_the_operator_decides_at_install_and_in_the_settings(small_bundle, host):
    words = ("--prefix", str(host), "--port", str(free_port()), "--thinking", "off")
    done = install(small_bundle, *words)
    assert done.returncode == 0, done.stderr
    assert tokens(host) == PROMPT_TOKENS[False]
    settings = host / "etc/serve.toml"
    settings.write_text(settings.read_text().replace("thinking = false", "thinking = true"))
    assert control(host, "restart").returncode == 0
    assert tokens(host) == PROMPT_TOKENS[True]


@pytest.mark.skipif(shutil.which("curl") is None, reason="this machine lacks curl")
def test_the_curl_line_that_is_printed_talks_to_the_server(small_bundle, host):
    done = install(small_bundle, "--prefix", str(host), "--port", str(free_port()))
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("ask it:"))
    words = ["sh", "-c", line.removeprefix("ask it:").strip()]
    answered = subprocess.run(words, capture_output=True, text=True, check=True)
    assert json.loads(answered.stdout)["usage"]["prompt_tokens"] == PROMPT_TOKENS[True]
