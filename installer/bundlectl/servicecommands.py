"""The command `service`: an installation as a service of the host's systemd."""

from bundlectl import hardening, serviceaccount, serviceunit, systemd, unitfiles
from bundlectl.call import Run
from bundlectl.units import Wish
from manifests.exitcodes import ExitCode


def service(run: Run) -> int:
    """Install, remove or show the units."""
    return {"install": _install, "remove": _remove, "show": _show}[run.arguments.action](run)


def _install(run: Run) -> int:
    layout, arguments = run.layout, run.arguments
    manager = systemd.find(user=arguments.user)
    wish = Wish(arguments.user, arguments.boot, arguments.account, arguments.audit)
    wish = serviceaccount.decide(layout, wish)
    if arguments.dry_run:
        made = serviceunit.render(layout, wish)
        run.console.result(
            {
                "units": {str(manager.folder / unit.name): unit.text for unit in made},
                "left_out": {row.key: row.why for row in hardening.left_out()},
            },
            "\n".join(f"# {manager.folder / unit.name}\n{unit.text}" for unit in made),
        )
        return ExitCode.OK
    return _tell(run, serviceunit.install(layout, wish, manager, force=arguments.force), "written")


def _remove(run: Run) -> int:
    if run.arguments.dry_run:
        paths = tuple(made.path for made in unitfiles.load(run.layout).files)
        return _tell(run, serviceunit.Change(paths), "would be removed")
    return _tell(run, serviceunit.remove(run.layout, force=run.arguments.force), "removed")


def _tell(run: Run, change: serviceunit.Change, done: str) -> int:
    record = {
        "paths": list(change.paths),
        "told": list(change.told),
        "following": list(change.following),
    }
    rows = [f"{done}: {path}" for path in change.paths] or ["nothing to do"]
    run.console.result(record, "\n".join([*rows, *change.told, *change.following]))
    return ExitCode.OK


def _show(run: Run) -> int:
    shown = serviceunit.show(run.layout)
    run.console.result(shown.as_record(), shown.text())
    return ExitCode.OK
