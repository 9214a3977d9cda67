"""`bundle compare-records`: whether what was approved is what is installed."""

from pathlib import Path

import click

from bundler.options import EXIT_CODES, voice
from bundler.papers import approvalcompare
from bundler.papers.approvalpictures import draw
from manifests import approval, approvalpage, regular
from manifests.approval import Approval, Installation, Record
from manifests.approvalmarks import grouped
from manifests.console import Console
from manifests.errors import UsageError, from_oserror
from manifests.exitcodes import ExitCode

_EPILOG = f"""\b
Examples:
  bundle compare-records approval.html installation.html
  bundle compare-records old.json new.json installation.json

Each is a page or a JSON document of `bundle record` or `bundlectl audit --report`. A page is laid
out again from its own data, and refused where it says something else. The digest of the data is
printed on the page: compare it with the sheet that was signed.

{EXIT_CODES}"""


@click.command(name="compare-records", epilog=_EPILOG)
@click.argument("approvals", type=Path, nargs=-1, required=True, metavar="APPROVAL…")
@click.argument("installation", type=Path, metavar="INSTALLATION")
@voice
def command(approvals: tuple[Path, ...], installation: Path, console: Console) -> int:
    """Compare approvals with what an audit found installed. Exit 0: the same, 1: not.

    Every release that is installed has to be approved: name the approval of each.
    """
    signed = [(path, _read(path)) for path in approvals]
    found = _read(installation)
    for path, record in signed:
        if not isinstance(record, Approval):
            raise UsageError(f"{path}: no approval", mend="name approvals first: see --help")
    if not isinstance(found, Installation):
        raise UsageError(
            f"{installation}: no installation record",
            mend="make one on the isolated host with: bundlectl audit --report FILE",
        )
    wanted = [record for _, record in signed if isinstance(record, Approval)]
    verdict = approvalcompare.compare(wanted, found)
    read = {str(path): approval.digest(record) for path, record in (*signed, (installation, found))}
    lines = [f"{path}: sha256 of its data {grouped(digest)}" for path, digest in read.items()]
    console.result(verdict.as_record() | {"records": read}, "\n".join((*lines, verdict.text())))
    return ExitCode.OK if verdict.same else ExitCode.INTEGRITY


def _read(path: Path) -> Record:
    try:
        data = regular.read(path, approvalpage.LIMIT)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file", mend="name a record") from None
    except OSError as error:
        raise from_oserror(error, "reading a record", path) from None
    return approvalpage.read(data, str(path), draw)
