"""`bundle sbom`: what is in a bundle, for programs that look for known faults and licences."""

from pathlib import Path

import click

from bundler import inspecting, whole
from bundler.commands.billing import ways
from bundler.options import EXIT_CODES, voice
from bundler.papers import gathering, gathering_tree, outside, sbom
from bundler.papers.gathering import Ways
from manifests.bundle import digest_of
from manifests.console import Console

_EPILOG = f"""\b
Examples:
  bundle sbom /media/usb/NAME --output sbom.cdx.json
  bundle sbom /opt/vllm-bundle                   the release in service
  bundle sbom bundle.lock --model ./my-model     before the bundle is made
  bundle sbom NAME --recompute | cmp - sbom.cdx.json

The same bytes from all three. A bundle's own is compared with the manifest's digest; --recompute
reads each package again. What a lock names is fetched, as `bundle create` does.

{EXIT_CODES}"""


@click.command(name="sbom", epilog=_EPILOG)
@click.argument("place", type=Path, metavar="NAME_OR_LOCK")
@click.option("--output", type=Path, help="Write it to a file.")
@ways
@voice
def command(
    place: Path,
    output: Path | None,
    volumes_in: tuple[Path, ...],
    recompute: bool,
    ways: Ways,
    console: Console,
) -> None:
    """Write the bill of materials as CycloneDX 1.6 (JSON).

    NAME_OR_LOCK is a bundle's folder, an installation's prefix, a release's folder in it, or a
    bundle.lock.
    """
    outside.check(output, place)
    data = b"" if recompute else _carried(place, volumes_in)
    if not data:
        bill = gathering.of_place(place, ways, console, volumes_in, recompute=recompute)
        data = sbom.render(bill)
    if output is None:
        click.echo(data, nl=False)
        return
    whole.write(output, data, "writing the bill of materials")
    record = {"sbom": str(output), "sha256": digest_of(data), "size": len(data)}
    console.result(record, f"{output}: CycloneDX 1.6, sha256 {record['sha256']}")


def _carried(place: Path, volumes_in: tuple[Path, ...]) -> bytes:
    """The document that a bundle carries; empty where there is none."""
    subject = inspecting.find_or_lock(place, volumes_in)
    if subject.manifest is None:
        return b""
    return gathering_tree.members_of(subject, {sbom.MEMBER}).get(sbom.MEMBER, b"")
