"""Passphrases: from a terminal or a file. Never from the command line, which others can read."""

import sys
from pathlib import Path

import click

from bundler.signing.keys import Passphrase
from manifests.errors import UsageError, from_oserror


def first_line(path: Path) -> str:
    """The first line of a file.

    Raises UsageError where it is empty, FilesystemError where it can't be read.
    """
    try:
        with path.open(encoding="utf-8") as handle:
            line = handle.readline().rstrip("\r\n")
    except OSError as error:
        raise from_oserror(error, "reading the passphrase", path) from None
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8 text") from None
    if not line:
        raise UsageError(f"{path}: its first line, the passphrase, is empty")
    return line


def new() -> str:
    """Ask for a new one, twice."""
    answer: str = click.prompt(
        "passphrase for the private key", hide_input=True, confirmation_prompt=True, err=True
    )
    return answer


def of_key(key: Path, file: Path | None) -> Passphrase:
    """How a key that has a passphrase gets it: from the file, or from who sits at the terminal."""

    def ask() -> str:
        if file is not None:
            return first_line(file)
        if not sys.stdin.isatty():
            raise UsageError(
                f"{key}: has a passphrase, and nobody can be asked for it",
                mend="name a file that holds it with --passphrase-file",
            )
        answer: str = click.prompt(f"passphrase of {key}", hide_input=True, err=True)
        return answer

    return ask
