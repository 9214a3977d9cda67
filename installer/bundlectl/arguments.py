"""The words that bundlectl understands."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from bundlectl import vulnsarguments
from bundlectl.exports import KINDS
from manifests import __version__, exitcodes
from manifests.errors import UsageError
from manifests.manual.topics import LANGUAGES

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
  sh install.sh help TOPIC                 the manual, here and in bundlectl (--lang zh: Chinese)

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
    "--unset",
    "--instance",
    "--keep",
    "--gpus",
    "--model",
    "--lang",
    "--output",
    "--log-lines",
    "--log",
    "--account",
    "--listen",
    "--name",
    "--python",
    "--into-python",
    "--keep-caches",
    "--format",
    "--sample",
    "--seed",
    "--max-rate",
    "--jobs",
    "--resume",
    "--report",
    "--database",
    "--fail-on",
    "--unknown-as",
    "--today",
    "--max-age",
}

#: manifests.audit.FORMATS, which takes longer to load than most commands take.
_FORMATS = ("text", "json", "html", "junit", "sarif")


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


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) > 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1000000")
    return int(text)


def _label(text: str) -> str:
    if not text.isprintable() or len(text) > 100:
        raise argparse.ArgumentTypeError(
            f"{text!r:.120} is no plain text of at most 100 characters"
        )
    return text


def _volumes_in(sub: argparse.ArgumentParser) -> None:
    sub.add_argument(
        "--volumes-in",
        action="append",
        default=[],
        type=Path,
        metavar="DIR",
        help="another folder with volumes of the bundle; may be repeated",
    )


def _reading(sub: argparse.ArgumentParser) -> None:
    """How an audit reads, and in which form it answers."""
    sub.add_argument("--format", choices=_FORMATS, default="text", help="of the answer")
    sub.add_argument("--output", type=Path, metavar="FILE", help="write the answer there")
    sub.add_argument("--lang", choices=LANGUAGES, default="en", help="of the HTML page")
    sub.add_argument(
        "--sample",
        default="",
        metavar="PART",
        help="read the bytes of so many files (200), or of a share of them (5%%)",
    )
    sub.add_argument("--seed", default="", help="draw the sample that was drawn with this seed")
    sub.add_argument(
        "--max-rate", default="", metavar="SIZE", help="bytes a second at the most: 100M"
    )
    sub.add_argument(
        "--jobs", type=_count, default=0, metavar="N", help="threads that read an installation"
    )
    sub.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="keep there what was found right, and go on with it after an interruption",
    )
    sub.add_argument(
        "--sums", action="store_true", help="print a list for sha256sum -c, and audit nothing"
    )


def parser() -> argparse.ArgumentParser:
    """The parser of all commands; it raises UsageError for what it can't take."""
    shared = _Parser(add_help=False)
    shared.add_argument("--prefix", metavar="DIR", help="the installation's folder")
    shared.add_argument(
        "--instance", default="", metavar="NAME", help="another server of it (see: instances)"
    )
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
        sub.add_argument(
            "--into-python",
            default="",
            metavar="PATH",
            help="the interpreter of the environment that an overlay bundle is put on",
        )
        _volumes_in(sub)
        sub.add_argument(
            "--next-medium", action="store_true", help="ask for volumes that are not at hand"
        )
        if name == "preflight":
            sub.add_argument("--all", action="store_true", help="tell the checks that passed too")
            sub.add_argument("--list", action="store_true", help="the table of checks, and no more")
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
    sub = command("doctor", "what is wrong with the server: cause, evidence and mend")
    sub.add_argument(
        "--log",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="this log instead of the server's own (also .gz, - for standard input); repeatable",
    )
    sub.add_argument(
        "--foreign",
        action="store_true",
        help="the log is another machine's: ask this one nothing",
    )
    sub.add_argument("--all", action="store_true", help="also what is unlikely, with its reason")
    sub.add_argument("--lang", choices=("en", "zh"), default="en", help="of causes and mends")
    sub = command("support", "write one text without secrets, for whoever helps")
    sub.add_argument(
        "--output", type=Path, metavar="FILE", help="where (default: a new file in this folder)"
    )
    sub.add_argument(
        "--log-lines", type=_count, default=300, metavar="N", help="of each log (default 300)"
    )
    sub.add_argument(
        "--anonymous", action="store_true", help="no names of users and hosts, no addresses"
    )
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
    sub = command("config", "show, change or check the settings of the server (etc/serve.toml)")
    sub.add_argument("action", choices=("show", "set", "check"))
    sub.add_argument("key", nargs="?", metavar="KEY", help="a key, or environment.NAME")
    sub.add_argument("value", nargs="?", metavar="VALUE", help='lists as TOML: ["--seed", "0"]')
    sub.add_argument("--unset", metavar="KEY", help="set: go back to the key's default")
    sub.add_argument("--restart", action="store_true", help="set: and restart the server")
    sub.add_argument("--arguments", action="store_true", help="show: what the server is given")
    sub.set_defaults(foreground=False)
    sub = command("rehearse", "try a start with random weights; what serves is left alone")
    sub.add_argument("--model", default="", metavar="NAME", help="with the shape of another model")
    sub.add_argument("--release", default="", metavar="ID", help="another release")
    sub.add_argument(
        "--keep-caches",
        type=Path,
        metavar="FILE",
        help="write what the server has compiled there, for bundle create --caches",
    )
    sub = command("audit", "compare every byte, name, mode and link with the manifest")
    sub.add_argument("path", nargs="?", type=Path, help="a bundle's folder or a prefix")
    sub.add_argument(
        "--record", action="store_true", help="keep the answer in state/audit.json, for status"
    )
    sub.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write what is installed for people to sign: a page (.html) or data (.json)",
    )
    sub.add_argument(
        "--name", default="", type=_label, metavar="TEXT", help="what --report calls this host"
    )
    _reading(sub)
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
    _installation(command)
    _surroundings(command)
    sub = command("help", "the manual: its topics, or one of them")
    sub.add_argument("topic", nargs="?", metavar="TOPIC")
    sub.add_argument("--lang", choices=LANGUAGES, help="en or zh (default: the locale's)")
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


