"""The commands about what is installed: look, go back, make room, take it all away."""

import contextlib
import dataclasses
import sys

from bundlectl import config, instances, service
from bundlectl import prune as pruning
from bundlectl import releases as listing
from bundlectl import rollback as going_back
from bundlectl import uninstall as uninstalling
from bundlectl.call import Run, seconds
from bundlectl.dismantling import Wish
from bundlectl.servecommands import tell
from manifests.bundle import Manifest
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from manifests.medium import ArchiveStream
from manifests.reader import BundleReader


def releases(run: Run) -> int:
    """List the installed releases."""
    listed = listing.lines(run.layout)
    run.console.result(listing.record(listed), listing.text(listed))
    return ExitCode.OK


def rollback(run: Run) -> int:
    """Put into service what served before."""
    layout, arguments, console = run.layout, run.arguments, run.console
    target = going_back.find(layout, arguments.target)
    if arguments.audit:
        title = f"audit {target.release}"
        with console.stage(title, going_back.size(layout, target)) as progress:
            going_back.audit(layout, target, progress)
    settings = config.load(layout.config_file)
    title = f"serve {target.model.name} of {target.release}, once it has answered"
    with console.stage(title, unit="s") as progress:
        started = service.activate(
            layout,
            target.release,
            settings,
            seconds(progress),
            target.model,
            stop_first=arguments.stop_first,
        )
    return tell(run, started)


def prune(run: Run) -> int:
    """Remove releases and models that nobody needs any more."""
    arguments = run.arguments
    wish = pruning.Wish(arguments.keep, arguments.models)
    if arguments.dry_run:
        planned = dataclasses.replace(pruning.plan(run.layout, wish), dry_run=True)
    else:
        planned = pruning.prune(run.layout, wish)
    run.console.result(planned.as_record(), planned.text())
    return ExitCode.OK


def uninstall(run: Run) -> int:
    """Stop every server and remove the installation."""
    layout, arguments = run.place, run.arguments
    if arguments.instance:
        raise UsageError(
            "an installation is removed with all of its instances",
            mend=f"leave --instance out; or: bundlectl instance remove {arguments.instance}",
        )
    uninstalling.check(layout)
    wish, medium = Wish(arguments.keep_models, arguments.keep_settings), _manifest_at_hand(run)
    planned = dataclasses.replace(uninstalling.plan(layout, wish, medium), dry_run=True)
    if not arguments.dry_run:
        _confirm(run, planned.text(), mend="say --yes (or look: --dry-run)")
        planned = uninstalling.uninstall(layout, wish, medium)
    run.console.result(planned.as_record(), planned.text())
    return ExitCode.OK


def _manifest_at_hand(run: Run) -> Manifest | None:
    """The medium's, where install.sh, which has checked it, runs the command."""
    if run.arguments.media is None:
        return None
    with contextlib.closing(ArchiveStream(run.media, run.next_medium)) as stream:
        return BundleReader(stream, run.media.manifest_sha256).whole.manifest


def list_instances(run: Run) -> int:
    """List the instances."""
    listed = instances.lines(run.layout)
    run.console.result(instances.record(listed), instances.text(listed))
    return ExitCode.OK


def instance(run: Run) -> int:
    """Make an instance, or remove one."""
    return _ACTIONS[run.arguments.action](run)


def _create(run: Run) -> int:
    arguments = run.arguments
    if arguments.port is None:
        raise UsageError("an instance needs a port of its own", mend="name it with --port N")
    made = instances.create(
        run.layout,
        arguments.name,
        port=arguments.port,
        gpus=arguments.gpus,
        model=arguments.model,
        release=arguments.release,
    )
    for warning in made.warnings:
        run.console.say(f"note: {warning}")
    command = f"{made.layout.spoken} start"
    run.console.result(
        {
            "instance": made.layout.instance,
            "release": made.release,
            "model": made.model,
            "port": made.settings.port,
            "gpus": made.settings.gpus,
            "settings": str(made.layout.config_file),
            "warnings": list(made.warnings),
            "next": command,
        },
        f"made {made.layout.instance}: {made.model} of {made.release}, port {made.settings.port}\n"
        f"settings:  {made.layout.config_file}\nstart it:  {command}",
    )
    return ExitCode.OK


def _remove(run: Run) -> int:
    layout = run.of_instance(run.arguments.name)
    _confirm(run, f"the instance {layout.called} goes, with its settings, API key, logs and caches")
    told = instances.remove(layout)
    text = "\n".join([*told, f"removed {layout.instance}"])
    run.console.result({"removed": layout.instance, "told": list(told)}, text)
    return ExitCode.OK


_ACTIONS = {"create": _create, "remove": _remove}


def _confirm(run: Run, what: str, mend: str = "say --yes") -> None:
    """Have a person say yes to it, unless that was said with --yes.

    Raises UsageError where the person does not, or there is none to ask.
    """
    if run.arguments.yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("nobody is there to confirm it", mend=mend)
    sys.stderr.write(f"{what}\nIs that right? Type yes: ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError(
            "it was not confirmed, and nothing was done", mend="type yes, or say --yes"
        )
