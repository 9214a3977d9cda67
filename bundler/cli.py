"""The command line of the connected machine. The only module of bundler that prints and exits."""

import dataclasses
import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bundler import conda, locking, media
from bundler import create as creating
from bundler.plan import plan
from bundler.request import SETTINGS_FILE, Request, cache_folder, file_settings
from bundler.workshop import Workshop
from manifests import __version__, audit, exitcodes
from manifests.audit.report import size_of
from manifests.console import Console, size
from manifests.errors import BundleError, UsageError, from_oserror
from manifests.exitcodes import ExitCode
from manifests.volumes import parse_size

_EPILOG = f"""\b
Examples:
  bundle create --gpu cpu --model Qwen/Qwen3.5-0.8B --dry-run
  bundle create --gpu cpu --model ./my-model --channel host --output /media/usb
  bundle create --gpu cpu --model ./my-model --offline      (after a first run)
  bundle audit /media/usb/NAME

\b
Exit codes:
{exitcodes.table()}
"""
#: What bundle.toml may set.
_FILE_KEYS = {
    "gpu": str,
    "model": str,
    "output": str,
    "channel": str,
    "stack": str,
    "python": str,
    "glibc": str,
    "name": str,
    "thinking": bool,
    "index_url": str,
    "find_links": list,
    "endpoint": str,
    "lock": str,
}


class _Settings(click.Command):
    """A command whose defaults may come from bundle.toml in the working folder."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Lay the file's settings under the flags."""
        settings = file_settings(Path(SETTINGS_FILE), _FILE_KEYS)
        if "thinking" in settings:
            settings["thinking"] = "on" if settings["thinking"] else "off"
        kwargs.setdefault("default_map", {}).update(settings)
        return super().make_context(*args, **kwargs)


def _voice(function: Callable[..., Any]) -> Callable[..., Any]:
    """--quiet and --json, as a Console."""

    @click.option("--quiet", is_flag=True, help="No narration, only the result.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON document as result.")
    @functools.wraps(function)
    def wrapped(*args: Any, quiet: bool, as_json: bool, **kwargs: Any) -> Any:
        return function(*args, console=Console(quiet, as_json), **kwargs)

    return wrapped


