from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.loglines import CONTENT, DEBUG, REQUEST, SHAPE, Sieve, shown, starting
from manifests.doctor import logfile
from manifests.doctor.report import diagnose

SECRET = "Zyxw-prompt-4711"
HEAD = "(APIServer pid=636) INFO 11-30 15:14:13 [entrypoints/logger.py:42] "
OLD = "INFO 03-05 10:00:00 async_llm_engine.py:175] "


def sieved(*lines: str) -> list[str]:
    return list(shown(lines, Sieve()))


#: Ways in which versions of vLLM, and what it stands on, print what was asked or answered.
PROMPTS = {
    "0.4": f"{OLD}Received request cmpl-1: prompt: '{SECRET}', sampling_params: None",
    "0.6": f"INFO 03-05 10:00:00 [logger.py:37] Received request chatcmpl-1: prompt: "
    f"'<|im_start|>user\\n{SECRET}', params: SamplingParams(n=1), prompt_token_ids: [1, 2]",
    "0.11": f"{HEAD}Received request chatcmpl-1: prompt: '{SECRET}', params: SamplingParams(n=1)",
    "0.20, id by the client": f"{HEAD}Received request {SECRET}: params: SamplingParams(n=1)",
    "0.20, debug": f"(APIServer pid=1) DEBUG 11-30 15:14:13 [entrypoints/logger.py:48] Request "
    f"x details: prompt: '{SECRET}', prompt_token_ids: None",
    "answer": f"{HEAD}Generated response chatcmpl-1 (streaming complete): output: '{SECRET}'",
    "stop": f"{HEAD}Received request x: params: SamplingParams(stop=['{SECRET}'])",
    "over several lines": f"{HEAD}Received request 1: prompt: 'a\n{SECRET}\n\n  {SECRET}'",
    "several lines, each with a head": f"{HEAD}Received request 1: prompt: 'a\n{HEAD}{SECRET}",
    "added": f"(EngineCore pid=7) INFO 11-30 15:14:13 [v1/engine/async_llm.py:261] Added request "
    f"{SECRET}.",
    "body": f"{HEAD}Received HTTP request body: {{'messages': [{{'content': '{SECRET}'}}]}}",
    "chat": f'[x.py:1] {{"messages": [{{"role": "user", "content": "{SECRET}"}}]}}',
    "print": f"user said {SECRET}",
    "unknown file": f"INFO 11-30 15:14:13 [my/plugin.py:1] messages=[{{'role': '{SECRET}'}}]",
    "sentence": f"INFO 11-30 15:14:13 [my/plugin.py:1] he wrote 'tell me {SECRET} now'",
    "prompt field": f"INFO 11-30 15:14:13 [my/plugin.py:1] prompt={SECRET} and more {SECRET}",
    "dump": "(EngineCore pid=7) ERROR 11-30 15:14:13 [v1/core/dump_input.py:79] Dumping scheduler "
    f"output for model execution: SchedulerOutput(scheduled_new_reqs=[NewRequestData('{SECRET}')])",
    "validation": "ERROR 11-30 15:14:13 [serving_chat.py:200] Traceback (most recent call last):\n"
    f"pydantic_core.ValidationError: 1 validation error\n  content\n   [input_value='{SECRET}']",
    "validation on one line": f"fastapi.RequestValidationError: [{{'input': '{SECRET}'}}]",
    "exception": f"ValueError: can't make sense of 'tell me {SECRET}'",
    "exception that goes on": f"jinja2.exceptions.TemplateError: no\n{SECRET}",
    "tokens": f"ValueError: {list(range(4700, 4790))}",
    "exception of bare words": f"ValueError: can't make sense of {SECRET}",
    "exception of a plugin": f"my.plugin.Refused: {SECRET} is not allowed",
    "exception after a head": f"(EngineCore pid=7) ERROR 11-30 15:14:13 [my/plugin.py:1] it said "
    f"TemplateError: {SECRET}",
    "tool": f"ERROR 11-30 15:14:13 [tool_parsers/hermes.py:9] Error in {SECRET}",
    "access": f'INFO:     127.0.0.1:5 - "POST /v1/{SECRET}?q=1 HTTP/1.1" 404 Not Found\n{SECRET}',
    "coloured": f"\x1b[36m(APIServer pid=1)\x1b[0;0m INFO 11-30 15:14:13 [logger.py:1] {SECRET}",
    "wide": "x" * 40_000 + SECRET,
}


@pytest.mark.parametrize("wording", PROMPTS)
def test_no_prompt_comes_through(wording):
    lines = sieved(
        "(APIServer pid=1) INFO 11-30 15:14:13 [a.py:1] before", *PROMPTS[wording].split("\n")
    )
    text = "\n".join(lines[1:])
    assert SECRET not in text
    assert "4711, 4712" not in text
    assert "before" in lines[0]