def _installation(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """The commands about releases and instances."""
    command("releases", "the installed releases, and where they serve")
    sub = command(
        "rollback", "serve what served before, once it has answered; twice: there and back"
    )
    sub.add_argument("--to", dest="target", default="", metavar="ID", help="this release instead")
    sub.add_argument("--audit", action="store_true", help="read every byte of it first")
    sub.add_argument("--stop-first", action="store_true", help="as with use")
    sub = command("prune", "remove releases that serve nowhere and did not serve before")
    sub.add_argument(
        "--keep",
        type=_number,
        metavar="N",
        help="keep the N latest beside those in service, whether they served before or not",
    )
    sub.add_argument("--models", action="store_true", help="bundles of models alone, too")
    sub.add_argument("--dry-run", action="store_true", help="say what would be done")
    sub = command("uninstall", "stop every server and remove the installation")
    sub.add_argument("--keep-models", action="store_true", help="the next install finds them")
    sub.add_argument("--keep-settings", action="store_true", help="etc/, the API key included")
    sub.add_argument("--yes", action="store_true", help="don't ask")
    sub.add_argument("--dry-run", action="store_true", help="say what would be done")
    command("instances", "the servers of the installation: release, model, port, GPUs")
    sub = command("instance", "make another server of the installation, or remove it")
    sub.add_argument("action", choices=("create", "remove"))
    sub.add_argument("name", metavar="NAME")
    sub.add_argument("--port", type=_port, help="its TCP port")
    sub.add_argument("--gpus", default="", metavar="LIST", help="its GPUs: 0,1 or GPU-… or MIG-…")
    sub.add_argument("--model", default="", metavar="NAME", help="what it serves (see: models)")
    sub.add_argument("--release", default="", metavar="ID", help="with another release")
    sub.add_argument("--yes", action="store_true", help="don't ask")


def _surroundings(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """The commands about what the host has around the server."""
    sub = command("service", "the server as a systemd unit: install, remove or show it")
    sub.add_argument("action", choices=("install", "remove", "show"))
    sub.add_argument("--user", action="store_true", help="for this account's own systemd")
    sub.add_argument("--account", default="", metavar="NAME", help="run it as this account")
    sub.add_argument(
        "--boot",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="start at boot (the default), or only when told",
    )
    sub.add_argument(
        "--audit", default="", metavar="WHEN", help="audit on a timer: daily, weekly, an OnCalendar"
    )
    sub.add_argument("--force", action="store_true", help="also units that were changed by hand")
    sub.add_argument("--dry-run", action="store_true", help="show the units, write nothing")
    sub = command("inventory", "list a Python environment of this host, to lay a bundle over it")
    sub.add_argument(
        "--python", type=Path, required=True, metavar="PATH", help="the environment's interpreter"
    )
    sub.add_argument("--output", type=Path, metavar="FILE", help="write it there")
    vulnsarguments.add(command)
    sub = command("export", "a file for a proxy or for monitoring, ready for this installation")
    sub.add_argument("kind", choices=KINDS)
    sub.add_argument("--to", dest="target", type=Path, metavar="FILE", help="write it there")
    sub.add_argument(
        "--listen", type=_port, default=443, metavar="PORT", help="of the proxy (default 443)"
    )
    sub.add_argument("--name", default="_", metavar="HOST", help="clients call it that")


def command_first(words: list[str]) -> list[str]:
    """Put the command before its options; it is `install` where none is named."""
    place = 0
    while place < len(words) and words[place].startswith("-"):
        if words[place] in ("-h", "--help", "--version"):
            return [words[place]]
        place += 2 if words[place] in _VALUED else 1
    command = words[place] if place < len(words) else "install"
    return [command, *words[:place], *words[place + 1 :]]
