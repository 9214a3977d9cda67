"""`bundle keygen`: a key pair that signs bundles."""

from pathlib import Path

import click

from bundler import signing
from bundler.commands.passphrase import first_line, new
from bundler.options import EXIT_CODES, voice
from manifests.console import Console

_EPILOG = f"""\b
Examples:
  bundle keygen --out ~/keys --passphrase
  bundle sign /media/usb/NAME --key ~/keys/vllm-bundle.key

\b
Bring the public key to the isolated host by another road than the bundle. Keep the private key on
the machine that signs.

{EXIT_CODES}"""


@click.command(name="keygen", epilog=_EPILOG)
@click.option(
    "--out", type=Path, default=Path(), help="A folder, or the private key's file; default: here."
)
@click.option("--passphrase", is_flag=True, help="Ask for a passphrase for the private key.")
@click.option("--passphrase-file", type=Path, help="Take the passphrase from a file's first line.")
@voice
def command(out: Path, passphrase: bool, passphrase_file: Path | None, console: Console) -> None:
    """Make an ECDSA P-256 key pair, for openssl and for ssh-keygen. Overwrites nothing."""
    secret = ""
    if passphrase_file is not None:
        secret = first_line(passphrase_file)
    elif passphrase:
        secret = new()
    pair = signing.write_pair(out, secret)
    record = {
        "private_key": str(pair.private),
        "public_key": str(pair.public),
        "allowed_signers": str(pair.allowed),
        "fingerprint": pair.fingerprint,
    }
    lines = [
        f"private key:     {pair.private}  (keep it here, and secret)",
        f"public key:      {pair.public}  (openssl)",
        f"the same:        {pair.allowed}  (ssh-keygen)",
        f"fingerprint:     {pair.fingerprint}",
    ]
    console.result(record, "\n".join(lines))
