import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bundlectl.api import Answer, Client, Refused, Unreachable, parse_answer
from bundlectl.serverlog import Watch, redact, telling_lines
from bundlectl.smoke import Switch, ask, compare_thinking, judge, wait_until_ready
from manifests.errors import ServerError

STUB = Path(__file__).with_name("stub_server.py")
KEY = "0123456789abcdef0123"


class Stub:
    """A real server process with a log, as a supervisor would have."""

    def __init__(self, folder, mode="ok", port=None, model="tiny"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = port or probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            words = [str(STUB), "--port", str(self.port), "--mode", mode, "--model", model]
            self.process = subprocess.Popen(
                [sys.executable, *words], env={"VLLM_API_KEY": KEY}, stdout=log, stderr=log
            )

    def alive(self):
        return self.process.poll() is None

    def wait(self, deadline=20.0, key=KEY, model="tiny", **named):
        return wait_until_ready(self.url, key, model, self.alive, self.log, deadline, **named)


@pytest.fixture
def serve(tmp_path):
    stubs = []

    def one(*args, **named):
        stubs.append(Stub(tmp_path, *args, **named))
        return stubs[-1]

    yield one
    for stub in stubs:
        stub.process.kill()
        stub.process.wait()


@pytest.mark.parametrize("mode", ["ok", "slow"])
def test_ready_is_an_answer(serve, mode):
    seconds = []
    ready = serve(mode).wait(progress=seconds.append)
    assert ready.answer.completion_tokens == 1
    assert 0 < ready.seconds < 20
    assert seconds == sorted(seconds)
    assert seconds[-1] <= ready.seconds


def test_proxies_of_the_environment_are_never_used(serve):
    stub = serve()
    stub.wait()
    nowhere = "http://127.0.0.1:9"
    proxies = dict.fromkeys(("http_proxy", "HTTP_PROXY", "all_proxy"), nowhere)
    python_path = ":".join(item for item in sys.path if item)
    environment = {"PYTHONPATH": python_path, **proxies}
    code = f"from bundlectl.smoke import ask; print(ask({stub.url!r}, {KEY!r}, 'tiny', 'x'))"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=60)
    plain = f"import urllib.request as u; u.urlopen({stub.url + '/health'!r}, timeout=9)"
    done = subprocess.run([sys.executable, "-c", plain], env=environment, capture_output=True)
    assert b"refused" in done.stderr  # the proxy variables do work


def failure(stub, **named):
    begun = time.monotonic()
    with pytest.raises(ServerError) as caught:
        stub.wait(**named)
    assert KEY not in caught.value.render()
    assert str(stub.log) in caught.value.why
    return caught.value, time.monotonic() - begun


def test_a_server_that_dies_is_noticed_at_once(serve):
    error, seconds = failure(serve("dies"))
    assert "ended before it answered" in error.what
    assert error.findings == ("ValueError: no such flag; key [removed]",)
    assert seconds < 10


def test_a_failed_engine_is_noticed_though_the_server_lives_on(serve):
    stub = serve("hangs")
    error, seconds = failure(stub)
    assert "engine did not come up" in error.what
    assert error.findings == ("ERROR EngineCore failed to start.",)
    assert stub.alive()
    assert seconds < 10


def test_healthy_is_not_ready(serve):
    """The trouble of a kernel that is compiled at the first request: /health says 200."""
    error, seconds = failure(serve("chat-500"))
    assert "HTTP 500" in error.what
    assert "engine dead, key [removed]" in error.findings[0]
    assert "ninja" in error.findings[1]
    assert seconds < 10


def test_an_engine_that_dies_in_its_first_chat_does_not_hold_us(serve):
    error, seconds = failure(serve("engine-dies-in-chat"))
    assert "engine did not come up" in error.what
    assert seconds < 10


def test_a_mute_server_meets_the_deadline(serve):
    error, seconds = failure(serve("mute"), deadline=1.0)
    assert "in time" in error.what
    assert "start_timeout" in error.mend
    assert 1.0 <= seconds < 5


def test_text_that_is_not_json_is_no_answer(serve):
    error, _ = failure(serve("no-json"))
    assert "not JSON" in error.findings[0]


def test_another_server_on_the_port_is_not_ours(serve):
    stranger = serve(model="other")
    error, _ = failure(stranger)
    assert "it serves other, not tiny" in error.findings[0]
    assert "port" in error.mend


def test_another_key_on_the_port_is_not_ours(serve):
    error, _ = failure(serve(), key="another-key-of-ours")
    assert "HTTP 401" in error.what
    assert "port" in error.mend


def test_a_living_stranger_does_not_hide_that_ours_is_dead(serve, tmp_path):
    stranger = serve()
    stranger.wait()
    (tmp_path / "ours.log").write_text("OSError: [Errno 98] Address already in use\n")
    with pytest.raises(ServerError, match="ended before it answered") as caught:
        wait_until_ready(
            stranger.url, KEY, "tiny", lambda: False, tmp_path / "ours.log", deadline=5
        )
    assert "Address already in use" in caught.value.findings[0]


def test_ask_and_the_thinking_switch(serve):
    stub = serve()
    stub.wait()
    on = ask(stub.url, KEY, "tiny", "Hello", thinking=True)
    assert (on.content, on.reasoning, on.prompt_tokens) == ("", "Hm.", 4)
    assert ask(stub.url, KEY, "tiny", "Hello") == on  # the stub's default
    off = ask(stub.url, KEY, "tiny", "Hello", thinking=False)
    assert (off.content, off.reasoning, off.prompt_tokens) == ("Hi", "", 6)
    assert off.prompt_token_ids == (1, 2, 3, 4, 5, 6)
    switch = compare_thinking(stub.url, KEY, "tiny")
    assert switch == Switch(on, off)
    assert switch.effective


