"""`bundle provenance`: where a bundle comes from, as a signed statement beside its folder."""

import os
from pathlib import Path

import click

from bundler.commands.passphrase import of_key
from bundler.options import EXIT_CODES, voice, volumes_in
from bundler.papers import dsse, outside, provenance, provenance_check, provenance_proof
from bundler.papers.provenance import Finished
from bundler.papers.provenance_reading import look, read
from manifests import synced
from manifests.console import Console
from manifests.errors import UsageError, from_oserror

_EPILOG = f"""\b
Examples:
  bundle provenance /media/usb/NAME --key vllm-bundle.key
  bundle provenance /media/usb/NAME --rehearsal NAME.rehearsal.json --output NAME.json
  bundle provenance /media/usb/NAME --verify NAME.provenance.json --key vllm-bundle.pub.pem

\b
By hand, with openssl and coreutils (FILE is one line; PUB.pem came by another road):
{dsse.BY_HAND}

`statement` is then in-toto's, with SLSA provenance (https://slsa.dev/spec/v1.0/provenance), and
its subjects have the digests of SHA256SUMS. Files are compared with those by `sha256sum -c`, or
`bundle audit`.

{EXIT_CODES}"""


@click.command(name="provenance", epilog=_EPILOG)
@click.argument("place", type=Path, metavar="NAME")
@click.option(
    "--key", type=Path, help="Sign with this private key; with --verify: the signer's public key."
)
@click.option("--passphrase-file", type=Path, help="Take the passphrase from a file's first line.")
@click.option(
    "--rehearsal",
    type=Path,
    metavar="FILE",
    help="The rehearsal's proof; NAME.rehearsal.json beside the bundle otherwise.",
)
@click.option("--output", type=Path, metavar="FILE", help="NAME.provenance.json otherwise.")
@click.option("--force", is_flag=True, help="Replace the file that is there.")
@click.option(
    "--builder-id",
    default="",
    metavar="URI",
    help="Who made the bundle; else nobody is named.",
)
@click.option("--verify", type=Path, metavar="FILE", help="Compare this file with the bundle.")
@volumes_in
@voice
def command(
    place: Path,
    key: Path | None,
    passphrase_file: Path | None,
    rehearsal: Path | None,
    output: Path | None,
    force: bool,
    builder_id: str,
    verify: Path | None,
    volumes_in: tuple[Path, ...],
    console: Console,
) -> None:
    """State where a bundle comes from: its inputs by digest, its parameters, its rehearsal.

    The statement follows from the bundle alone, so that --verify makes it again and compares.
    """
    if verify is not None and (output or builder_id or force or passphrase_file):
        raise UsageError(
            "--verify writes nothing",
            mend="leave --output, --force, --builder-id and --passphrase-file out",
        )
    if builder_id and not provenance.is_builder(builder_id):
        raise UsageError(
            "--builder-id: no URI that can be published",
            mend="give one without blanks, user or password, such as https://ci.example/builder",
        )
    if verify is not None:
        _verify(place, volumes_in, verify, key, rehearsal, console)
        return
    # The key is opened before anything is read, which would be for nothing without it.
    signer = dsse.signer_of(key, of_key(key, passphrase_file)) if key is not None else None
    made, folder = look(place, volumes_in)
    path = output or _beside(folder, "provenance")
    _check_output(path, folder, force)
    proof_path = rehearsal or _beside(folder, "rehearsal")
    proof = None
    if rehearsal is not None or proof_path.exists():
        proof = provenance_proof.look(made, proof_path)
    stated = provenance.statement(made, proof, builder_id)
    data = provenance.dump(stated)
    if signer is not None:
        data = dsse.sign(data, signer)
    try:
        synced.replace(path, data, 0o644)
    except OSError as error:
        raise from_oserror(error, "writing the statement (see --output)", path) from error
    signed_by = signer.public.fingerprint if signer is not None else ""
    record = {"file": str(path), **_facts(made), "signed_by": signed_by, "statement": stated}
    definition = stated["predicate"]["buildDefinition"]
    lines = [
        f"{made.name}: {len(stated['subject'])} subjects, "
        f"{len(definition['resolvedDependencies'])} inputs by digest",
        f"rehearsal: {_told(proof_path, proof is not None)}",
        f"signed by the key {signed_by}" if signed_by else "NOT signed: give a key with --key",
        f"statement: {path}",
    ]
    console.result(record, "\n".join(lines))


def _told(proof: Path, found: bool) -> str:
    return f"{provenance_proof.ANSWERED} ({proof})" if found else "none"


def _facts(made: Finished) -> dict[str, str]:
    return {"bundle": made.name, "manifest_sha256": made.digest}


def _beside(folder: Path, what: str) -> Path:
    return Path(f"{os.path.abspath(folder)}.{what}.json")  # noqa: PTH100 - `..` has to go


def _check_output(path: Path, folder: Path, force: bool) -> None:
    outside.check(path, folder)
    if os.path.lexists(path) and not force:
        raise UsageError(
            f"{path}: exists already",
            mend="replace it with --force, or choose another file with --output",
        )


def _verify(
    place: Path,
    volumes_in: tuple[Path, ...],
    file: Path,
    key: Path | None,
    rehearsal: Path | None,
    console: Console,
) -> None:
    keys = dsse.keys_of(key) if key is not None else ()
    paper = provenance_check.parse(read(file, "a file of provenance"), str(file))
    made, folder = look(place, volumes_in)
    proof, beside = None, _beside(folder, "rehearsal")
    if rehearsal is not None:
        proof = provenance_proof.look(made, rehearsal)
    elif provenance_check.rehearsal_of(paper, made) is not None and beside.exists():
        proof = provenance_proof.look(made, beside)
    found = provenance_check.check(paper, made, keys, proof)
    signed_by = found.signer.fingerprint if found.signer is not None else ""
    record = {
        "file": str(file),
        **_facts(made),
        "signed_by": signed_by,
        "builder": found.builder,
        "subjects": found.subjects,
        "inputs": found.inputs,
        "notes": list(found.notes),
    }
    lines = [
        f"{file}: the provenance of {made.name}, byte for byte "
        f"({found.subjects} subjects, {found.inputs} inputs)",
        f"signed by the key {signed_by}" if signed_by else "signature: NOT checked",
        *(f"note: {note}" for note in found.notes),
        "the bundle's own bytes were not read: `bundle audit` compares them",
    ]
    console.result(record, "\n".join(lines))