#: What helps: heads of vLLM's start, tracebacks, and the last words of other programs.
TELLING = (
    "(APIServer pid=636) INFO 11-30 15:14:13 [config/model.py:555] Resolved architecture: Qwen3_5",
    "(EngineCore pid=769) INFO 11-30 15:14:25 [v1/worker/gpu_model_runner.py:4879] Model loading "
    "took 16.8 GiB memory and 0.57 seconds",
    "INFO 11-30 15:15:00 [v1/metrics/loggers.py:259] Engine 000: Avg prompt throughput: 12.0 "
    "tokens/s, Running: 1 reqs, GPU KV cache usage: 0.1%",
    "(EngineCore pid=7) ERROR 11-30 15:14:13 [v1/engine/core.py:1108] EngineCore failed to start.",
    "(EngineCore pid=7) ERROR 11-30 15:14:13 [v1/engine/core.py:1108] Traceback (most recent call "
    "last):",
    '(EngineCore pid=7) ERROR 11-30 15:14:13 [v1/engine/core.py:1108]   File "/r/core.py", line 9, '
    "in run",
    "(EngineCore pid=7) ERROR 11-30 15:14:13 [v1/engine/core.py:1108]     engine = make(**kwargs)",
    "(EngineCore pid=7) ERROR 11-30 15:14:13 [v1/engine/core.py:1108] torch.OutOfMemoryError: CUDA "
    "out of memory. Tried to allocate 2.00 GiB.",
    "Traceback (most recent call last):",
    '  File "/r/env/lib/python3.12/runpy.py", line 198, in _run_module_as_main',
    "    return _run_code(code, main_globals, None,",
    "           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^",
    "ImportError: libcuda.so.1: cannot open shared object file: No such file or directory",
    "RuntimeError: Engine core initialization failed. See root cause above.",
    "ModuleNotFoundError: No module named 'vllm'",
    "INFO:     Application startup complete.",
    'INFO:     127.0.0.1:55 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
    "api_server.py: error: unrecognized arguments: --frobnicate",
    "host1:99:101 [0] NCCL WARN Cuda failure 'out of memory'",
    "[rank0]:[W1130 15:14:23.1 ProcessGroupNCCL.cpp:1] Warning: destroy_process_group()",
    "terminate called after throwing an instance of 'c10::Error'",
    "Segmentation fault (core dumped)",
    "/r/env/bin/python: error while loading shared libraries: libpython3.12.so.1.0",
    "(APIServer pid=636) [transformers] `X` is deprecated.",
)


def test_what_tells_of_failures_stays():
    hidden = {"NCCL": "'out of memory'"}
    for line in TELLING:
        assert [line.replace(hidden["NCCL"], "[removed:request-content]")] == sieved(
            *((TELLING[9], line) if line.startswith("    return") else (line,))
        )[-1:], line


def test_what_was_taken_out_is_counted_and_its_place_is_seen():
    sieve = Sieve()
    lines = [TELLING[0], *PROMPTS["over several lines"].split("\n"), "", TELLING[1], "strange"]
    lines += ["DEBUG 11-30 15:14:13 [a.py:1] x", "ValueError: content='x y'"]
    kept = list(shown(lines, sieve))
    assert kept == [
        TELLING[0], "[3 lines removed]", TELLING[1], "[3 lines removed]",
    ]  # fmt: skip
    assert sieve.removed == Counter({REQUEST: 1, SHAPE: 4, DEBUG: 1})


@given(st.lists(st.text(max_size=100), max_size=20))
def test_text_of_no_shape_never_comes_through(texts):
    lines = [f"{text} {SECRET}" for text in texts]
    assert all(SECRET not in line for line in sieved(*[f"~ {line}" for line in lines]))


@given(st.text(max_size=200))
def test_any_line_is_taken_whole_or_in_part_or_not_at_all(text):
    kept = Sieve()(text)
    assert kept is None or isinstance(kept, str)


def test_kinds_are_named_alike_everywhere():
    assert f"[removed:{CONTENT}]" in sieved("ValueError: prompt='a b'")[0]


REAL = sorted((Path(__file__).parents[1] / "data/doctor/real").glob("*.log"))


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_what_is_shown_of_a_failed_start_still_tells_the_cause(path):
    lines = path.read_text("utf-8").split("\n")
    kept = "\n".join(shown(lines, Sieve(serving=not starting(lines))))
    causes = [
        [found.match.rule.id for found in diagnose([logfile.from_text("log", text)]).causes]
        for text in ("\n".join(lines), kept)
    ]
    assert causes[0]
    assert causes[1] == causes[0]


def test_before_a_server_takes_requests_nothing_is_hushed_up():
    start = "(APIServer pid=1) INFO 11-30 15:14:13 [a.py:1] non-default args: {}"
    quote = "KeyError: 'invalid tool call parser: nonsense'"
    up = "INFO:     Application startup complete."
    lines = [start, "strange", quote, up, quote, "strange", quote]
    kept = list(shown(lines, Sieve(serving=not starting(lines))))
    assert kept == [
        start, "[1 lines removed]", quote, up, f"KeyError: [removed:{CONTENT}]",
        "[2 lines removed]",
    ]  # fmt: skip


@pytest.mark.parametrize("first", [HEAD + "Received request x: ", PROMPTS["access"], "", "strange"])
def test_a_log_that_goes_on_from_another_is_one_of_a_server_that_serves(first):
    assert not starting(
        [first, TELLING[0], *["x"] * 60, "non-default args: {}"] if first else [TELLING[0]]
    )


@pytest.mark.parametrize(
    "line",
    [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3384",
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See above.",
        "OSError: [Errno 28] No space left on device",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ],
)
def test_what_the_system_says_stays_while_requests_are_served(line):
    assert sieved(line) == [line]


def test_of_any_other_exception_its_class_stays():
    assert sieved(f"jinja2.exceptions.TemplateError: tell me {SECRET}", SECRET) == [
        f"jinja2.exceptions.TemplateError: [removed:{CONTENT}]", "[1 lines removed]",
    ]  # fmt: skip
