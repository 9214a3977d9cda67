"""The words that bundlectl understands."""

import argparse
from pathlib import Path
from typing import Any, NoReturn

from manifests import __version__, exitcodes
from manifests.errors import UsageError

_EXAMPLES = """\
examples:
  sh install.sh --prefix /srv/llm          install, start, prove with one answer
  sh install.sh --key trusted.pem          check its signature first (or: --trust-digest HEX)
  sh install.sh preflight                  does this host fit? (installs nothing)
  sh install.sh audit                      is every byte on the medium right?
  PREFIX/bin/bundlectl status | stop | start | restart | logs
  PREFIX/bin/bundlectl ask "Hello" --thinking off
  PREFIX/bin/bundlectl use NAME            serve another model, once it answers (see: models)
  PREFIX/bin/bundlectl audit               is every installed byte right?
  sh install.sh restore --to FOLDER        a whole copy of a scratched medium that has parity
  sh install.sh repair                     replace just what is not (bundlectl repair --from DIR)

exit codes:
"""

#: Options that take a value and may stand before the command.
_VALUED = {
    "--prefix",
    "--media",
    "--manifest",
    "--stage",
    "--port",
    "--ignore",
    "--thinking",
    "--volumes-in",
    "--from",
    "--to",
    "--trusted-list",
    "--release",
}


class _Parser(argparse.ArgumentParser):
    """Bad usage is an error like any other; so is half an option.

    install.sh looks for --prefix too, and must not be told another one by `--pre`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, mend=f"see: {self.prog} --help")


def _switch(text: str) -> bool:
    try:
        return {"on": True, "off": False}[text]
    except KeyError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither on nor off") from None


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")
    return int(text)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 1000000")
    return int(text)


def _volumes_in(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--volumes-in",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="another folder with volumes of the bundle; may be repeated",
    )


def parser() -> argparse.ArgumentParser:
    """The parser of all commands; it raises UsageError for what it can't take."""
    shared = _Parser(add_help=False)
    shared.add_argument("--prefix", metavar="DIR", help="the installation's folder")
    shared.add_argument("--json", action="store_true", help="one JSON document as result")
    shared.add_argument("--quiet", action="store_true", help="no narration")
    shared.add_argument("--media", type=Path, help=argparse.SUPPRESS)
    shared.add_argument("--manifest", default="", help=argparse.SUPPRESS)
    shared.add_argument("--stage", type=Path, help=argparse.SUPPRESS)
    whole = _Parser(
        prog="bundlectl",
        description="Install, run and audit a vLLM bundle on a host without a network.",
        epilog=_EXAMPLES + exitcodes.table(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    whole.add_argument("--version", action="version", version=f"vllm-bundle {__version__}")
    commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True)

    def command(name: str, about: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=about, description=about, parents=[shared])

    for name, about in (
        ("install", "check the host, unpack, start, prove with one answer (the default)"),
        ("preflight", "compare what the bundle needs with this host; change nothing"),
    ):
        sub = command(name, about)
        sub.add_argument("--port", type=_port, help="TCP port of the server (default 8000)")
        sub.add_argument(
            "--ignore",
            action="append",
            default=[],
            metavar="CHECK",
            help="take a failed check as a warning; it is kept in the receipt",
        )
        _volumes_in(sub)
        sub.add_argument(
            "--next-medium", action="store_true", help="ask for volumes that are not at hand"
        )
        if name == "install":
            sub.add_argument(
                "--allow-downgrade",
                action="store_true",
                help="take a bundle that is older than one of the same model installed before",
            )
            sub.add_argument(
                "--thinking",
                type=_switch,
                metavar="on|off",
                help="whether the model thinks where a request does not say",
            )
            sub.add_argument("--foreground", action="store_true", help="stay with the server")
            sub.add_argument("--no-start", action="store_true", help="install only")
    for name, about in (
        ("start", "start the release in service and wait for one answer"),
        ("restart", "start it anew, with the settings of now; no request is lost"),
    ):
        sub = command(name, about)
        sub.add_argument("--foreground", action="store_true", help="stay with the server")
    command("stop", "end the server and all its processes, once it has answered its requests")
    command("status", "what runs, since when, where")
    sub = command("logs", "the end of the server's log")
    sub.add_argument("--lines", type=_count, default=50, metavar="N", help="how many (default 50)")
    sub.add_argument("-f", "--follow", action="store_true", help="and what is written from now on")
    sub = command("ask", "one question to the server")
    sub.add_argument("text")
    sub.add_argument("--thinking", type=_switch, metavar="on|off")
    sub.add_argument("--max-tokens", type=_count, default=64, metavar="N")
    command("models", "the installed models, and which one is served")
    sub = command("use", "serve another installed model, once it has answered")
    sub.add_argument("model", metavar="NAME", help="a model's name, or NAME@REVISION")
    sub.add_argument("--release", default="", metavar="ID", help="with another release")
    sub.add_argument(
        "--stop-first",
        action="store_true",
        help="stop the server before the new one is tried: for hosts with memory for only one",
    )
    sub = command("audit", "compare every byte, name, mode and link with the manifest")
    sub.add_argument("path", nargs="?", type=Path, help="a bundle's folder or a prefix")
    _volumes_in(sub)
    sub = command("repair", "replace what the audit finds wrong, from the bundle's medium")
    sub.add_argument(
        "--from", dest="medium", type=Path, metavar="MEDIA", help="the bundle's folder"
    )
    _volumes_in(sub)
    sub.add_argument(
        "--next-medium", action="store_true", help="ask for volumes that are not at hand"
    )
    sub.add_argument(
        "--remove-extra",
        action="store_true",
        help="remove what lies in its folders and is not listed",
    )
    sub.add_argument("--dry-run", action="store_true", help="say what would be done")
    sub = command("restore", "write a whole copy of a damaged medium that has parity")
    sub.add_argument(
        "--to", dest="target", type=Path, required=True, metavar="FOLDER", help="a new folder"
    )
    _volumes_in(sub)
    sub.add_argument(
        "--next-medium", action="store_true", help="ask for files that are not at hand"
    )
    sub.add_argument("--trusted-list", help=argparse.SUPPRESS)
    return whole


def command_first(words: list[str]) -> list[str]:
    """Put the command before its options; it is `install` where none is named."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        if words[place] in ("-h", "--help", "--version"):
            return [words[place]]
        place += 2 if words[place] in _VALUED else 1
    command = words[place] if place < len(words) else "install"
    return [command, *words[:place], *words[place + 1 :]]
