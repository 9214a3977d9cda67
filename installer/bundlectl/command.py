"""The server's command line."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from bundlectl.config import AUTO, ServeConfig
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
    "--reasoning-parser": "set reasoning_parser",
    "--dtype": "set dtype",
    "--config": "write each argument of that file into extra_arguments",
}
#: Keys of serve.toml whose number is the argument's, 0 being none.
_NUMBERS = {
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--max-num-seqs",
    "tensor_parallel_size": "--tensor-parallel-size",
}
#: reasoning_parser in serve.toml: without one, whatever the stack has.
NO_PARSER = "none"


#: Who decides about an argument where it is no key of serve.toml: the bundle that was installed,
#: its stack, the sums about memory.
BUNDLE, STACK, FIT = "bundle", "stack", "fit"
#: The keys of serve.toml that each stack says in its own arguments.
SWITCHES = ("pictures", "prefix_caching", "log_requests")


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter to be served."""

    name: str
    folder: Path  # absolute
    rank: int


@dataclass(frozen=True)
class Argument:
    """An argument of the server with its values, and who decided about it."""

    words: tuple[str, ...]
    source: str = BUNDLE  # a key of etc/serve.toml; BUNDLE, STACK or FIT otherwise


#: Starts a module that would hash VLLM_API_KEY into the names of its compile caches, and write it
#: beside them: only this one process, which compares the keys of requests, has it from then on.
#: Those that compile, forked ones included, find the same text in its place everywhere.
_HIDING = """\
import os, runpy, sys
import vllm.envs as envs
key, process = os.environ["VLLM_API_KEY"], os.getpid()
os.environ["VLLM_API_KEY"] = "hidden"
envs.environment_variables["VLLM_API_KEY"] = lambda: key if os.getpid() == process else "hidden"
runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
"""


def program(python: Path, server: Server) -> list[str]:
    """The server's program, by the Python of its environment.

    -s: the account's own site-packages stay out. Bytecode is wanted (imports take a third of the
    time), and PYTHONPYCACHEPREFIX keeps it out of the release.
    """
    way = ["-c", _HIDING] if server.hashes_api_key else ["-m"]
    return [str(python), "-s", *way, server.module]


def arguments(
    server: Server,
    model: Path,
    name: str,
    config: ServeConfig,
    sizing: Sequence[str] = (),
    adapters: Sequence[Adapter] = (),
    *,
    socket: str,
) -> tuple[Argument, ...]:
    """The server's arguments, to serve `model` (an absolute folder) on a Unix socket alone.

    `socket` is a file of the folder that the server works in; `name` is what requests call the
    model unless serve.toml says otherwise; `sizing` are the flags about memory that serve.toml
    leaves open (bundlectl.sizing), each with its value. The API key is not among the arguments,
    which everybody can read. Raises UsageError where serve.toml repeats an argument that is set
    here, or asks for what the stack's server can't do.
    """
    check_arguments(config.extra_arguments)
    found = [
        Argument(("--model", str(model))),
        Argument(("--served-model-name", served_name(name, config)), "served_model_name"),
        Argument(("--uds", socket)),
    ]
    parser = config.reasoning_parser or server.reasoning_parser
    if parser not in ("", NO_PARSER):
        source = "reasoning_parser" if config.reasoning_parser else STACK
        found.append(Argument(("--reasoning-parser", parser), source))
    for key, option in _NUMBERS.items():
        if value := getattr(config, key):
            found.append(Argument((option, str(value)), key))
    if config.gpu_memory_utilization:
        share = f"{config.gpu_memory_utilization / 100:.2f}"
        found.append(Argument(("--gpu-memory-utilization", share), "gpu_memory_utilization"))
    if config.dtype != AUTO:
        found.append(Argument(("--dtype", config.dtype), "dtype"))
    if server.thinking_argument:
        # Said both ways: what a template does by itself differs from model to model.
        switch = json.dumps({"enable_thinking": config.thinking})
        found.append(Argument((server.thinking_argument, switch), "thinking"))
    found += switch_arguments(server, config)
    if config.trust_remote_code:
        found.append(Argument(("--trust-remote-code",), "trust_remote_code"))
    if lora := lora_arguments(adapters, served_name(name, config)):
        found.append(Argument(tuple(lora)))
    found += [Argument(pair, FIT) for pair in zip(sizing[::2], sizing[1::2], strict=True)]
    if server.arguments:
        found.append(Argument(server.arguments, STACK))
    if config.extra_arguments:
        found.append(Argument(config.extra_arguments, "extra_arguments"))
    return tuple(found)


def switch_arguments(server: Server, config: ServeConfig) -> tuple[Argument, ...]:
    """What the yes-or-no keys of serve.toml are to a stack's server.

    Raises UsageError where one is set that this server doesn't have.
    """
    known = {switch.key: switch for switch in server.switches}
    for key in SWITCHES:
        if key not in known and getattr(config, key) != getattr(ServeConfig, key):
            value = json.dumps(getattr(config, key))
            raise UsageError(
                f"serve.toml: {key} = {value} can't be had from the server of this release",
                why="its stack does not say by which arguments",
                mend=f"remove {key}, or name the arguments themselves in extra_arguments",
            )
    rendered = (
        Argument(switch.on if getattr(config, switch.key) else switch.off, switch.key)
        for switch in server.switches
        if switch.key in SWITCHES  # of a stack of one's own: anything
    )
    return tuple(one for one in rendered if one.words)


def flat(found: Iterable[Argument]) -> list[str]:
    """The words of arguments, as a command line has them."""
    return [word for one in found for word in one.words]


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


def check_arguments(arguments: tuple[str, ...], where: str = "serve.toml") -> None:
    """Refuse arguments that are not the operator's to give; `where` starts each message.

    Raises UsageError.
    """

    def refuse(argument: str, why: str, mend: str) -> NoReturn:
        what = f"{where}: extra_arguments may not hold {argument!r}"
        raise UsageError(what, why=why, mend=mend)

    for place, argument in enumerate(arguments):
        option, _, value = argument.partition("=")
        option = option.replace("_", "-")
        value = value or "".join(arguments[place + 1 : place + 2])
        if "\0" in argument:
            refuse(argument, "it holds a NUL byte", "remove it")
        if len(option) <= len("--") or not option.startswith("--"):
            continue
        # argparse takes any unambiguous beginning of an option for the option, and vLLM any case
        # of this value (vllm/config/load.py).
        if "--load-format".startswith(option) and value.lower() == "dummy":
            refuse(argument, "it serves random weights as if all were well", "remove it")
        for reserved, mend in _RESERVED.items():
            if reserved.startswith(option):
                refuse(argument, f"{reserved} is set by bundlectl", mend)
