"""`bundle vulns-database`: reduce a publisher's dump of vulnerabilities to one file to carry."""

from pathlib import Path

import click

from bundler import inspecting, whole
from bundler.options import EXIT_CODES, voice
from bundler.papers import vulns
from manifests.console import Console, size

_EPILOG = f"""\b
Examples:
  bundle vulns-database osv.json --from all.zip             OSV's dump of PyPI
  bundle vulns-database osv.json --from all.zip --for NAME  what concerns one bundle: much smaller
  bundle vulns-database pypa.json --from advisory-database  PyPA's repository, or a zip of it

OSV distributes https://osv-vulnerabilities.storage.googleapis.com/PyPI/all.zip. The same dump gives
the same file, dated by its newest record. Records that are aliases of each other become one.

{EXIT_CODES}"""


@click.command(name="vulns-database", epilog=_EPILOG)
@click.argument("file", type=Path, metavar="FILE")
@click.option(
    "--from",
    "dump",
    type=Path,
    required=True,
    metavar="DUMP",
    help="Zip file or folder of records in the OSV schema, JSON or YAML.",
)
@click.option(
    "--for",
    "places",
    type=Path,
    multiple=True,
    metavar="PLACE",
    help="Keep what concerns this bundle, lock or installation; may be repeated.",
)
@voice
def command(file: Path, dump: Path, places: tuple[Path, ...], console: Console) -> None:
    """Make a database of known vulnerabilities for `bundle vulns` and `bundlectl vulns`."""
    wanted: set[str] = set()
    for place in places:
        wanted |= vulns.names(vulns.of_subject(inspecting.find_or_lock(place)))
    with console.stage(f"reduce {dump.name}"):
        made = vulns.make_database(dump, wanted)
    data = made.dump()
    whole.write(file, data, "writing the database")
    record = {
        "path": str(file),
        "date": made.date,
        "records": made.records,
        "vulnerabilities": len(made.vulnerabilities),
        "packages": len(made.packages),
        "source_sha256": made.source_sha256,
    }
    told = (
        f"written: {file} ({size(len(data))}): {len(made.vulnerabilities)} vulnerabilities, "
        f"newest record of {made.date}"
    )
    console.result(record, told)
