"""`bundle report FILE`: what is understood of a host's report."""

from pathlib import Path

import click

from bundler.options import EPILOG, voice
from bundler.request import Request
from bundler.target import Described, describe
from manifests.console import Console, size
from manifests.hostreport import HostReport
from manifests.records import to_data


@click.command(name="report", epilog=EPILOG)
@click.argument("file", type=Path)
@voice
def command(file: Path, console: Console) -> None:
    """Show what is understood of a host's report, and check its check digits.

    The report is what preflight-report.sh prints there; `bundle report-script` gives that script.
    """
    request = Request(gpu="", model="", output=Path(), channel="", target=file)
    described = describe(request)
    assert described.report is not None  # it is what was asked for
    record = {
        "report": to_data(described.report),
        "target": to_data(described.target),
        "notes": list(described.notes),
    }
    console.result(record, _text(described, described.report))


def _text(described: Described, report: HostReport) -> str:
    target = described.target
    memory = f", {size(target.gpu_memory)} the smallest" if target.gpu_memory else ""
    names = [f"{item.count} x {item.name}" for item in report.gpus] or ["none"]
    processor = f"{report.processors} processors {' '.join(report.cpu_flags)}".rstrip()
    rows = [
        ("host", " ".join(filter(None, (report.os, report.arch, report.kernel)))),
        ("glibc", target.glibc or "not known"),
        ("driver", target.driver or "none"),
        *(("gpu", name) for name in names),
        ("target", f"--gpu {','.join(target.gpus)}{memory}"),
        ("cpu", processor),
        ("memory", size(report.memory) if report.memory else "not known"),
        *(("disk", f"{disk.folder}: {size(disk.free)} free") for disk in report.disks),
        ("digits", "right" if report.checked else "none: nothing was checked"),
        *(("note", note) for note in described.notes),
    ]
    return "\n".join(f"{name:>8}  {value}" for name, value in rows)
