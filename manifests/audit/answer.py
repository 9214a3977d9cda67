"""Where an audit's answer goes, and in which form: the same on both sides."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manifests import synced
from manifests.audit import forms
from manifests.audit.report import Report
from manifests.console import Console
from manifests.errors import FilesystemError, UsageError, from_oserror


@dataclass(frozen=True)
class Answer:
    """What was asked for. Without `output` the form itself is the result."""

    form: str = forms.TEXT
    output: Path | None = None
    language: str = "en"  # of the page

    def give(self, report: Report, console: Console) -> None:
        """Write the file, and tell the result, also where the file can't be written.

        Raises FilesystemError.
        """
        shown = forms.TEXT if self.output is not None else self.form
        try:
            if self.output is not None:
                write(self.output, forms.render(report, self.form, self.language))
        finally:
            text = forms.render(report, shown, self.language)
            console.result(report.as_record(), text.rstrip("\n"))

    def check(self, console: Console) -> None:
        """Raises UsageError where two forms are wanted of one standard output."""
        if console.json and self.output is None and self.form not in (forms.TEXT, forms.JSON):
            raise UsageError(
                f"--json and --format {self.form} are two forms of one answer",
                mend="leave one out, or name a file for the other: --output FILE",
            )


def check_outside(path: Path | None, option: str, audited: tuple[Path, ...]) -> None:
    """Refuse a file that can't be written, or lies in what is audited, before hours of reading.

    Raises UsageError, FilesystemError.
    """
    if path is None:
        return
    place = path.parent.resolve() / path.name
    for folder in audited:
        if any(one.is_relative_to(folder.resolve()) for one in (place, place.resolve())):
            raise UsageError(
                f"{option} {path} lies in {folder}",
                why="an audit writes nothing into what it audits",
                mend="name a file elsewhere",
            )
    if not path.parent.is_dir() or (path.exists() and not path.is_file()):
        raise FilesystemError(
            f"{option} {path}: no such folder, or no file itself", mend="name a file in a folder"
        )
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise FilesystemError(
            f"{option} {path}: nothing can be written into {path.parent}",
            mend="name a file in a folder that this account may write",
        )


def check_apart(files: Mapping[str, Path | None]) -> None:
    """Refuse two options that name one file, of which only the last would be kept.

    Raises UsageError.
    """
    seen: dict[Path, str] = {}
    for option, path in files.items():
        if path is None:
            continue
        other = seen.setdefault(path.parent.resolve() / path.name, option)
        if other != option:
            raise UsageError(f"{other} and {option} are one file: {path}", mend="name two files")


def write(path: Path, text: str) -> None:
    """Write an answer: all of it or nothing. Raises FilesystemError."""
    try:
        synced.replace(path, text.encode("utf-8", "backslashreplace"), 0o644)
    except OSError as error:
        raise from_oserror(error, "writing the audit's answer", path) from error
