"""The server's command line."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bundlectl.config import ServeConfig
from manifests.adapter import max_rank
from manifests.errors import UsageError
from manifests.stack import Server

#: Arguments that serve.toml's extra_arguments may not repeat, and what to do instead.
_RESERVED = {
    "--model": "the bundle's own model is served",
    "--host": "set host",
    "--port": "set port",
    "--uds": "the front reaches the server there",
    "--served-model-name": "set served_model_name",
    "--max-model-len": "set max_model_len",
    "--max-num-seqs": "set max_num_seqs",
    "--tensor-parallel-size": "set tensor_parallel_size",
    "--gpu-memory-utilization": "set gpu_memory_utilization",
    # Arguments are seen by every account of the machine.
    "--api-key": "write the key into etc/api-key",
    "--default-chat-template-kwargs": "set thinking",
    "--trust-remote-code": "set trust_remote_code",
}


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter to be served."""

    name: str
    folder: Path  # absolute
    rank: int


def server_command(
    environment: Path,
    server: Server,
    model: Path,
    name: str,
    config: ServeConfig,
    sizing: Sequence[str] = (),
    adapters: Sequence[Adapter] = (),
    *,
    socket: str,
) -> list[str]:
    """Program and arguments that serve `model` (an absolute folder) from a conda environment.

    It listens on the Unix socket `socket` alone. `name` is what requests call the model unless
    serve.toml says otherwise; `sizing` are the flags about memory that serve.toml leaves open
    (bundlectl.sizing). The API key is not among the arguments, which everybody can read. Raises
    UsageError where serve.toml repeats an argument that is set here.
    """
    check_arguments(config.extra_arguments)
    pairs = [
        ("--model", str(model)),
        ("--served-model-name", served_name(name, config)),
        ("--uds", socket),
    ]
    if server.reasoning_parser:
        pairs.append(("--reasoning-parser", server.reasoning_parser))
    if config.max_model_len:
        pairs.append(("--max-model-len", str(config.max_model_len)))
    if config.max_num_seqs:
        pairs.append(("--max-num-seqs", str(config.max_num_seqs)))
    if config.tensor_parallel_size:
        pairs.append(("--tensor-parallel-size", str(config.tensor_parallel_size)))
    if config.gpu_memory_utilization:
        share = f"{config.gpu_memory_utilization / 100:.2f}"
        pairs.append(("--gpu-memory-utilization", share))
    if server.thinking_argument:
        # Said both ways: what a template does by itself differs from model to model.
        switch = json.dumps({"enable_thinking": config.thinking})
        pairs.append((server.thinking_argument, switch))
    flat = [word for pair in pairs for word in pair]
    if config.trust_remote_code:
        flat.append("--trust-remote-code")
    # -s: the account's own site-packages stay out. Bytecode is wanted (imports take a third of the
    # time), and PYTHONPYCACHEPREFIX keeps it out of the release.
    program = [str(environment / "bin/python"), "-s", "-m", server.module]
    lora = lora_arguments(adapters, served_name(name, config))
    return [*program, *flat, *lora, *sizing, *server.arguments, *config.extra_arguments]


def lora_arguments(adapters: Sequence[Adapter], base: str) -> list[str]:
    """What makes the server offer adapters as models; nothing where there are none.

    As JSON: vLLM's NAME=PATH does not allow for a path with "=" (LoRAParserAction in
    vllm/entrypoints/openai/cli_args.py). `base` is the served name of their model.
    """
    if not adapters:
        return []
    modules = [
        json.dumps({"name": one.name, "path": str(one.folder), "base_model_name": base})
        for one in adapters
    ]
    rank = str(max_rank(one.rank for one in adapters))
    return ["--enable-lora", "--max-lora-rank", rank, "--lora-modules", *modules]


def served_name(name: str, config: ServeConfig) -> str:
    """What requests call the model."""
    return config.served_model_name or name


def check_arguments(arguments: tuple[str, ...]) -> None:
    """Refuse arguments that are not the operator's to give.

    Raises UsageError.
    """
    for place, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        option = option.replace("_", "-")
        value = value or "".join(arguments[place + 1 : place + 2])
        if "\0" in argument:
            raise _refused(argument, "it holds a NUL byte", "remove it")
        # argparse takes any unambiguous beginning of an option for the option.
        if option.startswith("--load-f") and value == "dummy":
            raise _refused(argument, "it serves random weights as if all were well", "remove it")
        for reserved, mend in _RESERVED.items():
            if len(option) > len("--") and option.startswith("--") and reserved.startswith(option):
                raise _refused(argument, f"{reserved} is set by bundlectl", mend)


def _refused(argument: str, why: str, mend: str) -> UsageError:
    return UsageError(f"serve.toml: extra_arguments may not hold {argument!r}", why=why, mend=mend)
