"""`bundle verify`: who signed a bundle, and whether every byte is what was signed."""

from pathlib import Path

import click

from bundler import signing
from bundler.options import EXIT_CODES, voice
from manifests import audit
from manifests.audit.report import size_of
from manifests.console import Console
from manifests.errors import from_oserror
from manifests.exitcodes import ExitCode

_EPILOG = f"""\b
Examples:
  bundle verify /media/usb/NAME --key vllm-bundle.pub.pem
  bundle verify /media/usb/NAME --key allowed_signers

{EXIT_CODES}"""


@click.command(name="verify", epilog=_EPILOG)
@click.argument("folder", type=Path, metavar="NAME")
@click.option(
    "--key", type=Path, required=True, help="Whom to trust: PEM, .pub or allowed_signers file."
)
@voice
def command(folder: Path, key: Path, console: Console) -> int:
    """Check a bundle's signature, then every byte of it. Exit 0: good, 1: not."""
    signed = signing.verify(folder, signing.load_public(key))
    console.say(f"good signature, by the {signed.text()}")
    try:
        with console.stage(f"audit {folder}", size_of(folder)) as progress:
            report = audit.audit_media(folder, progress)
    except OSError as error:
        raise from_oserror(error, "auditing") from None
    record = {
        "signature": {
            "format": signed.form,
            "type": signed.kind,
            "key": signed.fingerprint,
            "principals": signed.principals,
        },
        **report.as_record(),
    }
    console.result(record, f"{report.text()}\nsigned by: {signed.text()}")
    return ExitCode.OK if report.intact else ExitCode.INTEGRITY
