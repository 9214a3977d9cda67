"""The server's command line."""

import json
from pathlib import Path

from bundlectl.config import ServeConfig
from manifests.errors import UsageError
from manifests.stack import Server

#: Arguments that serve.toml's extra_arguments may not repeat, and what to do instead.
_RESERVED = {
    "--model": "the bundle's own model is served",
    "--host": "set host",
    "--port": "set port",
    "--served-model-name": "set served_model_name",
    "--max-model-len": "set max_model_len",
    "--max-num-seqs": "set max_num_seqs",
    # Arguments are seen by every account of the machine.
    "--api-key": "write the key into etc/api-key",
    "--default-chat-template-kwargs": "set thinking",
}


def server_command(
    environment: Path, server: Server, model: Path, name: str, config: ServeConfig
) -> list[str]:
    """Program and arguments that serve `model` (an absolute folder) from a conda environment.

    `name` is what requests call the model unless serve.toml says otherwise. The API key is not
    among the arguments, which everybody can read. Raises UsageError where serve.toml repeats an
    argument that is set here.
    """
    _check(config.extra_arguments)
    pairs = [
        ("--model", str(model)),
        ("--served-model-name", served_name(name, config)),
        ("--host", config.host),
        ("--port", str(config.port)),
    ]
    if server.reasoning_parser:
        pairs.append(("--reasoning-parser", server.reasoning_parser))
    if config.max_model_len:
        pairs.append(("--max-model-len", str(config.max_model_len)))
    if config.max_num_seqs:
        pairs.append(("--max-num-seqs", str(config.max_num_seqs)))
    if server.thinking_argument:
        # Said both ways: what a template does by itself differs from model to model.
        switch = json.dumps({"enable_thinking": config.thinking})
        pairs.append((server.thinking_argument, switch))
    flat = [word for pair in pairs for word in pair]
    # -s: the account's own site-packages stay out. Bytecode is wanted (imports take a third of the
    # time), and PYTHONPYCACHEPREFIX keeps it out of the release.
    program = [str(environment / "bin/python"), "-s", "-m", server.module]
    return [*program, *flat, *server.arguments, *config.extra_arguments]


def served_name(name: str, config: ServeConfig) -> str:
    """What requests call the model."""
    return config.served_model_name or name


def _check(arguments: tuple[str, ...]) -> None:
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
