"""DSSE: a payload and its signatures in one JSON file, as in-toto's tools read it.

Envelope: https://github.com/secure-systems-lab/dsse/blob/master/envelope.md; what is signed is the
pre-authentication encoding (PAE) of https://github.com/secure-systems-lab/dsse/blob/master/protocol.md.
Signatures are ECDSA P-256 over SHA-256 in DER, so that openssl alone checks one; see `BY_HAND`.
"""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bundler.signing.keys import Passphrase, Signer, is_signed, load_public, load_signer
from manifests import canonical
from manifests.errors import IntegrityError, UsageError
from manifests.signature import NAMESPACE, OPENSSL, SSH, PublicKey

#: Of in-toto statements: https://github.com/in-toto/attestation/blob/main/spec/v1/envelope.md.
IN_TOTO = "application/vnd.in-toto+json"
#: How a signature is checked without this program: sed, coreutils (or busybox) and openssl.
BY_HAND = f"""\
  sed 's/.*"payload":"\\([^"]*\\)".*/\\1/' FILE | base64 -d >statement
  sed 's/.*"sig":"\\([^"]*\\)".*/\\1/' FILE | base64 -d >signature
  printf 'DSSEv1 {len(IN_TOTO)} {IN_TOTO} %d ' $(wc -c <statement) | cat - statement >pae
  openssl dgst -sha256 -verify PUB.pem -signature signature pae"""
_P256 = "ecdsa-sha2-nistp256"
#: Signatures that are looked at; others than ours may have been added.
_MOST = 16


@dataclass(frozen=True)
class Envelope:
    """A payload, and the signatures that somebody put to it."""

    payload: bytes
    kind: str  # payloadType
    signatures: tuple[bytes, ...]

    @property
    def signed(self) -> bytes:
        """What the signatures are of."""
        return pae(self.kind, self.payload)


def pae(kind: str, payload: bytes) -> bytes:
    """The pre-authentication encoding: type and body, each behind its length in bytes."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def sign(payload: bytes, signer: Signer, kind: str = IN_TOTO) -> bytes:
    """The envelope as it is written: one line, so that `BY_HAND` can take it apart.

    `keyid` is the key's fingerprint as `ssh-keygen -l` shows it: a hint, which nothing is built on.
    An ECDSA signature has a random part, so two envelopes of one payload differ in it.
    """
    signed = signer.sign(pae(kind, payload))
    return canonical.dumps(
        {
            "payload": base64.b64encode(payload).decode("ascii"),
            "payloadType": kind,
            "signatures": [
                {
                    "keyid": signer.public.fingerprint,
                    "sig": base64.b64encode(signed).decode("ascii"),
                }
            ],
        }
    )


def parse(value: Any, where: str) -> Envelope:
    """An envelope from its JSON; fields that are not known are passed over, as the format asks.

    Raises IntegrityError where it is none; `where` starts the sentence.
    """
    try:
        kind, signatures = value["payloadType"], value["signatures"]
        if not isinstance(kind, str) or not isinstance(signatures, list):
            raise TypeError("a field of another kind")
        if not 0 < len(signatures) <= _MOST:
            raise ValueError(f"{len(signatures)} signatures")
        return Envelope(
            _decoded(value["payload"]), kind, tuple(_decoded(one["sig"]) for one in signatures)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(
            f"{where}: no DSSE envelope ({error})",
            why="it was cut off or altered, or another program made it",
            mend="get the file again from whoever signed it",
        ) from None


def _decoded(text: Any) -> bytes:
    """Base64, standard or URL-safe: a reader has to take both.

    Raises ValueError or TypeError.
    """
    if not isinstance(text, str):
        raise TypeError("base64 is a text")
    try:
        return base64.b64decode(text.translate({45: "+", 95: "/"}), validate=True)
    except binascii.Error as error:
        raise ValueError(f"base64: {error}") from None


def signed_by(envelope: Envelope, keys: Sequence[PublicKey], where: str) -> PublicKey:
    """Which of the keys has signed; the envelope's own hint does not count.

    Raises IntegrityError where none has.
    """
    for signed in envelope.signatures:
        for key in keys:
            if is_signed(envelope.signed, signed, key):
                return key
    raise IntegrityError(
        f"{where}: the signature is not good",
        why="the file was altered, or another key made it: none of "
        + ", ".join(key.fingerprint for key in keys),
        mend="don't rely on it; get it and the public key again, each by its own road",
    )


def signer_of(path: Path, passphrase: Passphrase) -> Signer:
    """A private key that makes such signatures: ECDSA P-256, in a file of openssl or ssh-keygen.

    Raises UsageError for any other, and what `load_signer` raises.
    """
    try:
        signer = load_signer(path, passphrase, SSH)  # opens every kind: the refusal is ours
    except UsageError as error:
        if "ssh-keygen -Y" in error.mend:  # which signs a bundle's list, and nothing of this
            raise _unfit(path, "of this type") from None
        raise
    if signer.public.kind != _P256:
        raise _unfit(path, f"of the type {signer.public.kind}")
    return replace(signer, form=OPENSSL)


def _unfit(path: Path, kind: str) -> UsageError:
    return UsageError(
        f"{path}: a key {kind} can't sign this",
        why="what openssl checks on every host is ECDSA on the curve P-256",
        mend="make one with: bundle keygen; or: ssh-keygen -t ecdsa -b 256",
    )


def keys_of(path: Path) -> tuple[PublicKey, ...]:
    """The public keys of a file (PEM, .pub or allowed_signers) that can have signed.

    Raises UsageError where none can, and what `load_public` raises.
    """
    found = load_public(path)
    fitting = tuple(
        replace(key, form=OPENSSL) for key in found if key.kind == _P256 and key.allows(NAMESPACE)
    )
    if not fitting:
        kinds = ", ".join(sorted({key.kind for key in found}))
        raise UsageError(
            f"{path}: holds no key that signs this ({kinds})",
            why=f"it takes a key of the type {_P256} that is trusted for {NAMESPACE}",
            mend="give the public half of the key that signed: PEM, .pub or allowed_signers",
        )
    return fitting


def loads(data: bytes, where: str) -> dict[str, Any]:
    """JSON whose keys are all different: an envelope, or what is in it.

    Raises IntegrityError where it is not an object of that kind.
    """
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=canonical.unique)
    except (ValueError, RecursionError) as error:
        raise IntegrityError(
            f"{where}: not JSON ({error})",
            why="it was cut off or altered, or is another kind of file",
            mend="get the file again from whoever made it",
        ) from None
    if not isinstance(value, dict):
        raise IntegrityError(f"{where}: JSON, but no object", mend="name another file")
    return value
