"""The command `config`: show, change and check the settings of the server."""

import shlex
from typing import Any

from bundlectl import (
    command,
    config,
    environment,
    models,
    planned,
    servecommands,
    settingsedit,
    settingslist,
    startcheck,
    supposed,
)
from bundlectl.call import Run
from bundlectl.process import KEEPER, Supervisor
from bundlectl.sizing import Sizing
from bundlectl.syncing import write_whole
from manifests import placement
from manifests.errors import TargetError, UsageError
from manifests.exitcodes import ExitCode


def config_command(run: Run) -> int:
    """Do what the word after `config` says."""
    arguments = run.arguments
    if arguments.action == "set":
        return _set(run)
    if arguments.key is not None or arguments.unset is not None:
        raise UsageError(
            f"config {arguments.action} takes no key",
            mend="to change one: bundlectl config set KEY VALUE",
        )
    return _show(run) if arguments.action == "show" else _check(run)


def _show(run: Run) -> int:
    layout = run.layout
    text = config.read(layout.config_file)
    settings = config.parse(text, str(layout.config_file))
    sizing, problem = Sizing(), ""
    parts: tuple[command.Argument, ...] = ()
    if placement.installed_releases(layout.prefix):
        release = supposed.release_of(layout)
        model = models.to_serve(layout, release)
        try:
            sizing = supposed.sized(layout, release, settings, model)
        except TargetError as error:
            problem = error.what
        parts = planned.plan(layout, release, settings, model, sizing).arguments
    # As sizing writes them: "max_model_len 8192: why".
    chosen = dict(reason.split(" ", 1) for reason in sizing.reasons)
    listed = settingslist.rows(text, settings, chosen)
    record: dict[str, Any] = {
        "file": str(layout.config_file),
        "keys": [row.record for row in listed],
        "arguments": [{"words": list(one.words), "source": one.source} for one in parts],
        "problem": problem,
    }
    shown = [row.text for row in listed]
    if run.arguments.arguments:
        shown = [f"{shlex.join(one.words)}   ({one.source})" for one in parts]
    run.console.result(record, "\n".join((*shown, *filter(None, (problem,)))))
    return ExitCode.OK


def _check(run: Run) -> int:
    layout = run.layout
    text = config.read(layout.config_file)
    settings = config.parse(text, str(layout.config_file))
    _refuse_ours(text, str(layout.config_file), settings)
    notes: tuple[str, ...] = ("no release is installed, so there is no server to ask",)
    if placement.installed_releases(layout.prefix):
        release = supposed.release_of(layout)
        model = models.to_serve(layout, release)
        with run.console.stage("ask the server's own parser and the model's tokenizer"):
            notes = startcheck.check(layout, release, settings, model)
        notes += supposed.sized(layout, release, settings, model).reasons
    record = {"file": str(layout.config_file), "notes": list(notes)}
    run.console.result(record, "\n".join((*notes, f"{layout.config_file}: right")))
    return ExitCode.OK


def _set(run: Run) -> int:
    layout, arguments = run.layout, run.arguments
    name, wanted = _asked(run)
    path = layout.config_file
    text = config.read(path)
    changed = settingsedit.edited(text, str(path), name, wanted)
    settings = config.parse(changed, str(path))
    _refuse_ours(changed, str(path), settings)
    if placement.installed_releases(layout.prefix):
        release = supposed.release_of(layout)
        startcheck.check_known(layout, release, settings, models.to_serve(layout, release))
    if changed != text:
        # A group's rights are somebody's decision; everybody's are those of an older release.
        write_whole(path, changed.encode(), path.stat().st_mode & 0o770)
    told = f"{name}: written" if changed != text else f"{name}: as it was"
    # A keeper whose server has failed takes new settings, too.
    running = any(Supervisor(layout, name).status().running for name in ("", KEEPER))
    if running and arguments.restart:
        run.console.say(told)
        return servecommands.restart(run)
    if running:
        told += f"; the server takes it with: {layout.spoken} restart"
    run.console.result({"changed": changed != text, "restart": running}, told)
    return ExitCode.OK


def _refuse_ours(text: str, where: str, settings: config.ServeConfig) -> None:
    """Refuse arguments and variables that bundlectl itself sets."""
    line = config.line_of(text, "extra_arguments")
    command.check_arguments(settings.extra_arguments, f"{where}:{line}")
    environment.check(settings)


def _asked(run: Run) -> tuple[str, str | None]:
    """The key, and the value that is wanted; None where the key is to go."""
    arguments = run.arguments
    if arguments.unset is not None and arguments.key is None:
        return arguments.unset, None
    if arguments.unset is not None or arguments.value is None:
        raise UsageError(
            "config set needs one key and its value",
            mend="for example: bundlectl config set port 8001, or: config set --unset port",
        )
    return arguments.key, arguments.value
