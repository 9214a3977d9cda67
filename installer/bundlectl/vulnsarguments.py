"""The words of the command `vulns`."""

import argparse
from collections.abc import Callable
from pathlib import Path

from manifests.vulns import LEVELS
from manifests.vulns_report import THRESHOLDS
from manifests.vulns_text import LANGUAGES


def _days(text: str) -> int:
    if not text.isdecimal() or int(text) > 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days")
    return int(text)


def add(command: Callable[[str, str], argparse.ArgumentParser]) -> None:
    """Add them to the parser."""
    sub = command("vulns", "known vulnerabilities of what is installed, by a database on the disk")
    sub.add_argument(
        "--database",
        type=Path,
        required=True,
        metavar="FILE",
        help="carried here; bundle vulns-database makes it",
    )
    sub.add_argument("--release", default="", metavar="ID", help="another than the one in service")
    sub.add_argument("--fail-on", choices=THRESHOLDS, default="", help="end with 2 from there on")
    sub.add_argument("--ignore", type=Path, metavar="FILE", help="TOML list of what is taken")
    sub.add_argument(
        "--unknown-as", choices=LEVELS, default="high", help="where nobody says how bad it is"
    )
    sub.add_argument(
        "--today", default="", metavar="DATE", help="instead of this host's clock: 2026-12-01"
    )
    sub.add_argument("--max-age", type=_days, metavar="DAYS", help="refuse an older database")
    sub.add_argument("--lang", choices=LANGUAGES, default="en", help="of the report")