def _request(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe a bundle, as a Request, and the cache as a Workshop."""
    options = [
        click.option("--gpu", required=True, help="cpu, or compute capabilities: sm_86, 8.6."),
        click.option("--model", required=True, help="A folder, ORG/NAME[@REVISION] or Qwen3.5-…"),
        click.option(
            "--channel",
            default=conda.CONDA_FORGE,
            show_default="conda-forge",
            help="Conda channel: URL, file:///…, or `host` (made from this Python).",
        ),
        click.option("--stack", default="", help="Name of a stack; chosen by --gpu otherwise."),
        click.option("--python", default="", help="Python of the target, 3.11."),
        click.option("--glibc", default="", help="glibc of the target, 2.31."),
        click.option("--index-url", help="The one index for wheels; pip's setting otherwise."),
        click.option(
            "--find-links", multiple=True, help="Folder or page with wheels; may be repeated."
        ),
        click.option("--endpoint", help="The Hub's address; HF_ENDPOINT otherwise."),
        click.option("--offline", is_flag=True, help="Use what an earlier run has fetched."),
        click.option("--cache", help="Cache folder; $XDG_CACHE_HOME/vllm-bundle otherwise."),
    ]

    @functools.wraps(function)
    def wrapped(*args: Any, cache: str | None, **kwargs: Any) -> Any:
        names = {field.name for field in dataclasses.fields(Request)}
        values = {key: kwargs.pop(key) for key in list(kwargs) if key in names}
        request = Request(**{"output": Path(), **values})
        workshop = Workshop(Path(cache).absolute() if cache else cache_folder())
        return function(*args, request=request, workshop=workshop, **kwargs)

    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def _thinking(_context: click.Context, _option: click.Parameter, value: str) -> bool:
    return value == "on"


@click.group(epilog=_EPILOG, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="vllm-bundle")
def bundle() -> None:
    """Carry a vLLM server and its model across an air gap as one verified object."""


@bundle.command(cls=_Settings, epilog=_EPILOG)
@_request
@click.option("--output", type=Path, default=Path(), help="Folder that receives the bundle.")
@click.option("--name", default="", help="Name of the bundle's folder.")
@click.option(
    "--thinking",
    type=click.Choice(["on", "off"]),
    default="on",
    callback=_thinking,
    show_default=True,
    help="Whether the model thinks where a request does not say.",
)
@click.option("--lock", type=Path, help="Follow this lock (see `bundle lock`).")
@click.option(
    "--volume-size", default="", help="Split the archive: fat32, dvd, bd, or a size such as 4000M."
)
@click.option("--dry-run", is_flag=True, help="Show what would be made; download nothing.")
@click.option("--force", is_flag=True, help="Replace a bundle of the same name.")
@_voice
def create(
    request: Request, workshop: Workshop, console: Console, dry_run: bool, volume_size: str
) -> None:
    """Make a bundle: lock, fetch, build, pack, write."""
    most = parse_size(volume_size) if volume_size else 0
    draft = creating.draft(request, workshop)
    if dry_run:
        answer = plan(draft)
        console.result(answer.as_record(), answer.text())
        return
    if request.lock is not None and not request.lock.exists():
        raise UsageError(f"{request.lock}: no such lock", mend="make it with `bundle lock`")
    locked = creating.lock(draft, console)
    made = creating.create(draft, locked, console, most)
    record = {
        "bundle": str(made.folder),
        "manifest_sha256": made.digest,
        "size": made.size,
        "flavour": made.manifest.flavour,
        "unpublished": list(made.manifest.unpublished),
    }
    for sentence in draft.sources.ignored:
        console.say(f"note: {sentence}")
    notes = [f"note: {note}" for note in made.manifest.unpublished]
    lines = [
        *notes,
        f"{made.folder}: {size(made.size)}, {made.manifest.stack} ({made.manifest.flavour})",
        f"manifest sha256: {made.digest}",
        f"on the isolated host: sh {made.folder.name}/install.sh",
    ]
    console.result(record, "\n".join(lines))


@bundle.command(cls=_Settings, epilog=_EPILOG)
@_request
@click.option(
    "--lock", type=Path, default=Path("bundle.lock"), show_default=True, help="File to write."
)
@_voice
def lock(request: Request, workshop: Workshop, console: Console) -> None:
    """Pin everything by digest and write bundle.lock, which `bundle create --lock` follows."""
    target = request.lock or Path("bundle.lock")
    media.check_output(target.parent)
    draft = creating.draft(dataclasses.replace(request, lock=None), workshop)
    made = locking.make_lock(draft.request, draft.choice, draft.sources, workshop, console)
    locking.write_lock(made, target)
    record = {"lock": str(target), "sha256": made.digest(), "wheels": len(made.wheels)}
    text = f"{target}: {len(made.conda)} conda packages, {len(made.wheels)} wheels, 1 model"
    console.result(record, text)


@bundle.command(name="audit", epilog=_EPILOG)
@click.argument("path", type=Path)
@_voice
def audit_command(path: Path, console: Console) -> int:
    """Check every byte of a bundle's folder or of an installation. Exit 0: intact, 1: not."""
    try:
        with console.stage(f"audit {path}", size_of(path)) as progress:
            report = audit.audit(path, progress)
    except OSError as error:
        raise from_oserror(error, "auditing") from None
    console.result(report.as_record(), report.text())
    return ExitCode.OK if report.intact else ExitCode.INTEGRITY


@bundle.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script: eval "$(bundle completion bash)"."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click.Choice lets no other shell through
    click.echo(kind(bundle, {}, "bundle", "_BUNDLE_COMPLETE").source())


def main() -> None:
    """Run one command and exit with its status."""
    words = sys.argv[1:]
    console = Console(quiet="--quiet" in words, json="--json" in words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(bundle.main(words, prog_name="bundle", standalone_mode=False) or ExitCode.OK)
    except BundleError as error:
        sys.exit(console.fail(error))
    except click.exceptions.Exit as request:
        sys.exit(request.exit_code)
    except click.ClickException as error:
        sys.exit(console.fail(_usage_error(error)))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(console.interrupted())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(ExitCode.OK)
    except OSError as error:
        sys.exit(console.fail(from_oserror(error, "working")))


def _usage_error(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "bundle"
    return UsageError(error.format_message(), mend=f"see: {path} --help")
