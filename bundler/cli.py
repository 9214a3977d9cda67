"""The command line of the connected machine: its group, and how it ends."""

import contextlib
import importlib
import os
import signal
import sys
from typing import NoReturn, cast

import click

from bundler.options import EPILOG
from manifests import __version__
from manifests.console import READER_LEFT, Console, open_streams
from manifests.errors import BundleError, UsageError, from_oserror
from manifests.exitcodes import ExitCode

#: Each is the module of that name in bundler.commands.
_COMMANDS = (
    *("create", "plan", "lock", "stacks", "report", "report-script", "inventory-script"),
    *("inspect", "diff", "split", "join", "audit", "kernels", "elf", "schema", "doctor"),
    *("keygen", "sign", "verify", "parity", "restore", "rehearse", "manual"),
    *("sbom", "licences", "vulns", "vulns-database", "provenance", "record", "compare-records"),
)


class _Commands(click.Group):
    """Loads no command but the one that is run: few need py-rattler or the Hub's client."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*_COMMANDS, *super().list_commands(ctx)))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = importlib.import_module(f"bundler.commands.{cmd_name.replace('-', '_')}")
        return cast(click.Command, module.command)


@click.group(cls=_Commands, epilog=EPILOG, context_settings={"max_content_width": 100})
@click.version_option(__version__, prog_name="vllm-bundle")
def bundle() -> None:
    """Carry a vLLM server and its model across an air gap as one verified object."""


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
    open_streams()
    try:
        _run()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(READER_LEFT)


def _run() -> None:
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
        _leave(console.interrupted())
    except BrokenPipeError:
        raise
    except OSError as error:
        sys.exit(console.fail(from_oserror(error, "working")))


def _leave(status: int) -> NoReturn:
    """End at once. Everything of ours is undone by now.

    Threads of py-rattler may still be fetching: they abort the interpreter that is taken down
    around them (PyGILState_Release, "thread state must be current"), or keep it waiting.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)


def _usage_error(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "bundle"
    return UsageError(error.format_message(), mend=f"see: {path} --help")
