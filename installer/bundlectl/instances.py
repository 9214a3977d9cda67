"""Several servers of one installation: each with its own port, GPUs, settings, key and logs."""

import os
from dataclasses import dataclass
from typing import Any

from bundlectl import (
    apikey,
    claims,
    config,
    discard,
    install,
    inuse,
    models,
    nvidia,
    service,
    uninstall,
)
from bundlectl.claims import Claim
from bundlectl.config import ServeConfig
from bundlectl.layout import DEFAULT, Layout, check_instance
from bundlectl.process import Supervisor
from bundlectl.syncing import write_whole
from manifests import gpu, placement
from manifests.errors import BundleError, UsageError, from_oserror


@dataclass(frozen=True)
class Line:
    """One instance."""

    name: str
    release: str  # empty: none is in service
    model: str  # that `start` serves; empty where it would serve none
    host: str
    port: int
    gpus: str  # empty: all, or none where the release serves without
    running: bool | None  # None: this account may not see it
    problems: tuple[str, ...] = ()


def lines(layout: Layout) -> tuple[Line, ...]:
    """Every instance of the installation, the one without a name first."""
    found = {one: _settings(one) for one in layout.every()}
    claimed = [_claim(one, settings) for one, settings in found.items() if settings is not None]
    seen = _gpus(claimed)
    return tuple(_line(one, settings, claimed, seen) for one, settings in found.items())


def _line(
    layout: Layout,
    settings: ServeConfig | None,
    claimed: list[Claim],
    seen: tuple[nvidia.Gpu, ...],
) -> Line:
    problems: list[str] = []
    if settings is None:
        settings = ServeConfig()
        problems.append(f"{layout.config_file} can't be read, so these are the defaults")
    else:
        mine = _claim(layout, settings)
        others = [one for one in claimed if one.name != mine.name]
        problems += [clash.text for clash in claims.clashes(mine, others, seen)]
    release, model = layout.current_release(), ""
    try:
        model = models.to_serve(layout, release).name if release else ""
    except BundleError as error:
        problems.append(error.what)
    return Line(
        name=layout.called,
        release=release,
        model=model,
        host=settings.host,
        port=settings.port,
        gpus=settings.gpus,
        running=_running(layout),
        problems=tuple(problems),
    )


def _settings(layout: Layout) -> ServeConfig | None:
    try:
        return config.load(layout.config_file) if layout.config_file.exists() else ServeConfig()
    except BundleError:
        return None


def _running(layout: Layout) -> bool | None:
    try:
        return Supervisor(layout).status().running
    except BundleError:
        return None


def _claim(layout: Layout, settings: ServeConfig) -> Claim:
    return Claim(layout.called, settings.port, settings.gpus, _on_gpu(layout))


def _on_gpu(layout: Layout) -> bool:
    """Whether the release of an instance serves on GPUs; not where it has none."""
    try:
        manifest, _ = placement.load_manifest(layout.prefix, layout.current_release())
    except BundleError:
        return False
    return manifest.target.gpus != (gpu.CPU,)


def _gpus(claimed: list[Claim]) -> tuple[nvidia.Gpu, ...]:
    """The machine's GPUs, where knowing them says more: where two claims name some."""
    named = [one for one in claimed if one.on_gpu and one.gpus]
    hidden = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return nvidia.gpus(hidden) if len(named) > 1 else ()


@dataclass(frozen=True)
class Created:
    """A new instance, and what about it can't be told for sure."""

    layout: Layout
    release: str
    model: str
    settings: ServeConfig
    warnings: tuple[str, ...]


def create(
    layout: Layout, name: str, *, port: int, gpus: str = "", model: str = "", release: str = ""
) -> Created:
    """Make an instance; it is complete or not there at all, and does not run yet.

    It serves the release in service, unless another one is named. Raises UsageError where the name,
    the port or the GPUs are another one's, or there is no such model.
    """
    fresh = Layout(layout.prefix, check_instance(name))
    draft = Layout(layout.prefix, f".{name}.new")
    if name == DEFAULT:
        raise UsageError(f"{DEFAULT!r} is the instance that has no name", mend="choose another")
    with install.locked(layout):
        if fresh.home.exists():
            raise UsageError(
                f"there is an instance {name} already",
                mend=f"see: bundlectl instances; or remove it: bundlectl instance remove {name}",
            )
        release = release or service.current(layout)
        manifest, _ = placement.load_manifest(layout.prefix, release)
        served = models.find(layout, release, model) if model else models.to_serve(layout, release)
        settings = ServeConfig(port=port, gpus=gpus, thinking=manifest.thinking)
        text = config.render_default(settings)
        config.parse(text, "the new settings")
        claim = Claim(name, port, gpus, manifest.target.gpus != (gpu.CPU,))
        warnings = _without_clash(layout, claim)
        try:
            discard.whole(draft.home)  # of a run that was killed
            draft.create()
            write_whole(draft.config_file, text.encode(), config.MODE)
            apikey.ensure(draft.api_key)
            service.commit(draft, release, served)
            draft.home.rename(fresh.home)
        except OSError as error:
            raise from_oserror(error, "making the instance") from error
    return Created(fresh, release, served.name, settings, warnings)


def _without_clash(layout: Layout, mine: Claim) -> tuple[str, ...]:
    """What can't be told for sure.

    Raises UsageError for what can.
    """
    found = ((one, _settings(one)) for one in layout.every())
    others = [_claim(one, settings) for one, settings in found if settings is not None]
    clashes = claims.clashes(mine, others, _gpus([mine, *others]))
    certain = [clash.text for clash in clashes if clash.certain]
    if certain:
        raise UsageError(
            f"the instance {mine.name} can't be made: {'; '.join(certain)}",
            mend="choose another --port, or other --gpus (see: bundlectl instances)",
        )
    return tuple(clash.text for clash in clashes)


def remove(layout: Layout) -> tuple[str, ...]:
    """Stop an instance's server, and remove its units, settings, key, logs and caches.

    Gives what the host's service manager could not do by itself. Raises UsageError for the one
    without a name, the errors of a stop, FilesystemError.
    """
    if not layout.instance:
        raise UsageError(
            "the instance that has no name goes with the installation",
            mend="stop it with: bundlectl stop; or remove everything: bundlectl uninstall",
        )
    with inuse.alone(layout):
        told = uninstall.retire(layout)
        try:
            discard.set_aside(layout.home)
            for path in discard.leftovers(layout.instances):
                discard.whole(path)
            discard.if_empty(layout.instances)
        except OSError as error:
            raise from_oserror(error, "removing the instance") from error
    return told


def text(listed: tuple[Line, ...]) -> str:
    """The lines as a person reads them."""
    rows = []
    wide = max(len(line.name) for line in listed)
    for line in listed:
        state = {True: "running", False: "stopped", None: "state not visible"}[line.running]
        gpus = f", GPU {line.gpus}" if line.gpus else ""
        what = f"{line.model} of {line.release}" if line.release else "no release in service"
        where = f"{line.host} port {line.port}"
        rows.append(f"{line.name.ljust(wide)}  {state}  {where}{gpus}: {what}")
        rows += [f"    note: {problem}" for problem in line.problems]
    return "\n".join(rows)


def record(listed: tuple[Line, ...]) -> dict[str, Any]:
    """The lines as --json prints them."""
    return {"instances": [vars(line) for line in listed]}
