"""The parts of tests/gpu/isolated that need no GPU."""

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler.bare import is_tool
from tests.gpu.isolated.__main__ import perform, wanted
from tests.gpu.isolated.asking import wrong
from tests.gpu.isolated.bare import tools
from tests.gpu.isolated.commands import Failed, need, run
from tests.gpu.isolated.figures import Figures
from tests.gpu.isolated.load import Target, interleaved, medians, prompt, usage
from tests.gpu.isolated.outbound import COUNTERS, between, counters, snmp, snmp6
from tests.gpu.isolated.trouble import causes


def test_figures_survive_a_run_that_was_cut_off(tmp_path: Path) -> None:
    figures = Figures(tmp_path / "out/figures.jsonl", tmp_path / "history.jsonl")
    figures.add({"step": "install", "ok": True})
    figures.add({"step": "audit", "ok": False})
    with figures.history.open("a") as file:
        file.write('{"step": "model", "o')
    assert figures.done() == {"install"}
    assert [json.loads(line)["step"] for line in (tmp_path / "out/figures.jsonl").open()] == [
        "install",
        "audit",
    ]


def test_a_program_that_does_not_end_is_killed_with_its_children() -> None:
    begun = time.monotonic()
    done = run(["sh", "-c", "echo told; sleep 60 & sleep 60"], 0.5)
    assert time.monotonic() - begun < 10
    assert (done.code, done.out) == (None, "told\n")
    with pytest.raises(Failed, match="the program ran out of time"):
        need(done, "the program")


def test_a_program_answers_in_json_or_in_words() -> None:
    answered = run(["sh", "-c", 'echo "{\\"a\\": 1}"'], 10)
    assert answered.record()["answer"] == {"a": 1}
    spoken = run(["sh", "-c", "echo words; exit 3"], 10)
    assert spoken.record()["out"] == "words\n"
    with pytest.raises(Failed, match="it ended with 3") as caught:
        need(spoken, "it")
    assert caught.value.record["code"] == 3


#: /proc/net/snmp of Linux 6.18, cut.
SNMP = """\
Ip: Forwarding DefaultTTL InReceives OutRequests OutDiscards OutNoRoutes ReasmTimeout
Ip: 2 64 812 812 0 3 0
Tcp: RtoAlgorithm RtoMin ActiveOpens
Tcp: 1 200 17
Udp: InDatagrams NoPorts InErrors
Udp: 0 2 0
"""
SNMP6 = (
    "Ip6InReceives                   \t20\nIp6OutNoRoutes                  \t1\nUdp6NoPorts \t0\n"
)


def test_counters_are_read_by_name() -> None:
    found = snmp(SNMP) | snmp6(SNMP6)
    assert {name: found[name] for name in COUNTERS} == {
        "Ip.OutNoRoutes": 3,
        "Ip6.OutNoRoutes": 1,
        "Udp.NoPorts": 2,
        "Udp6.NoPorts": 0,
    }
    none = dict.fromkeys(COUNTERS, 0)
    assert between(none, {**none, "Ip.OutNoRoutes": 3, "Udp.NoPorts": 2})["attempts"] == 5
    assert set(counters()) == set(COUNTERS)  # this machine's own


def test_tools_are_known_by_every_name() -> None:
    names = ["gcc", "gcc-13", "x86_64-linux-gnu-g++-13", "ld.gold", "clang++-18", "nvcc", "c99-gcc"]
    assert [name for name in names if not is_tool(name)] == ["c99-gcc"]
    assert not any(map(is_tool, ("python3", "gccgo", "ldd", "cat", "gcc-ar", "asciidoc", "sh")))


def test_tools_of_an_environment_are_found_but_not_those_that_are_kept(tmp_path: Path) -> None:
    packages = tmp_path / "venv/lib/python3.12/site-packages"
    for name in ("nvidia/cu13/bin/nvcc", "triton/backends/nvidia/bin/ptxas", "torch/bin/ptxas"):
        (packages / name).parent.mkdir(parents=True, exist_ok=True)
        (packages / name).write_text("")
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir()
    (python.parent / "ninja").write_text("")
    found = {path for path in tools(python, Path("/nowhere")) if path.is_relative_to(tmp_path)}
    assert {str(path.relative_to(tmp_path / "venv")) for path in found} == {
        "lib/python3.12/site-packages/nvidia/cu13/bin/nvcc",
        "lib/python3.12/site-packages/torch/bin/ptxas",
        "bin/ninja",
    }
    assert not any(path.is_relative_to(tmp_path) for path in tools(python, tmp_path))


def test_usage_is_the_servers_own_count() -> None:
    last = b'data: {"choices": [], "usage": {"completion_tokens": 256}}\n\ndata: [DONE]\n\n'
    assert usage(b'"text": "cut off in front"}\n\n' + last) == 256
    with pytest.raises(ValueError, match="cut off"):
        usage(last.removesuffix(b"data: [DONE]\n\n"))
    with pytest.raises(ValueError, match="without usage"):
        usage(b'data: {"choices": []}\n\ndata: [DONE]\n\n')


def test_prompts_differ_from_their_first_token_on() -> None:
    prompts = [prompt(number, 64) for number in range(64)]
    assert len({found[0] for found in prompts}) == 64
    assert all(10 <= token < 210 for found in prompts for token in found)


