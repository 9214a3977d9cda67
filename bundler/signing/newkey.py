"""A new key pair: three files, none of which was there before."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bundler.signing.keys import public_of
from manifests import signature
from manifests.errors import UsageError, from_oserror

NAME = "vllm-bundle"


@dataclass(frozen=True)
class KeyPair:
    """Where a new pair lies."""

    private: Path
    public: Path  # PEM, for openssl
    allowed: Path  # the same public key, as an allowed_signers file for ssh-keygen
    fingerprint: str


def write_pair(out: Path, passphrase: str = "") -> KeyPair:
    """Make an ECDSA P-256 key: `out` is the private key's file, or a folder for `vllm-bundle.key`.

    The private key is for its owner alone from its first byte on. Raises UsageError where one of
    the files exists, FilesystemError where they can't be written; nothing is left then.
    """
    private = out / f"{NAME}.key" if out.is_dir() else out
    base = private.with_suffix("") if private.suffix == ".key" else private
    public, allowed = Path(f"{base}.pub.pem"), Path(f"{base}.allowed_signers")
    for path in (private, public, allowed):
        if os.path.lexists(path):
            raise UsageError(
                f"{path}: exists already; keys are never overwritten",
                mend="choose another place with --out",
            )
    key = ec.generate_private_key(ec.SECP256R1())
    ours = public_of(key.public_key(), signature.OPENSSL)
    made: list[Path] = []
    try:
        _write(public, _public_pem(key), 0o644, made)
        _write(allowed, signature.allowed_line(ours).encode("ascii"), 0o644, made)
        _write(private, _private_pem(key, passphrase), 0o600, made)
    except BaseException as error:
        for path in made:
            with suppress(OSError):
                path.unlink()
        if isinstance(error, OSError):
            raise from_oserror(error, "writing the key", error.filename or private) from None
        raise
    return KeyPair(private, public, allowed, ours.fingerprint)


def _public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )


def _private_pem(key: ec.EllipticCurvePrivateKey, passphrase: str) -> bytes:
    lock = (
        serialization.BestAvailableEncryption(passphrase.encode("utf-8"))
        if passphrase
        else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)


def _write(path: Path, data: bytes, mode: int, made: list[Path]) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    made.append(path)
    with os.fdopen(handle, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
        os.fchmod(out.fileno(), mode)
