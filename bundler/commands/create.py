"""`bundle create`: make a bundle."""

from dataclasses import replace
from pathlib import Path

import click

from bundler import create as creating
from bundler import signing
from bundler.commands.passphrase import of_key
from bundler.options import EPILOG, Settings, request, voice, written
from bundler.papers import rules
from bundler.parity import parse_percent
from bundler.plan import plan, render, without_download
from bundler.request import Request
from bundler.workshop import Workshop
from manifests.console import Console, size
from manifests.errors import UsageError
from manifests.volumes import parse_size
from manifests.vulns_report import THRESHOLDS


@click.command(name="create", cls=Settings, epilog=EPILOG)
@request
@written
@click.option(
    "--model-only", is_flag=True, help="Models alone, for an installation that has the release."
)
@click.option(
    "--for",
    "extends",
    type=Path,
    metavar="BUNDLE_OR_LOCK",
    help="With --model-only: the installed bundle, or its bundle.lock.",
)
@click.option(
    "--parity",
    default="",
    metavar="PERCENT",
    help="Add what mends a scratched medium, 5% for one (see `bundle parity`).",
)
@click.option(
    "--caches",
    type=Path,
    multiple=True,
    metavar="FILE",
    help="Carry what a rehearsal has compiled (`bundle rehearse --keep-caches`); repeatable.",
)
@click.option(
    "--licence-policy",
    type=Path,
    metavar="FILE",
    help="Which licences may go in, and which stop it (see `bundle licences`).",
)
@click.option(
    "--accept-licences", is_flag=True, help="Take what the policy would have somebody look at."
)
@click.option(
    "--vulns-database",
    type=Path,
    metavar="FILE",
    help="Known vulnerabilities (see `bundle vulns-database`): count them.",
)
@click.option(
    "--fail-on",
    type=click.Choice(THRESHOLDS),
    show_default="nothing",
    help="With --vulns-database: stop where one has this level or a worse one.",
)
@click.option("--vulns-ignore", type=Path, metavar="FILE", help="Which of them are taken, and why.")
@click.option("--dry-run", is_flag=True, help="Show what would be made; download nothing.")
@click.option("--force", is_flag=True, help="Replace a bundle of the same name.")
@click.option(
    "--sign-key", type=Path, help="Sign the bundle with this private key (`bundle sign`)."
)
@click.option("--passphrase-file", type=Path, help="The key's passphrase, in a file's first line.")
@voice
def command(
    request: Request,
    workshop: Workshop,
    console: Console,
    dry_run: bool,
    volume_size: str,
    parity: str,
    sign_key: Path | None,
    passphrase_file: Path | None,
) -> None:
    """Make a bundle: lock, fetch, build, pack, write."""
    most = parse_size(volume_size) if volume_size else 0
    percent = parse_percent(parity) if parity else 0
    must = rules.load(request)
    draft = creating.draft(request, replace(workshop, tell=console.say))
    if dry_run:
        answer = plan(draft, without_download(draft, console), volume_size=most, ask=False)
        console.result(answer.as_record(), render(answer))
        return
    if request.lock is not None and not request.lock.exists():
        raise UsageError(f"{request.lock}: no such lock", mend="make it with `bundle lock`")
    # The key is opened before the long work, which would be for nothing without it.
    signer = None
    if sign_key is not None:
        signer = signing.load_signer(sign_key, of_key(sign_key, passphrase_file))
    locked = creating.lock(draft, console)
    made = creating.create(draft, locked, console, most, percent, must)
    signed_by = signing.sign(made.folder, signer).fingerprint if signer is not None else ""
    record = {
        "bundle": str(made.folder),
        "manifest_sha256": made.digest,
        "size": made.size,
        "flavour": made.manifest.flavour,
        "signed_by": signed_by,
        "unpublished": list(made.manifest.unpublished),
        "risks": list(made.manifest.risks),
        "delta": None if made.saving is None else made.saving.as_record(),
        "caches": [{"path": one.member.path, **vars(one.header.key)} for one in draft.carried],
        "notes": [*draft.choice.notes, *draft.sources.ignored, *made.remarks, *made.notes],
    }
    for sentence in (*draft.choice.notes, *draft.sources.ignored, *made.remarks):
        console.say(f"note: {sentence}")
    if made.notes:
        seen = f"bundle kernels {made.folder}, bundle elf {made.folder}"
        console.say(f"note: {len(made.notes)} remarks about single libraries (see: {seen})")
    carried = [f"compile caches: {one.summary}" for one in draft.carried]
    risks = [f"can run code: {risk}" for risk in made.manifest.risks]
    notes = [f"note: {note}" for note in (*made.manifest.unpublished, *risks)]
    lines = [
        *notes,
        f"{made.folder}: {size(made.size)}, {made.manifest.stack} ({made.manifest.flavour})",
        *carried,
        *([f"a delta: {made.saving.text()}"] if made.saving is not None else []),
        f"manifest sha256: {made.digest}",
        *([f"signed by the key {signed_by}"] if signed_by else []),
        f"on the isolated host: sh {made.folder.name}/install.sh",
    ]
    console.result(record, "\n".join(lines))