class Streaming:
    """A server that answers every request with a stream, as vLLM's in chunks of HTTP."""

    def __init__(self) -> None:
        self.asked: list[dict[str, object]] = []
        self._loop = asyncio.new_event_loop()
        started = self._loop.run_until_complete(asyncio.start_server(self._answer, "127.0.0.1", 0))
        self.port = int(started.sockets[0].getsockname()[1])
        self._server = started
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.partition("Content-Length: ")[2].split()[0])
        self.asked.append(json.loads(await reader.readexactly(length)))
        refused = "Bearer secret" not in head
        status = "401 Unauthorized" if refused else "200 OK"
        writer.write(f"HTTP/1.1 {status}\r\nConnection: close\r\n\r\n".encode())
        for text in () if refused else ("one", "two"):
            event = json.dumps({"choices": [{"text": text}], "usage": None})
            writer.write(f"{len(event) + 8:x}\r\ndata: {event}\n\n\r\n".encode())
            await writer.drain()
        event = json.dumps({"choices": [], "usage": {"completion_tokens": 2}})
        writer.write(f"data: {event}\n\ndata: [DONE]\n\n\r\n0\r\n\r\n".encode())
        writer.close()

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._server.close)
        self._loop.call_soon_threadsafe(self._loop.call_later, 0.1, self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def streaming() -> Iterator[Streaming]:
    server = Streaming()
    yield server
    server.end()


def test_two_servers_are_measured_in_turn(streaming: Streaming) -> None:
    target = Target("127.0.0.1", streaming.port, "noise", "secret")
    other = Target("127.0.0.1", streaming.port, "other", "secret")
    found = interleaved({"ours": target, "by_hand": other}, (1, 4), 3, 30)
    assert [len(found[size]["ours"]) for size in ("1", "4")] == [3, 3]
    assert {one["tokens"] for one in found["4"]["by_hand"]} == {8}
    order = [str(asked["model"]) for asked in streaming.asked[:8]]
    # One each that is not counted; then ours first, by hand first, ours first.
    assert order == ["noise", "other", "noise", "other", "other", "noise", "noise", "other"]
    table = medians(found)
    assert table["1"]["ratio"] > 0
    assert set(table["4"]) == {"ours", "by_hand", "ratio"}


def test_a_refusal_is_no_throughput(streaming: Streaming) -> None:
    target = Target("127.0.0.1", streaming.port, "noise", "wrong")
    with pytest.raises(ValueError, match="401"):
        interleaved({"ours": target, "by_hand": target}, (1,), 1, 30)


RIGHT = {
    "thinking_on": {"status": 200, "prompt_tokens": 34},
    "thinking_off": {"status": 200, "prompt_tokens": 38},
    "stream": {"tokens": 32},
    "metrics": {"lines": 374},
    "without_key": 401,
    "status": {"running": True},
}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({}, None),
        ({"without_key": 200}, "/v1 answers without a key"),
        ({"thinking_off": {"status": 200, "prompt_tokens": 34}}, "did not reach the template"),
        ({"thinking_on": {"status": 500}}, "a chat with thinking on failed"),
        ({"stream": {"tokens": 0}}, "the stream"),
        ({"status": {}}, "status"),
    ],
)
def test_an_answer_that_is_not_right_is_told(change: dict[str, object], sentence: str) -> None:
    found = wrong(RIGHT | change)
    assert found == [] if sentence is None else any(sentence in one for one in found)


def test_the_doctors_answer_becomes_a_line_each() -> None:
    answer = {
        "findings": [{"id": "no-compiler", "standing": "known"}],
        "preflight": [{"name": "gpu-memory"}],
    }
    assert causes(answer) == ["no-compiler (known)", "preflight: gpu-memory"]
    assert causes({}) == []


def options(**changes: object) -> argparse.Namespace:
    return argparse.Namespace(**({"steps": "", "skip": "", "cpu": False} | changes))


def test_steps_that_are_done_are_passed_over_unless_named() -> None:
    done = frozenset({"surroundings", "control"})
    assert wanted(options(), done)[:2] == ["medium", "preflight"]
    assert wanted(options(steps="control,surroundings"), done) == ["surroundings", "control"]
    assert "kernels" not in wanted(options(cpu=True), done)
    assert wanted(options(steps="medium,audit", skip="medium"), done) == ["audit"]
    with pytest.raises(SystemExit, match="no such step: audits"):
        wanted(options(steps="audits"), done)


def test_a_step_that_breaks_is_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.gpu.isolated import __main__ as program

    def breaks(_: object) -> dict[str, object]:
        raise KeyError("odd")

    def sleeps(_: object) -> dict[str, object]:
        time.sleep(30)
        return {}

    steps = {"breaks": program.STEPS["end"].__class__(breaks, 5)}
    steps["sleeps"] = program.STEPS["end"].__class__(sleeps, 5)
    monkeypatch.setattr(program, "STEPS", steps)
    bench: object = None
    found = perform("breaks", bench, 5)  # type: ignore[arg-type] # not looked at
    assert (found["ok"], found["why"]) == (False, "KeyError: 'odd'")
    found = perform("sleeps", bench, -9.7)  # type: ignore[arg-type] # the alarm is 10 s later
    assert not found["ok"]
    assert "TimeoutError" in found["why"]
    assert found["seconds"] < 5


def test_the_command_line_says_what_there_is() -> None:
    root = Path(__file__).resolve().parents[2]
    words = [sys.executable, "-m", "tests.gpu.isolated", "--help"]
    done = run(words, 30, {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root)}, root)
    assert done.code == 0, done.err
    assert "--into-python" in done.out
