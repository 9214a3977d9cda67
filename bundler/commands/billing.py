"""What commands share that read a bill: of which bundle, and where a lock's packages come from."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from bundler.options import volumes_in
from bundler.papers.gathering_ways import Ways
from bundler.request import cache_folder
from bundler.workshop import Workshop
from wheelhouse.sources import from_settings

_OPTIONS = (
    volumes_in,
    click.option(
        "--recompute",
        is_flag=True,
        help="Read what the packages' metadata states out of the trees, and refuse trees that hold "
        "other packages than the lock (slower). Licence texts of conda packages and the digest of "
        "a wheel that was compiled are in no tree: they stay those of the carried papers.",
    ),
    click.option("--channel", default="", help="Of a lock: the conda channel, if not its own."),
    click.option("--stack", default="", help="Of a lock: the stack's file, if not one of ours."),
    click.option(
        "--model",
        "models",
        type=Path,
        multiple=True,
        metavar="FOLDER",
        help="Of a lock: a folder that a model or adapter was taken from; may be repeated.",
    ),
    click.option("--index-url", help="Of a lock: the one index for wheels."),
    click.option("--find-links", multiple=True, help="Of a lock: folder or page with wheels."),
    click.option("--endpoint", help="Of a lock: the Hub's address; HF_ENDPOINT otherwise."),
    click.option("--offline", is_flag=True, help="Of a lock: use what an earlier run has fetched."),
    click.option("--cache", help="Cache folder; $XDG_CACHE_HOME/vllm-bundle otherwise."),
)


def ways(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options `volumes_in` and `recompute`, and the others as `Ways`."""

    @functools.wraps(function)
    def wrapped(
        *args: Any,
        channel: str,
        stack: str,
        models: tuple[Path, ...],
        index_url: str | None,
        find_links: tuple[str, ...],
        endpoint: str | None,
        offline: bool,
        cache: str | None,
        **kwargs: Any,
    ) -> Any:
        workshop = Workshop(Path(cache).absolute() if cache else cache_folder())
        sources = from_settings(index_url, find_links)
        found = Ways(workshop, sources, channel, stack, models, endpoint, offline)
        return function(*args, ways=found, **kwargs)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped
