"""`bundle record`: one page that says what is to be let in, for people to sign."""

from pathlib import Path

import click

from bundler import inspecting, signing, whole
from bundler.options import EXIT_CODES, voice, volumes_in
from bundler.papers import (
    approval,
    approvallooked,
    approvalpdf,
    approvalpictures,
    gathering,
    outside,
)
from bundler.papers.bill import Bill
from manifests import approval as records
from manifests import approvalpage
from manifests.approvalmarks import grouped
from manifests.console import Console
from manifests.records import to_data
from wheelhouse.members import size_of

_EPILOG = f"""\b
Examples:
  bundle record NAME --html approval.html --language both --key vllm-bundle.pub.pem
  bundle record NAME --html approval.html --vulns vulns.json
  bundle record NAME --pdf approval.pdf --language zh
  bundle record NAME --json >approval.json

Print the page from a browser: A4, one sheet for an ordinary bundle. It holds its own data; after
`bundlectl audit --report` on the isolated host, `bundle compare-records` compares the two.

{EXIT_CODES}"""


@click.command(name="record", epilog=_EPILOG)
@click.argument("place", type=Path, metavar="NAME")
@click.option("--html", type=Path, metavar="FILE", help="Write the page there.")
@click.option("--pdf", type=Path, metavar="FILE", help="Write it as PDF (needs WeasyPrint).")
@click.option(
    "--language",
    type=click.Choice(records.LANGUAGES),
    default="en",
    show_default=True,
    help="Of the page.",
)
@click.option("--key", type=Path, metavar="PUB", help="Check the signature with this public key.")
@click.option(
    "--vulns", type=Path, metavar="FILE", help="What `bundle vulns --format json` said of it."
)
@volumes_in
@voice
def command(
    place: Path,
    html: Path | None,
    pdf: Path | None,
    language: str,
    key: Path | None,
    vulns: Path | None,
    volumes_in: tuple[Path, ...],
    console: Console,
) -> None:
    """Write the approval record of a bundle: what, from where, for which target, digests.

    The digests are those that SHA256SUMS, the manifest and the lock state; `bundle audit` compares
    the bytes with them.
    """
    outside.check(html, place, "--html")
    outside.check(pdf, place, "--pdf")
    subject = inspecting.find(place, volumes_in)
    trusted = signing.load_public(key) if key is not None else ()
    lock = approval.check(subject).digest()
    looked = approvallooked.vulnerabilities_of(vulns, lock) if vulns is not None else None
    licences = approvallooked.licences_of(_bill(subject, console))
    made = approval.record(subject, trusted, licences, looked)
    page = approvalpage.render(made, language, approvalpictures.draw)
    if html is not None:
        whole.write(html, page.encode(), "writing the record")
    if pdf is not None:
        whole.write(pdf, approvalpdf.pdf(page), "writing the record")
    digest = grouped(made.medium.list_sha256)
    text = f"{made.release.name}\nsha256 of SHA256SUMS: {digest}"
    written = [f"written: {path}" for path in (html, pdf) if path is not None]
    console.result(to_data(made), "\n".join((text, *written)))


def _bill(subject: inspecting.Subject, console: Console) -> Bill:
    if (kept := gathering.carried(subject)) is not None:
        return kept
    with console.stage("read the packages", size_of(subject.environment)) as progress:
        return gathering.of_subject(subject, progress)
