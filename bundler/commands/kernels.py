"""`bundle kernels`: which GPUs the code in libraries is for."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from bundler.options import EXIT_CODES, voice
from manifests import gpu as gpus
from manifests import stack as stacks
from manifests import sums
from manifests.console import Console
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from manifests.kernels import Inventory, coverage, coverage_text, gate, inventory_text
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader
from manifests.records import to_data
from manifests.stack import Component
from wheelhouse import kernels
from wheelhouse.members import size_of

_EPILOG = f"""\b
Examples:
  bundle kernels torch-2.10.0-cp312-cp312-manylinux_2_28_x86_64.whl
  bundle kernels ./venv --gpu a10,h100 --driver 535.104.05
  bundle kernels /media/usb/NAME --gpu sm_86 --json
  bundle kernels my_extension.so --gpu 8.9

\b
In the table: native, compatible (machine code for an older GPU of the same generation), PTX only
(compiled by the driver at first use), none; or how many units have code, and why the others lack
it: newer, specific (for exactly one other GPU), older, PTX too new (for the driver).

{EXIT_CODES}"""

#: Errors that fit a screen below the table.
_SHOWN = 10


@click.command(name="kernels", epilog=_EPILOG)
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--gpu", default="", help="Look for these: sm_86, 8.6, a10, h200, or a list.")
@click.option("--driver", default="", help="NVIDIA driver of the target, 535.104.")
@click.option("--stack", default="", help="Whose libraries are needed; all known stacks otherwise.")
@voice
def command(path: Path, gpu: str, driver: str, stack: str, console: Console) -> int:
    """Say which GPUs have code in a .so, .a, wheel, environment or bundle. Runs nothing.

    With --gpu: exit 5 when a part that serving needs has no code for one of them.
    """
    wanted = _capabilities(gpu)
    _check_driver(driver)
    components = _components(path, stack) if wanted else ()
    with console.stage(f"read {path}", size_of(path)) as progress:
        inventory = kernels.scan(path, progress)
    if not wanted:
        console.result(_record(inventory), inventory_text(inventory))
        return ExitCode.OK
    answer = coverage(inventory, wanted, driver)
    findings = gate(answer, components)
    errors = [str(finding) for finding in findings if finding.error]
    notes = [str(finding) for finding in findings if not finding.error]
    record = {**answer.as_record(), "errors": errors, "notes": notes}
    console.result(record, "\n".join([coverage_text(answer), *_told(errors)]))
    if notes:
        console.say(f"notes: {len(notes)}, about single files; --json lists them")
    return ExitCode.TARGET if errors else ExitCode.OK


def _told(errors: list[str]) -> list[str]:
    lines = [f"error: {sentence}" for sentence in errors[:_SHOWN]]
    if len(errors) > _SHOWN:
        lines.append(f"… and {len(errors) - _SHOWN} more errors; --json lists them")
    return lines


def _capabilities(text: str) -> tuple[str, ...]:
    wanted = gpus.parse(text) if text else ()
    if gpus.CPU in wanted:
        raise UsageError("--gpu cpu: a processor needs no kernels", mend="leave --gpu out")
    return wanted


def _check_driver(text: str) -> None:
    if text and not all(part.isdecimal() for part in text.split(".")):
        raise UsageError(
            f"--driver {text}: not a release",
            mend="give what nvidia-smi prints as Driver Version, for example 535.104.05",
        )


def _components(path: Path, stack: str) -> tuple[Component, ...]:
    """Those of the stack named, of the bundle's own, or of every stack that is known."""
    known = stacks.stacks()
    if not stack and (path / sums.FILE_NAME).is_file():
        with closing(ArchiveStream(Medium(path))) as stream:
            stack = BundleReader(stream).manifest.stack
        chosen = [known[stack]] if stack in known else list(known.values())
    else:
        chosen = [stacks.named(stack)] if stack else list(known.values())
    return tuple(component for one in chosen for component in one.components)


def _record(inventory: Inventory) -> dict[str, Any]:
    files = [{**to_data(file), "units": file.count} for file in inventory.with_code()]
    makers = {maker: list(paths) for maker, paths in inventory.makers().items()}
    return {"files": files, "made_on_target": makers}
