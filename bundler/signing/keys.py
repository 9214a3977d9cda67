"""Keys: read from files, and what each kind of them can sign and check.

ECDSA P-256 is what `openssl dgst -sha256 -verify` checks on any host (Ed25519 needs a raw mode that
many lack); ssh-keygen checks every kind that OpenSSH has. No key's text ever reaches a message.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils

from manifests import signature
from manifests.errors import UsageError, from_oserror
from manifests.signature import OPENSSL, SSH, Envelope, PublicKey

#: Asked for the passphrase of a key that has one; raises UsageError where nobody can be asked.
Passphrase = Callable[[], str]
_Private = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey
_Public = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey | rsa.RSAPublicKey
#: Hash that goes with a curve: RFC 5656, section 6.2.1.
_CURVE_HASHES: dict[str, hashes.HashAlgorithm] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
#: RFC 8332; ssh-rsa, with SHA-1, is not accepted by PROTOCOL.sshsig.
_RSA_HASHES: dict[str, hashes.HashAlgorithm] = {
    "rsa-sha2-256": hashes.SHA256(),
    "rsa-sha2-512": hashes.SHA512(),
}
_OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"


@dataclass(frozen=True)
class Signer:
    """A private key that is open, and the form of signature that goes with its file."""

    private: _Private
    form: str

    def __repr__(self) -> str:
        """Nothing of the private half."""
        return f"Signer({self.public.fingerprint}, {self.form})"

    @property
    def public(self) -> PublicKey:
        """Its public half."""
        return public_of(self.private.public_key(), self.form)

    def sign(self, data: bytes) -> bytes:
        """A detached signature, checked before it is given."""
        made = self._envelope(data).armoured() if self.form == SSH else self._der(data)
        assert is_signed(data, made, self.public), "a signature that its own key does not accept"
        return made

    def _der(self, data: bytes) -> bytes:
        assert isinstance(self.private, ec.EllipticCurvePrivateKey)
        return self.private.sign(data, ec.ECDSA(hashes.SHA256()))

    def _envelope(self, data: bytes) -> Envelope:
        key = self.private
        blob, algorithm = self.public.blob, self.public.kind
        if isinstance(key, rsa.RSAPrivateKey):
            algorithm = "rsa-sha2-512"
        draft = Envelope(blob, signature.NAMESPACE, "sha512", algorithm, b"")
        message = draft.message(data)
        if isinstance(key, rsa.RSAPrivateKey):
            raw = key.sign(message, padding.PKCS1v15(), _RSA_HASHES[algorithm])
        elif isinstance(key, ec.EllipticCurvePrivateKey):
            der = key.sign(message, ec.ECDSA(_CURVE_HASHES[key.curve.name]))
            raw = signature.wire(*map(_mpint, utils.decode_dss_signature(der)))
        else:
            raw = key.sign(message)
        return Envelope(blob, signature.NAMESPACE, "sha512", algorithm, raw)


def is_signed(data: bytes, signed: bytes, key: PublicKey) -> bool:
    """Whether `signed` is a key's signature of `data`, in the key's own form.

    Raises IntegrityError where it can't be read as one, UsageError for a key that sits in hardware.
    """
    public = _opened(key)
    try:
        if key.form == OPENSSL:
            if not isinstance(public, ec.EllipticCurvePublicKey):
                return False
            public.verify(signed, data, ec.ECDSA(hashes.SHA256()))
            return True
        envelope = signature.parse(signed)
        if envelope.blob != key.blob:
            return False
        _check(public, envelope, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _check(public: _Public, envelope: Envelope, data: bytes) -> None:
    """Raises InvalidSignature or ValueError."""
    message, raw = envelope.message(data), envelope.raw
    if isinstance(public, rsa.RSAPublicKey):
        if envelope.algorithm not in _RSA_HASHES:
            raise ValueError("a hash that is not accepted")
        public.verify(raw, message, padding.PKCS1v15(), _RSA_HASHES[envelope.algorithm])
        return
    if envelope.algorithm != signature.unwire(envelope.blob)[0].decode("ascii"):
        raise ValueError("the algorithm of another key")
    if isinstance(public, ec.EllipticCurvePublicKey):
        numbers = [int.from_bytes(part, "big", signed=True) for part in signature.unwire(raw)]
        if len(numbers) != 2 or raw != signature.wire(*map(_mpint, numbers)):
            raise ValueError("not two numbers")
        der = utils.encode_dss_signature(*numbers)
        public.verify(der, message, ec.ECDSA(_CURVE_HASHES[public.curve.name]))
    else:
        public.verify(raw, message)


def _mpint(number: int) -> bytes:
    """RFC 4251, section 5: big endian, with a zero before a set top bit."""
    if number < 0:
        raise ValueError("negative")
    return number.to_bytes(number.bit_length() // 8 + 1, "big") if number else b""


def public_of(public: _Public, form: str) -> PublicKey:
    """A key of the library as one of ours."""
    text = public.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    (key,) = signature.parse_ssh(text, "public key")
    return PublicKey(form, key.blob)


def _opened(key: PublicKey) -> _Public:
    try:
        public = serialization.load_ssh_public_key(key.line().encode("ascii"))
    except (ValueError, UnsupportedAlgorithm):
        public = None
    if not isinstance(public, _Public) or key.kind.startswith("sk-"):
        raise UsageError(
            f"{key.fingerprint}: keys of the type {key.kind} are checked by ssh-keygen alone",
            mend=f"ssh-keygen -Y verify -f FILE -I PRINCIPAL -n {signature.NAMESPACE} "
            "-s SHA256SUMS.sig <SHA256SUMS",
        )
    return public


def load_public(path: Path) -> tuple[PublicKey, ...]:
    """The keys that a file names as trusted: PEM, .pub or allowed_signers.

    Raises UsageError where it holds none, or a private one; FilesystemError where it can't be read.
    """
    data = _read(path)
    signature.refuse_private(data, str(path))
    if not data.lstrip().startswith(b"-----BEGIN"):
        return signature.parse_ssh(data, str(path))
    try:
        public = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise UsageError(
            f"{path}: not a public key that can be read", mend="copy it again in binary mode"
        ) from None
    _refuse_other_curves(public, path)
    assert isinstance(public, ec.EllipticCurvePublicKey)
    return (public_of(public, OPENSSL),)


def load_signer(path: Path, passphrase: Passphrase, form: str = "") -> Signer:
    """Open a private key; `form` asks for another form of signature than the file's own.

    Raises UsageError where it is none, its passphrase is wrong, or the form does not go with it;
    FilesystemError where it can't be read.
    """
    data = _read(path)
    openssh = _OPENSSH in data
    load = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    if not signature.PRIVATE.search(data):
        raise UsageError(
            f"{path}: no private key",
            mend="make one with: bundle keygen; or name a key of openssl or ssh-keygen",
        )
    try:
        private = _load(load, data, passphrase)
    except UnsupportedAlgorithm:
        raise _not_here(path) from None
    except (ValueError, TypeError):
        raise UsageError(
            f"{path}: can't be opened",
            why="the passphrase is wrong, or the file is damaged or of a kind that is not known",
        ) from None
    form = form or (SSH if openssh else OPENSSL)
    if form == OPENSSL:
        _refuse_other_curves(private, path)
    if not isinstance(private, _Private):
        raise _not_here(path)
    if isinstance(private, ec.EllipticCurvePrivateKey) and private.curve.name not in _CURVE_HASHES:
        raise _not_here(path)
    return Signer(private, form)


def _load(load: Callable[..., object], data: bytes, passphrase: Passphrase) -> object:
    try:
        return load(data, password=None)
    except TypeError:  # how the library says that there is a passphrase
        return load(data, password=passphrase().encode("utf-8"))


def _refuse_other_curves(key: object, path: Path) -> None:
    ours = ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey
    if not isinstance(key, ours) or key.curve.name != "secp256r1":
        raise UsageError(
            f"{path}: not a key on the curve P-256",
            why="openssl checks no other kind on every host",
            mend="make one with: bundle keygen; or sign for ssh-keygen with --format ssh",
        )


def _not_here(path: Path) -> UsageError:
    return UsageError(
        f"{path}: a kind of key that can't sign here",
        mend=f"sign with: ssh-keygen -Y sign -n {signature.NAMESPACE} -f {path} NAME/SHA256SUMS",
    )


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as handle:
            data = handle.read(signature.LIMIT + 1)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such key file") from None
    except OSError as error:
        raise from_oserror(error, "reading the key", path) from None
    if len(data) > signature.LIMIT:
        raise UsageError(f"{path}: too long for a key")
    return data
