"""The isolated host, from what was said about it: flags, a report of it, its os-release.

Nothing is taken from the machine that this runs on.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bundler.distributions import glibc_of
from bundler.request import Request, check_version
from manifests import gpu, hostreport
from manifests.errors import TargetError, UsageError
from manifests.fit import shown
from manifests.gpu import Gpu
from manifests.hostreport import HostGpu, HostReport
from manifests.lock import Target
from manifests.stack import Stack

WAYS = (
    "say --gpu (cpu, sm_86, 8.6, a10, h200, or a list), or --target REPORT: run the script that "
    "`bundle report-script` gives on the host"
)
_DRIVER = re.compile(r"[1-9]\d{2}(\.\d{1,4}){0,2}", re.ASCII)
#: Oldest glibc that conda-forge's Pythons run on: their packages require __glibc >=2.17
#: (https://conda-forge.org/docs/maintainer/knowledge_base/#using-centos-7). Python's own wheels
#: for it are manylinux2014, which is 2.17 too.
OLDEST_GLIBC = (2, 17)
#: glibc has had two digits after its 2 for 25 years; more is a slip.
_HIGHEST_MINOR = 99


@dataclass(frozen=True)
class Described:
    """A host as far as it was described; `target`'s empty texts are what nobody has said."""

    target: Target
    notes: tuple[str, ...] = ()  # sentences: what was assumed, overridden or not checked
    report: HostReport | None = None


def describe(request: Request) -> Described:
    """What the request says of the isolated host. Flags win over its report, and that is said.

    Raises UsageError for what is missing, unreadable or impossible, TargetError for hosts on which
    nothing of this can run.
    """
    report = read_report(request.target) if request.target is not None else None
    if not request.gpu and report is None:
        raise UsageError(
            "the isolated host is not described",
            why="it is never guessed from this machine",
            mend=WAYS,
        )
    notes = list(_report_notes(request.target, report))
    gpus = _products(request.gpu) if request.gpu else _reported_gpus(report)
    notes += [item.note for item in gpus if item.note]
    if request.gpu and report is not None and report.gpus:
        notes.append(f"--gpu {request.gpu} was taken, not the report's GPUs")
    arch = _arch(gpus, report)
    kinds = gpu.capabilities(gpus)
    driver, note = _driver(request, report, kinds)
    notes += note
    glibc, note = _glibc(request, report)
    notes += note
    check_version("--python", request.python, "3.11")
    memories, counts = [item.memory for item in gpus], [item.count for item in gpus]
    target = Target(
        gpus=kinds,
        glibc=glibc,
        python=request.python,
        arch=arch,
        driver=driver,
        gpu_memory=min(memories) if kinds != (gpu.CPU,) else 0,
        gpu_count=sum(counts) if all(counts) else 0,
    )
    return Described(target, tuple(notes), report)


def check_processor(described: Described, stack: Stack) -> None:
    """Refuse a stack whose wheels the reported processor can't run.

    Raises TargetError.
    """
    report = described.report
    if report is None or not report.processors or not stack.cpu_flags:
        return
    if not set(stack.cpu_flags) & set(report.cpu_flags):
        raise TargetError(
            f"the target's processor has none of {', '.join(stack.cpu_flags)}",
            why=f"the stack {stack.name} needs one of them",
            mend="use a newer processor; in a virtual machine, pass the host's model through",
        )


def read_report(path: Path) -> HostReport:
    """The report in a file.

    Raises UsageError where it can't be read or understood.
    """
    try:
        with path.open("rb") as handle:
            data = handle.read(hostreport.LIMIT + 1)
    except OSError as error:
        raise UsageError(f"--target {path}: {error.strerror}", mend=WAYS) from None
    return hostreport.load(data, f"--target {path}")


def _report_notes(path: Path | None, report: HostReport | None) -> list[str]:
    if report is None:
        return []
    unchecked = [] if report.checked else [f"{path}: has no check line, so nothing was checked"]
    return unchecked + [f"the host says: {note}" for note in report.notes]


def _products(text: str) -> tuple[Gpu, ...]:
    return tuple(_as_shown(item) for item in gpu.products(text))


def _as_shown(sold: Gpu) -> Gpu:
    """A product with the memory that a server finds, which is less than what it is sold with."""
    return replace(sold, memory=shown(sold.name, sold.memory))


