"""`etc/serve.toml`: what the administrator decides about the server."""

import difflib
import ipaddress
import re
import tomllib
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from bundlectl.tomledit import rendered
from manifests.errors import UsageError, from_oserror

#: Of the file: [environment] may hold secrets, and no group is the installation's own (an account's
#: first group is shared by all on many hosts). The keeper and bundlectl, which read it, are its
#: owner's.
MODE = 0o600
#: dtype, where the server and the GPUs decide.
AUTO = "auto"


def _about(
    *lines: str, low: int | None = None, high: int | None = None, choices: tuple[str, ...] = ()
) -> dict[str, Any]:
    """A key's documentation, for numbers their limits, for texts those that there are."""
    return {"about": lines, "low": low, "high": high, "choices": choices}


def _key(default: Any, *lines: str, **limits: Any) -> Any:
    return field(default=default, metadata=_about(*lines, **limits))


@dataclass(frozen=True)
class ServeConfig:
    """The settings of the server. The documentation of each key is written into the file."""

    host: str = _key(
        "127.0.0.1",
        "Address to listen on. Anything but this machine itself needs allow_remote = true.",
    )
    port: int = _key(8000, "TCP port.", low=1, high=65535)
    allow_remote: bool = _key(
        False,
        "Let other machines in. They reach /v1, which the API key guards, and /health; everything",
        "else (/metrics, /docs, /tokenize) answers this machine alone. There is no TLS.",
    )
    open_paths: tuple[str, ...] = _key(
        (), 'Further paths that other machines may ask for, without a key: ["/metrics"]'
    )
    thinking: bool = _key(
        True,
        "Whether the model thinks before it answers, where a request does not say. A request says",
        'with: "chat_template_kwargs": {"enable_thinking": false}',
    )
    reasoning_parser: str = _key(
        "",
        "What tells thoughts from the answer, by the server's own name for it; empty: the stack's,",
        "for the models that it was tested with; none: thoughts stay in the answer.",
    )
    pictures: bool = _key(
        True,
        "Whether a model that can look at pictures does; without, there is more memory for text.",
    )
    served_model_name: str = _key(
        "", "Name of the model in requests; empty: the bundle's own name."
    )
    max_model_len: int = _key(
        0, "Longest prompt and answer together, in tokens; 0: the longest that fits.", low=0
    )
    max_num_seqs: int = _key(0, "Most requests worked on at a time; 0: chosen by memory.", low=0)
    gpus: str = _key(
        "",
        "GPUs that the server may use, by nvidia-smi's numbers or names (0,1 or GPU-8932f937 or",
        "MIG-…); empty: all. Two servers of one machine want GPUs of their own.",
    )
    tensor_parallel_size: int = _key(
        0, "GPUs that share the model; 0: as many as it can be split among.", low=0, high=1024
    )
    gpu_memory_utilization: int = _key(
        0,
        "Per cent of each GPU's memory for the server; 0: 90, or less where less is free.",
        low=0,
        high=100,
    )
    dtype: str = _key(
        AUTO,
        "Numbers that the model works with. auto: the model's own, float16 in place of bfloat16",
        "on GPUs that lack that (compute capability below 8.0).",
        choices=(AUTO, "bfloat16", "float16", "float32"),
    )
    prefix_caching: bool = _key(
        True,
        "Work out the same beginning of several prompts once. true: where the server's release",
        "does so by itself (vLLM 0.19.1 does not for Qwen3.5, where it called it experimental).",
    )
    log_requests: bool = _key(
        False, "Write each request, with what the people asked, into the server's log."
    )
    trust_remote_code: bool = _key(
        False,
        "Run the code that came with the model. `bundlectl audit` lists it; read it first.",
    )
    start_timeout: int = _key(
        600, "Seconds until the first answer, after which a start has failed.", low=1, high=86400
    )
    stop_timeout: int = _key(
        30, "Seconds that a server gets to end by itself before it is killed.", low=0, high=3600
    )
    drain_timeout: int = _key(
        120,
        "Seconds that requests get to be finished before their server is stopped or replaced.",
        low=0,
        high=86400,
    )
    hold_timeout: int = _key(
        300,
        "Seconds that a request waits while one server is stopped and the next one started.",
        low=0,
        high=86400,
    )
    health_timeout: int = _key(
        120,
        "Seconds without an answer to /health after which the server is restarted; 0: never.",
        low=0,
        high=86400,
    )
    log_size: int = _key(16, "MiB of the server's log, then a new file is begun.", low=1, high=4096)
    log_count: int = _key(5, "Files of the server's log that are kept.", low=1, high=100)
    extra_arguments: tuple[str, ...] = _key(
        (), 'More arguments of the server, one string each: ["--seed", "0"]'
    )
    environment: dict[str, str] = field(
        default_factory=dict,
        metadata=_about("More environment variables of the server, as text; few are inherited."),
    )

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the server."""
        return _is_loopback(self.host)


_KINDS = {
    str: "text in quotes",
    int: "a whole number",
    bool: "true or false",
    tuple: 'a list of texts, ["a", "b"]',
    dict: 'a table of texts, [environment] and lines such as NAME = "value"',
}


def load(path: Path) -> ServeConfig:
    """Read and check a settings file.

    Raises UsageError naming file, line and key, FilesystemError where it can't be read.
    """
    return parse(read(path), str(path))


def read(path: Path) -> str:
    """The text of a settings file, its line endings as they are.

    Raises UsageError where it is not UTF-8, FilesystemError where it can't be read.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 (byte {error.start})", mend="save it as UTF-8"
        ) from None
    except OSError as error:
        raise from_oserror(error, "reading the server's settings", path) from error


