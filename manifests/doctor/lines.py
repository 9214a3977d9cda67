"""A log's lines without what loggers, terminals and collectors put around them."""

import re

#: ECMA-48: control sequences (colours), and operating-system commands (titles, links).
_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
#: What may stand before a message, in any order and number.
_DECORATION = re.compile(
    r"""
    (?: \([A-Za-z_]\w*(?:\ [a-z]+=[^\s()]+)*\ pid=\d+(?:,\ ip=[\d.]+)?\)[ ]?  # vLLM's processes
      | (?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\ \d\d-\d\d\ [\d:.]+\ \[[^\]\n]{1,120}\][ ]?  # vLLM
      | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ ]  # ISO 8601
      | [A-Z][a-z]{2}\ [ \d]\d\ \d\d:\d\d:\d\d\ \S+\ [\w.@/-]+(?:\[\d+\])?:[ ]  # syslog, journal
      | [a-z][\w.-]*\ +\|[ ]  # docker compose
      | \[rank\d+\]:[ ]  # torch
    )+
    """,
    re.VERBOSE,
)
_LEVEL = re.compile(r"\b(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
#: Characters of a line that are kept; a list of all known architectures is longer.
_LONGEST = 2000
_SECRETS = re.compile(
    r"\bhf_\w{8,}|\bsk-[\w-]{8,}|(?i:bearer) +\S+|(?<=://)[^/@\s]+(?=@)"
    r"|(?i:(?<=api_key': \[)[^\]]*|(?<=api-key )\S+|(?<=api_key=)\S+)"
)
_SHOWN = 300


def clean(line: str) -> tuple[str, str]:
    """A line as its program meant it, and what a logger called it: "ERROR", "INFO", … or nothing.

    No colours, no earlier states of a progress bar, no names of processes and files before it.
    """
    line = line.rstrip("\r\n")
    if "\r" in line:
        line = next((part for part in reversed(line.split("\r")) if part.strip()), "")
    if "\x1b" in line:
        line = _TERMINAL.sub("", line)
    line = line[:_LONGEST]
    found = _DECORATION.match(line)
    if found is None:
        return line, ""
    level = _LEVEL.search(found[0])
    return line[found.end() :], level[0] if level else ""


def shown(line: str) -> str:
    """A line as it may be printed: one line, not long, no secrets, nothing that moves a cursor."""
    text = _SECRETS.sub("[removed]", line.strip())
    return "".join(char if char.isprintable() else "?" for char in text[:_SHOWN])
