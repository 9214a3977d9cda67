"""The report of an isolated host that `preflight-report.sh` prints and `--target` takes.

A few short lines of ASCII, so that a person can read them out, photograph them or type them in:

    vllm-bundle-report: 1
    arch: x86_64
    os: ubuntu 22.04
    kernel: 5.15.0-105-generic
    libc: glibc 2.35
    driver: 535.104.05
    gpu: 2 x NVIDIA A10, 8.6, 23028 MiB
    cpu: 64, avx2 avx512f
    memory: 257698 MiB
    disk: /opt, 812345 MiB
    check: 165 118 930 664 431 970 341 044 935 003

`gpu`, `disk` and `note` may come several times; `none` and `unknown` are answers too; `check` is
described in manifests.linecheck. The JSON form is one object with the same keys, lists for what
comes several times.
"""

import json
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from manifests import linecheck
from manifests.errors import UsageError
from manifests.hostlines import LISTS, MIB, NEEDED, NONE, OFTEN, UNKNOWN, Disk, HostGpu, mib, parse

__all__ = ["LIMIT", "MIB", "Disk", "HostGpu", "HostReport", "dump", "load"]

FORMAT = "vllm-bundle-report"
VERSION = 1
#: Bytes. A report is shorter by far; more is some other file.
LIMIT = 64 << 10
_MEND = "print it with the script that `bundle report-script` gives"


@dataclass(frozen=True)
class HostReport:
    """What is known of a host; empty texts and zeros where it could not be found out."""

    arch: str
    libc: str  # "glibc", "musl" or "unknown"
    libc_version: str = ""
    os: str = ""  # ID and VERSION_ID of os-release, "ubuntu 22.04"
    kernel: str = ""
    driver: str = ""  # release of the NVIDIA kernel module
    gpus: tuple[HostGpu, ...] = ()
    gpus_unknown: bool = False  # there is something of NVIDIA's, but no tool that names it
    processors: int = 0
    cpu_flags: tuple[str, ...] = ()  # of those that a stack may ask for
    memory: int = 0  # bytes, a container's limit considered
    disks: tuple[Disk, ...] = ()
    notes: tuple[str, ...] = ()
    checked: bool = False  # the check line was there, and right


@dataclass(frozen=True)
class _Line:
    number: int  # in the file; 0 in the JSON form
    text: str  # with one blank for several

    @property
    def key(self) -> str:
        return self.text.partition(":")[0].strip().lower()

    @property
    def value(self) -> str:
        return self.text.partition(":")[2].strip()

    def finding(self, problem: str) -> str:
        where = f"line {self.number}: " if self.number else ""
        return f"{where}{self.text!r:.80}: {problem}"


def load(data: bytes, where: str) -> HostReport:
    """Read a report, its text or its JSON form; `where` names the file in errors.

    Raises UsageError naming every line that is wrong.
    """
    try:
        # People who type in Chinese or Japanese may have full-width digits, colons and blanks.
        text = unicodedata.normalize("NFKC", data[: LIMIT + 1].decode("utf-8-sig"))
    except UnicodeDecodeError:
        text = ""
    lines = _json_lines(text, where) if text.lstrip().startswith("{") else _text_lines(text)
    if len(data) > LIMIT or not lines or lines[0].key != FORMAT:
        raise UsageError(f"{where}: not a report of a host", mend=_MEND)
    if lines[0].value != str(VERSION):
        raise UsageError(
            f"{where}: a report of version {lines[0].value!r:.20}, this release reads {VERSION}",
            mend=_MEND,
        )
    checked = _verify(lines, where)
    return _read([line for line in lines[1:] if line.key != linecheck.KEY], checked, where)


def dump(report: HostReport) -> str:
    """The report as its script prints it, with its check line."""
    gpus = [
        f"{gpu.count} x {gpu.name}, {gpu.capability or UNKNOWN}, {mib(gpu.memory)}"
        for gpu in report.gpus
    ] or [UNKNOWN if report.gpus_unknown else NONE]
    cpu = ", ".join(filter(None, (str(report.processors), " ".join(report.cpu_flags))))
    values = [
        (FORMAT, str(VERSION)),
        ("arch", report.arch),
        ("os", report.os or UNKNOWN),
        ("kernel", report.kernel or UNKNOWN),
        ("libc", f"{report.libc} {report.libc_version}".strip()),
        ("driver", report.driver or NONE),
        *(("gpu", gpu) for gpu in gpus),
        ("cpu", cpu),
        ("memory", mib(report.memory)),
        *(("disk", f"{disk.folder}, {mib(disk.free)}") for disk in report.disks),
        *(("note", note) for note in report.notes),
    ]
    lines = [f"{key}: {value}" for key, value in values]
    return "\n".join([*lines, linecheck.seal(lines)]) + "\n"


def _text_lines(text: str) -> list[_Line]:
    numbered = enumerate(text.splitlines(), 1)
    return [_Line(number, " ".join(line.split())) for number, line in numbered if line.strip()]


def _json_lines(text: str, where: str) -> list[_Line]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not JSON: {error}", mend=_MEND) from None
    pairs = [
        (key, item)
        for key, value in data.items()
        for item in (value if isinstance(value, list) else [value])
    ]
    for key, item in pairs:
        if not isinstance(item, str | int):
            raise UsageError(f"{where}: {key} is {item!r:.60}", mend=f"give {key} a text")
    lines = [_Line(0, " ".join(f"{key}: {item}".split())) for key, item in pairs]
    # JSON objects have no order that everybody keeps.
    last = {FORMAT: 0, linecheck.KEY: 2}
    return sorted(lines, key=lambda line: last.get(line.key, 1))


def _verify(lines: Sequence[_Line], where: str) -> bool:
    """Whether the check line is there; what stands above it has to be as it says."""
    sealed = [place for place, line in enumerate(lines) if line.key == linecheck.KEY]
    if not sealed:
        return False
    seal, above = lines[sealed[0]], lines[: sealed[0]]
    findings = [line.finding("stands below the check line") for line in lines[sealed[0] + 1 :]]
    try:
        wrong = linecheck.misread([line.text for line in above], seal.value)
    except ValueError as error:
        findings.append(seal.finding(str(error)))
    else:
        findings += [
            above[place].finding(
                f"the check line's group {place + 1} would be {linecheck.digits(above[place].text)}"
            )
            for place in wrong
        ]
    if findings:
        raise UsageError(
            f"{where}: not as the host printed it",
            findings=findings,
            why="something was misread, mistyped or left out",
            mend="compare these lines with the host's screen; "
            "in a report that you changed on purpose, remove the check line",
        )
    return True


def _read(lines: Sequence[_Line], checked: bool, where: str) -> HostReport:
    findings: list[str] = []
    values: dict[str, Any] = {**dict.fromkeys(LISTS, ()), "checked": checked}
    seen: set[str] = set()
    for line in lines:
        try:
            if line.key in seen and line.key not in OFTEN:
                raise ValueError("stands there twice")
            fields = parse(line.key, line.value)
        except ValueError as error:
            findings.append(line.finding(str(error)))
            continue
        finally:
            seen.add(line.key)
        for name, value in fields.items():
            values[name] = (*values[name], value) if name in LISTS else value
    findings += [f"there is no line {key!r}" for key in NEEDED if key not in seen]
    if findings:
        raise UsageError(
            f"{where}: lines that can't be understood",
            findings=findings,
            mend="compare them with the host's screen, or print the report again",
        )
    return HostReport(**values)