def test_ask_where_nothing_listens(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # bound, not listening: refused for certain
        url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        with pytest.raises(ServerError, match="does not answer") as caught:
            ask(url, KEY, "tiny", "Hello")
    assert "bundlectl status" in caught.value.mend


def test_ask_with_a_wrong_key(serve):
    stub = serve()
    stub.wait()
    with pytest.raises(ServerError, match="HTTP 401"):
        ask(stub.url, "wrong", "tiny", "Hello")


def test_a_redirect_is_not_followed_with_the_key(serve, tmp_path):
    code = (
        "import http.server as h\n"
        "class H(h.BaseHTTPRequestHandler):\n"
        "  def do_GET(self):\n"
        "    self.send_response(302); self.send_header('Location', 'http://127.0.0.1:9/')\n"
        "    self.send_header('Content-Length', '0'); self.end_headers()\n"
        "s = h.HTTPServer(('127.0.0.1', 0), H); print(s.server_port, flush=True)\n"
        "s.handle_request()\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=-1, stderr=-3) as server:
        port = int(server.stdout.readline())
        with pytest.raises(Refused, match="302"):
            Client(f"http://127.0.0.1:{port}", KEY).get("/health", 5)


def test_a_slow_answer_is_unreachable():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with pytest.raises(Unreachable):
            Client(f"http://127.0.0.1:{server.getsockname()[1]}").get("/health", 0.2)


def test_the_key_is_not_in_the_clients_text():
    assert KEY not in repr(Client("http://x", KEY))


def answer(content="Hi", reasoning="", tokens=4, ids=()):
    return Answer(content, reasoning, tokens, 1, ids)


@pytest.mark.parametrize(
    ("message", "thinking", "idents"),
    [
        ({"content": None, "reasoning": "Hi"}, False, ["reasoning-while-off", "empty-content"]),
        (
            {"content": "", "reasoning_content": "Hi"},
            False,
            ["reasoning-while-off", "empty-content"],
        ),
        ({"content": "<think></think>Hi"}, False, ["tags-in-content"]),
        ({"content": "Hm.</think>Hi"}, True, ["tags-in-content"]),
        ({"content": " \n"}, False, ["empty-content"]),
        ({"content": "Hi"}, False, []),
        ({"content": None, "reasoning": "Hm."}, True, []),  # cut off while thinking
        ({"content": "Hi", "reasoning": "Hm."}, True, []),
        ({"content": "Hi", "reasoning": "Hm."}, None, []),
    ],
)
def test_wrong_answers_with_status_200(message, thinking, idents):
    """Case B68."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    found = judge(parse_answer({"choices": [{"message": message}], "usage": usage}), thinking)
    assert [finding.ident for finding in found] == idents


@pytest.mark.parametrize(
    "data", [None, [], {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": None}]}]
)
def test_what_is_no_completion(data):
    with pytest.raises(Refused, match="not a chat completion"):
        parse_answer(data)


@pytest.mark.parametrize(
    ("on", "off", "effective"),
    [
        (answer(tokens=18), answer(tokens=22), True),
        (answer(tokens=18), answer(tokens=18), False),
        (answer(tokens=2, ids=(1, 2)), answer(tokens=2, ids=(1, 3)), True),
        (answer(tokens=2, ids=(1, 2)), answer(tokens=2, ids=(1, 2)), False),
    ],
)
def test_the_prompt_proves_the_switch(on, off, effective):
    assert Switch(on, off).effective is effective


def test_words_of_a_dead_engine_that_come_in_two_pieces(tmp_path):
    log = tmp_path / "log"
    watch = Watch(log)
    assert not watch.engine_failed()  # no file yet
    log.write_bytes(b"INFO x\nERROR EngineCore fai")
    assert not watch.engine_failed()
    with log.open("ab") as file:
        file.write(b"led to start.\n")
    assert watch.engine_failed()


def test_words_from_before_are_not_this_starts(tmp_path):
    """Of a server that runs already, they may be anybody's: a path that was logged, a prompt."""
    log = tmp_path / "log"
    log.write_bytes(b'INFO: "GET /v1/x?EngineDeadError HTTP/1.1" 404\n')
    watch = Watch(log, new=False)
    assert not watch.engine_failed()
    with log.open("ab") as file:
        file.write(b"ERROR EngineCore failed to start.\n")
    assert watch.engine_failed()
    assert Watch(log).engine_failed()
    assert not Watch(tmp_path / "none", new=False).engine_failed()


def test_a_server_that_runs_already_is_proved_whatever_its_log_says(serve):
    stub = serve()
    stub.wait()
    with stub.log.open("a") as log:
        log.write("EngineDeadError\n")
    assert stub.wait(new_log=False).answer.completion_tokens == 1
    with pytest.raises(ServerError, match="did not come up"):
        stub.wait()


def test_telling_lines(tmp_path):
    log = tmp_path / "log"
    assert telling_lines(log) == ()
    log.write_text("INFO a\n\nINFO b\n")
    assert telling_lines(log) == ("INFO a", "INFO b")
    lines = ["INFO start", *["ERROR the same"] * 50, "RuntimeError: é" + "x" * 1000, "INFO end"]
    log.write_bytes("\n".join(lines).encode() + b"\n\xff Killed\n")
    found = telling_lines(log)
    assert [line[:14] for line in found] == ["ERROR the same", "RuntimeError: ", "\ufffd Killed"]
    assert max(map(len, found)) == 300


def test_only_the_end_of_a_large_log_is_read(tmp_path):
    log = tmp_path / "log"
    log.write_text("OSError: early\n" + "INFO filler\n" * 50_000 + "OSError: late\n")
    assert telling_lines(log) == ("OSError: late",)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("key abcdef", "key [removed]"),
        ("hf_QRSTUVWXYZ x", "[removed] x"),
        ("Authorization: Bearer tok-en", "Authorization: [removed]"),
        ("http://me:pw@host/x", "http://[removed]@host/x"),
        ("shelf_life", "shelf_life"),
    ],
)
def test_secrets_are_removed(text, clean):
    assert redact(text, ["abcdef", ""]) == clean


def test_the_readers_thread_ends_with_the_wait(serve):
    import threading

    before = threading.active_count()
    failure(serve("mute"), deadline=0.5)
    deadline = time.monotonic() + 10
    while threading.active_count() > before:
        assert time.monotonic() < deadline
        time.sleep(0.05)
