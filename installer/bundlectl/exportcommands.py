"""The command `export`: files for a proxy and for monitoring, ready for this installation."""

from bundlectl import config, exports
from bundlectl.call import Run
from bundlectl.exports import Public
from bundlectl.syncing import write_whole
from manifests.exitcodes import ExitCode


def export(run: Run) -> int:
    """Print a file, or write it where it is wanted."""
    layout, arguments = run.layout, run.arguments
    settings = config.load(layout.config_file) if layout.config_file.exists() else None
    public = Public(arguments.listen, arguments.name)
    text = exports.render(arguments.kind, layout, settings or config.ServeConfig(), public)
    if arguments.target is None:
        run.console.result({"kind": arguments.kind, "text": text}, text.removesuffix("\n"))
        return ExitCode.OK
    target = arguments.target.absolute()
    write_whole(target, text.encode(errors="surrogateescape"), 0o644)
    run.console.result({"kind": arguments.kind, "path": str(target)}, f"written: {target}")
    return ExitCode.OK
