"""`etc/serve.toml`: what the administrator decides about the server."""

import difflib
import ipaddress
import json
import re
import tomllib
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any

from manifests.errors import UsageError, from_oserror


def _about(*lines: str, low: int | None = None, high: int | None = None) -> dict[str, Any]:
    """A key's documentation and, for numbers, its limits."""
    return {"about": lines, "low": low, "high": high}


def _key(default: Any, *lines: str, low: int | None = None, high: int | None = None) -> Any:
    return field(default=default, metadata=_about(*lines, low=low, high=high))


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
    served_model_name: str = _key(
        "", "Name of the model in requests; empty: the bundle's own name."
    )
    max_model_len: int = _key(
        0, "Longest prompt and answer together, in tokens; 0: the longest that fits.", low=0
    )
    max_num_seqs: int = _key(0, "Most requests worked on at a time; 0: chosen by memory.", low=0)
    tensor_parallel_size: int = _key(
        0, "GPUs that share the model; 0: as many as it can be split among.", low=0, high=1024
    )
    gpu_memory_utilization: int = _key(
        0,
        "Per cent of each GPU's memory for the server; 0: 90, or less where less is free.",
        low=0,
        high=100,
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
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path}: not UTF-8 (byte {error.start})", mend="save it as UTF-8"
        ) from None
    except OSError as error:
        raise from_oserror(error, "reading the server's settings", path) from error
    return parse(text, str(path))


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
    known = {item.name: item for item in fields(ServeConfig)}
    values = {}
    for name, value in data.items():
        place = f"{where}:{_line(text, name)}"
        if name not in known:
            raise _unknown(name, tuple(known), place)
        values[name] = _checked(known[name], value, place)
    config = ServeConfig(**values)
    _check_host(config, f"{where}:{_line(text, 'host')}")
    return config


def _checked(key: Field[Any], value: Any, place: str) -> Any:
    default = key.default_factory() if callable(key.default_factory) else key.default
    kind = type(default)
    if kind is tuple and isinstance(value, list) and all(type(item) is str for item in value):
        return tuple(value)
    items = value.values() if isinstance(value, dict) else ()
    if type(value) is not kind or any(type(item) is not str for item in items):
        raise UsageError(
            f"{place}: {key.name} must be {_KINDS[kind]}, found {_shown(value)}",
            mend=f"for example: {_assignment(key.name, default)}",
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


def _unknown(name: str, known: tuple[str, ...], place: str) -> UsageError:
    near = difflib.get_close_matches(name.replace("-", "_"), known, n=1)
    mend = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(known)}"
    return UsageError(f"{place}: unknown key {name!r}", mend=mend)


def _line(text: str, name: str) -> int:
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
        lines = [f"{_quote(key)} = {_quote(item)}" for key, item in value.items()]
        return "\n".join([f"[{name}]", *lines])
    if isinstance(value, tuple):
        return f"{name} = [{', '.join(_quote(item) for item in value)}]"
    return f"{name} = {_quote(value) if isinstance(value, str) else json.dumps(value)}"


def _quote(text: str) -> str:
    # A JSON string is a TOML basic string, except that TOML wants DEL escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
