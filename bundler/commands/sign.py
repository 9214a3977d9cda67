"""`bundle sign`: put a signature beside a bundle's list."""

import stat
from pathlib import Path

import click

from bundler import signing
from bundler.commands.passphrase import of_key
from bundler.options import EXIT_CODES, voice
from bundler.signing.sidecar import sign_sidecar
from manifests.console import Console
from manifests.signature import NAMESPACE, OPENSSL, SSH

_EPILOG = f"""\b
Examples:
  bundle sign /media/usb/NAME --key vllm-bundle.key
  bundle sign /media/usb/NAME --key ~/.ssh/id_ed25519
  ssh-keygen -Y sign -n {NAMESPACE} -f ~/.ssh/id_ed25519_sk /media/usb/NAME/SHA256SUMS

\b
The last one is for keys in hardware or in an agent: it writes the same file.

{EXIT_CODES}"""


@click.command(name="sign", epilog=_EPILOG)
@click.argument("folder", type=Path, metavar="NAME")
@click.option("--key", type=Path, required=True, help="A private key of openssl or ssh-keygen.")
@click.option(
    "--format",
    "form",
    type=click.Choice([OPENSSL, SSH]),
    help="Who checks the signature; default: whose form the key has.",
)
@click.option("--passphrase-file", type=Path, help="Take the passphrase from a file's first line.")
@click.option("--force", is_flag=True, help="Replace the signature that is there.")
@click.option(
    "--model-signing", is_flag=True, help="Write OpenSSF's model.sig, instead of SHA256SUMS.sig."
)
@voice
def command(
    folder: Path,
    key: Path,
    form: str | None,
    passphrase_file: Path | None,
    force: bool,
    model_signing: bool,
    console: Console,
) -> None:
    """Sign a bundle: SHA256SUMS.sig, which the isolated host's openssl or ssh-keygen checks."""
    passphrase = of_key(key, passphrase_file)
    if key.exists() and key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        console.say(f"note: {key} can be read by others; mend: chmod 600 {key}")
    if model_signing:
        path = sign_sidecar(folder, key, passphrase, replace=force)
        line = f"model_signing verify key {folder} --signature {path} --public_key PUB.pem"
        console.result({"sidecar": str(path)}, f"signed: {path}\ncheck it with: {line}")
        return
    signer = signing.load_signer(key, passphrase, form or "")
    made = signing.sign(folder, signer, replace=force)
    record = {"bundle": str(folder), "format": made.form, "key": made.fingerprint}
    console.result(record, f"signed: {folder}, by the {made.text()}, for {made.tool}")
