"""The command `inventory`: what a Python environment of this host holds, for an overlay."""

from bundlectl import basepython
from bundlectl.call import Run
from bundlectl.syncing import write_whole
from manifests.exitcodes import ExitCode
from manifests.records import to_data


def inventory(run: Run) -> int:
    """Print an inventory, or write it where it is wanted."""
    found = basepython.take(basepython.interpreter(run.arguments.python))
    text = found.dump().decode()
    if run.arguments.output is None:
        run.console.result(to_data(found), text.removesuffix("\n"))
        return ExitCode.OK
    target = run.arguments.output.absolute()
    write_whole(target, text.encode(), 0o644)
    told = f"written: {target} ({len(found.distributions)} distributions)"
    run.console.result({"path": str(target), "distributions": len(found.distributions)}, told)
    return ExitCode.OK