def _reported_gpus(report: HostReport | None) -> tuple[Gpu, ...]:
    assert report is not None  # describe has asked for one or the other
    if report.gpus_unknown:
        raise UsageError(
            "the report does not know the host's GPU",
            why="; ".join(report.notes),
            mend="say it with --gpu beside --target (--gpu cpu where there is none to use)",
        )
    return tuple(_reported_gpu(item) for item in report.gpus) or (Gpu(gpu.CPU, gpu.CPU),)


def _reported_gpu(found: HostGpu) -> Gpu:
    """A GPU with the capability that nvidia-smi gave, or else that its name stands for."""
    if found.capability:
        (known,) = gpu.products(found.capability)
        return Gpu(found.name, known.capability, found.memory, found.count)
    try:
        known = gpu.product(found.name)
    except UsageError as error:
        raise UsageError(
            f"the report names a GPU that is not known here: {found.name}",
            why="its nvidia-smi is too old to give the compute capability, " + error.mend,
            mend="say --gpu with its compute capability beside --target",
        ) from None
    memory = found.memory or _as_shown(known).memory
    return Gpu(found.name, known.capability, memory, found.count, known.arch)


def _arch(gpus: Sequence[Gpu], report: HostReport | None) -> str:
    archs = {item.arch: item.name for item in gpus if item.capability != gpu.CPU}
    if report is not None:
        built_in = [item.name for item in gpus if item.arch != gpu.X86_64]
        if built_in and report.arch == gpu.X86_64:
            raise UsageError(
                f"{built_in[0]} is not built into {report.arch} machines, as the report says",
                mend="leave --gpu away, or take the report of the right host",
            )
        return report.arch
    if len(archs) > 1:
        raise UsageError(
            f"{' and '.join(archs.values())} are not built into the same machine",
            why="; ".join(f"{name}: {arch}" for arch, name in archs.items()),
            mend="make a bundle for each",
        )
    return next(iter(archs), gpu.X86_64)


def _driver(
    request: Request, report: HostReport | None, kinds: Sequence[str]
) -> tuple[str, list[str]]:
    said = request.driver.strip()
    if said and not _DRIVER.fullmatch(said):
        cuda = re.fullmatch(r"1\d\.\d", said)
        raise UsageError(
            f"--driver {said}: not a release of NVIDIA's driver",
            why="this looks like a release of CUDA" if cuda else "",
            mend="give what nvidia-smi calls `Driver Version`, for example 535.104.05",
        )
    if tuple(kinds) == (gpu.CPU,):
        return "", [f"--driver {said} plays no part without a GPU"] if said else []
    reported = report.driver if report is not None else ""
    return _either("--driver", said, reported)


def _glibc(request: Request, report: HostReport | None) -> tuple[str, list[str]]:
    check_version("--glibc", request.glibc, "2.31")
    said, notes = request.glibc, []
    if request.os_release is not None:
        name, version = glibc_of(request.os_release)
        notes.append(f"glibc {version}, because the host has {name}" if not said else "")
        if said and _numbers(said) != _numbers(version):
            notes.append(f"--glibc {said} was taken; {name} has {version}")
        said = said or version
    reported = ""
    if report is not None and report.libc == "glibc":
        reported = ".".join(report.libc_version.split(".")[:2])
    elif report is not None and report.libc == "musl" and not said:
        raise TargetError(
            f"the target's C library is musl {report.libc_version}".rstrip(),
            why="vLLM, torch and CUDA are published for glibc alone",
            mend="use a distribution with glibc there, or a container with one and --glibc",
        )
    glibc, overridden = _either("--glibc", said, reported)
    if glibc:
        _check_glibc(glibc)
    elif report is not None:
        notes.append("the report does not know the host's glibc: say it with --glibc")
    return glibc, [note for note in (*notes, *overridden) if note]


def _check_glibc(text: str) -> None:
    major, minor = _numbers(text)
    if major != OLDEST_GLIBC[0] or minor > _HIGHEST_MINOR:
        raise UsageError(
            f"there is no glibc {text}",
            mend="the first line of `ldd --version` on the host ends in it, for example 2.31",
        )
    if (major, minor) < OLDEST_GLIBC:
        raise TargetError(
            f"the target has glibc {text}, the bundle's Python needs 2.17",
            why="no Python that vLLM runs on is published for anything older",
            mend="use a newer distribution there: another --stack does not help",
        )


def _either(option: str, said: str, reported: str) -> tuple[str, list[str]]:
    """What was said, or else what was reported; and a note where they differ."""
    if said and reported and _numbers(said) != _numbers(reported):
        return said, [f"{option} {said} was taken, not the report's {reported}"]
    return said or reported, []


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
