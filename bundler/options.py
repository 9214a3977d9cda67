"""Options that several commands share, as decorators."""

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bundler.request import CONDA_FORGE, SETTINGS_FILE, Kinds, Request, cache_folder, file_settings
from bundler.workshop import Workshop
from manifests import exitcodes
from manifests.console import Console

EXIT_CODES = f"""\b
Exit codes:
{exitcodes.table()}
"""
EPILOG = f"""\b
Examples:
  bundle plan --gpu a10 --driver 535.104 --model Qwen3.5-9B --html plan.html
  bundle create --gpu a10 --driver 535.104 --model Qwen3.5-9B --output /media/usb
  bundle create --target report.txt --model ./my-model --volume-size bd
  bundle create --target report.txt --model ./a --model ./b --lora ./style
  bundle create --gpu h100 --model ./a --overlay inventory.json
  bundle create --model-only --model ./c --for /media/usb/NAME
  bundle create --target report.txt --model ./a --base /media/old/NAME
  bundle create --gpu cpu --model ./my-model --channel host --dry-run
  bundle create --gpu cpu --model ./my-model --offline      (after a first run)
  bundle audit /media/usb/NAME

{EXIT_CODES}"""
#: What bundle.toml may set.
_FILE_KEYS: dict[str, Kinds] = {
    "target": str,
    "gpu": str,
    "driver": str,
    "os_release": str,
    "overlay": str,
    "model": (str, list),
    "lora": list,
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
    "include": list,
    "exclude": list,
    "allow_pickle": bool,
    "allow_remote_code": bool,
    "lock": str,
    "base": str,
    "with_flash_attn": bool,
    "flash_attn_wheel": str,
}


class Settings(click.Command):
    """A command whose defaults may come from bundle.toml in the working folder."""

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Lay the file's settings under the flags."""
        settings = file_settings(Path(SETTINGS_FILE), _FILE_KEYS)
        if "thinking" in settings:
            settings["thinking"] = "on" if settings["thinking"] else "off"
        if "model" in settings:
            model = settings.pop("model")
            settings["models"] = [model] if isinstance(model, str) else model
        kwargs.setdefault("default_map", {}).update(settings)
        return super().make_context(*args, **kwargs)


#: The isolated host. `--target` names a report of it, which the other flags override.
TARGET_OPTIONS = (
    click.option("--target", type=Path, help="Report of the host (see preflight-report.sh)."),
    click.option("--gpu", default="", help="cpu, sm_86, 8.6, a10, h200, or a list: a10,h100."),
    click.option("--driver", default="", help="NVIDIA driver of the target, 535.104."),
    click.option("--glibc", default="", help="glibc of the target, 2.31."),
    click.option("--python", default="", help="Python of the target, 3.11."),
    click.option("--os-release", type=Path, help="The target's /etc/os-release; names its glibc."),
)


#: Which of a model's files are taken.
MODEL_FILES = (
    click.option(
        "--include",
        multiple=True,
        metavar="GLOB",
        help="Take these files of the first model too; may be repeated.",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="GLOB",
        help="Leave these files of the model out; may be repeated.",
    ),
    click.option(
        "--allow-pickle", is_flag=True, help="Take weights that can run code when loaded."
    ),
    click.option("--allow-remote-code", is_flag=True, help="Take code that comes with the model."),
)


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe an isolated host."""
    for option in reversed(TARGET_OPTIONS):
        function = option(function)
    return function


#: For commands that read a bundle where its volumes may lie apart.
volumes_in = click.option(
    "--volumes-in",
    type=Path,
    multiple=True,
    metavar="DIR",
    help="Another folder with volumes of the bundle; may be repeated.",
)


def voice(function: Callable[..., Any]) -> Callable[..., Any]:
    """--quiet and --json, as a Console."""

    @click.option("--quiet", is_flag=True, help="No narration, only the result.")
    @click.option("--json", "as_json", is_flag=True, help="One JSON document as result.")
    @functools.wraps(function)
    def wrapped(*args: Any, quiet: bool, as_json: bool, **kwargs: Any) -> Any:
        return function(*args, console=Console(quiet, as_json), **kwargs)

    return wrapped


def request(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that describe a bundle, as a Request, and the cache as a Workshop."""
    options = [
        *TARGET_OPTIONS,
        click.option(
            "--model",
            "models",
            required=True,
            multiple=True,
            help="A folder, ORG/NAME[@REVISION] or Qwen3.5-…; may be repeated: the first one is "
            "served unless another is chosen.",
        ),
        click.option(
            "--lora",
            multiple=True,
            metavar="PLACE[=NAME]",
            help="A LoRA adapter for the first model: a folder or ORG/NAME; may be repeated.",
        ),
        click.option(
            "--channel",
            default=CONDA_FORGE,
            show_default="conda-forge",
            help="Conda channel: URL, file:///…, or `host` (made from this Python).",
        ),
        click.option("--stack", default="auto", show_default=True, help="Name of a stack."),
        click.option(
            "--overlay",
            type=Path,
            metavar="INVENTORY",
            help="Carry only what this Python environment of the host lacks (see `bundle "
            "inventory-script`, `bundlectl inventory`).",
        ),
        click.option(
            "--with-flash-attn", is_flag=True, help="Build FlashAttention for the target's GPUs."
        ),
        click.option(
            "--flash-attn-wheel", type=Path, help="A flash-attn wheel of your own; inspected."
        ),
        click.option("--index-url", help="The one index for wheels; pip's setting otherwise."),
        click.option(
            "--find-links", multiple=True, help="Folder or page with wheels; may be repeated."
        ),
        click.option("--endpoint", help="The Hub's address; HF_ENDPOINT otherwise."),
        *MODEL_FILES,
        click.option("--offline", is_flag=True, help="Use what an earlier run has fetched."),
        click.option("--cache", help="Cache folder; $XDG_CACHE_HOME/vllm-bundle otherwise."),
    ]

    @functools.wraps(function)
    def wrapped(*args: Any, cache: str | None, models: tuple[str, ...], **kwargs: Any) -> Any:
        names = {field.name for field in dataclasses.fields(Request)}
        values = {key: kwargs.pop(key) for key in list(kwargs) if key in names}
        first, *others = models
        request = Request(model=first, others=tuple(others), **{"output": Path(), **values})
        workshop = Workshop(Path(cache).absolute() if cache else cache_folder())
        return function(*args, request=request, workshop=workshop, **kwargs)

    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def thinking_switch(_context: click.Context, _option: click.Parameter, value: str) -> bool:
    """--thinking on|off as a truth value."""
    return value == "on"


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is written, and where."""
    options = (
        click.option(
            "--output", type=Path, default=Path(), help="Folder that receives the bundle."
        ),
        click.option("--name", default="", help="Name of the bundle's folder."),
        click.option(
            "--thinking",
            type=click.Choice(["on", "off"]),
            default="on",
            callback=thinking_switch,
            show_default=True,
            help="Whether the model thinks where a request does not say.",
        ),
        click.option("--lock", type=Path, help="Follow this lock (see `bundle lock`)."),
        click.option(
            "--base",
            type=Path,
            metavar="PLACE",
            help="Carry only what this bundle lacks, which is installed there: its folder, its "
            "bundle.json, or the folder of the installed release.",
        ),
        click.option(
            "--volume-size",
            default="",
            help="Split the archive: fat32, dvd, bd, or a size such as 4000M.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function