def parse(text: str, where: str) -> ServeConfig:
    """Check the text of a settings file; `where` starts each message.

    Raises UsageError.
    """
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # numbers and brackets without end, too
        raise UsageError(
            f"{where}: not valid TOML: {error}", mend="correct that line, then run it again"
        ) from None
    values = {}
    for name, value in data.items():
        place = f"{where}:{line_of(text, name)}"
        values[name] = _checked(key_named(name, place), value, place)
    config = ServeConfig(**values)
    _check_host(config, f"{where}:{line_of(text, 'host')}")
    _check_gpus(config, f"{where}:{line_of(text, 'gpus')}")
    return config


def key_named(name: str, place: str) -> Field[Any]:
    """A key, with its documentation in `metadata["about"]`.

    Raises UsageError, which `place` starts, naming the nearest one where there is none.
    """
    known = {item.name: item for item in fields(ServeConfig)}
    if name not in known:
        near = difflib.get_close_matches(name.replace("-", "_"), known, n=1)
        mend = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(known)}"
        raise UsageError(f"{place}: unknown key {name!r}", mend=mend)
    return known[name]


def default_of(key: Field[Any]) -> Any:
    """What holds where the file does not say."""
    return key.default_factory() if callable(key.default_factory) else key.default


def _checked(key: Field[Any], value: Any, place: str) -> Any:
    default = default_of(key)
    kind = type(default)
    if kind is tuple and isinstance(value, list) and all(type(item) is str for item in value):
        return tuple(value)
    items = value.values() if isinstance(value, dict) else ()
    if type(value) is not kind or any(type(item) is not str for item in items):
        raise UsageError(
            f"{place}: {key.name} must be {_KINDS[kind]}, found {_shown(value)}",
            mend=f"for example: {_assignment(key.name, default)}",
        )
    if (choices := key.metadata["choices"]) and value not in choices:
        near = difflib.get_close_matches(value, choices, n=1)
        raise UsageError(
            f"{place}: {key.name} is {_shown(value)}",
            why=f"it must be one of: {', '.join(choices)}",
            mend=f"did you mean {near[0]}?" if near else "correct that line",
        )
    low, high = key.metadata["low"], key.metadata["high"]
    if (low is not None and value < low) or (high is not None and value > high):
        limits = f"from {low} to {high}" if high is not None else f"{low} or more"
        raise UsageError(
            f"{place}: {key.name} is {_shown(value)}",
            why=f"it must be {limits}",
            mend="correct that line",
        )
    return value


def _shown(value: Any) -> str:
    if type(value) is int and abs(value) >= 1 << 63:
        return "a number beyond all bounds"  # of more digits than Python prints
    return f"{value!r:.80}" if isinstance(value, str | int) else type(value).__name__


def line_of(text: str, name: str) -> int:
    """The line number of a top-level key or its table; 1 where none is found."""
    quoted = rf"(?:{re.escape(name)}|\"{re.escape(name)}\"|'{re.escape(name)}')"
    pattern = re.compile(rf"\s*(?:\[\s*)?{quoted}\s*[=.\]]")
    lines = enumerate(text.splitlines(), 1)
    return next((number for number, line in lines if pattern.match(line)), 1)


def _check_host(config: ServeConfig, place: str) -> None:
    try:
        if config.host != "localhost":
            ipaddress.ip_address(config.host)
    except ValueError:
        raise UsageError(
            f"{place}: host must be an IP address or localhost, found {config.host!r}",
            mend='for example: host = "127.0.0.1"',
        ) from None
    if not config.loopback and not config.allow_remote:
        raise UsageError(
            f"{place}: host {config.host} lets other machines in",
            why="the API key is then all that keeps them from the model",
            mend='write allow_remote = true to want that, or host = "127.0.0.1"',
        )


#: What CUDA_VISIBLE_DEVICES takes (CUDA C++ Programming Guide, "CUDA Environment Variables").
_GPU = r"(?:[0-9]{1,4}|GPU-[0-9a-f-]{4,40}|MIG-[0-9A-Za-z/-]{4,80})"
_GPUS = re.compile(rf"(?:{_GPU}(?:,{_GPU})*)?")


def _check_gpus(config: ServeConfig, place: str) -> None:
    why = ""
    if not _GPUS.fullmatch(config.gpus):
        why = "it must be numbers or names with commas between them"
    elif config.gpus and "CUDA_VISIBLE_DEVICES" in config.environment:
        why = "[environment] sets CUDA_VISIBLE_DEVICES, which says the same in another way"
    if why:
        raise UsageError(
            f"{place}: gpus is {_shown(config.gpus)}",
            why=why,
            mend='for example: gpus = "0,1" (nvidia-smi -L lists them)',
        )


def _is_loopback(host: str) -> bool:
    return host == "localhost" or ipaddress.ip_address(host).is_loopback


def render_default(config: ServeConfig | None = None) -> str:
    """The settings, or the defaults, as a documented TOML file."""
    config = config or ServeConfig()
    blocks = ["# Settings of the server. After a change: bundlectl restart\n"]
    for key in fields(config):  # the only table, `environment`, comes last, as TOML wants it
        about = "".join(f"# {line}\n" for line in key.metadata["about"])
        blocks.append(f"{about}{_assignment(key.name, getattr(config, key.name))}\n")
    return "\n".join(blocks)


def _assignment(name: str, value: Any) -> str:
    if isinstance(value, dict):
        lines = [f"{rendered(key)} = {rendered(item)}" for key, item in value.items()]
        return "\n".join([f"[{name}]", *lines])
    return f"{name} = {rendered(value)}"
