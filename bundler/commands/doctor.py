"""`bundle doctor`: what a server's log says is wrong, on a machine that is not the server's."""

import sys
from pathlib import Path

import click

from bundler.options import EXIT_CODES, voice
from manifests.console import Console
from manifests.doctor import diagnose, read, read_stream

_EPILOG = f"""\b
Examples:
  bundle doctor --log server.log
  bundle doctor --log server.log.1.gz --log server.log --all
  ssh gpu01 journalctl -u vllm | bundle doctor --log -

The host that wrote the log is not asked anything: where its facts tell causes apart, the command
that shows them is printed. On that host itself, `bundlectl doctor` asks by itself.

{EXIT_CODES}
0: nothing found wrong; the class of the likeliest cause; 6: something wrong that no rule knows."""


@click.command(name="doctor", epilog=_EPILOG)
@click.option(
    "--log",
    "logs",
    type=Path,
    multiple=True,
    required=True,
    metavar="FILE",
    help="A server's log, also .gz, .bz2 or .xz; - for standard input; may be repeated.",
)
@click.option("--all", "everything", is_flag=True, help="Tell also what weighs less.")
@click.option("--lang", type=click.Choice(["en", "zh"]), default="en", help="Of causes and mends.")
@voice
def command(logs: tuple[Path, ...], everything: bool, lang: str, console: Console) -> int:
    """Recognise known failures in a vLLM server's log: cause and mend, the likeliest first."""
    found = [
        read_stream("standard input", sys.stdin.buffer) if str(path) == "-" else read(path)
        for path in logs
    ]
    diagnosis = diagnose(found, language=lang)
    console.result(diagnosis.as_record(), diagnosis.text(everything=everything))
    return diagnosis.exit_code
