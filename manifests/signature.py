"""SHA256SUMS.sig: the detached signature of the list, and the public keys that are trusted.

Two forms, each checked by a tool that hosts have: what `openssl dgst -sha256 -sign` writes (DER),
and what `ssh-keygen -Y sign` writes (armoured text; PROTOCOL.sshsig of OpenSSH). This module takes
apart and puts together; the arithmetic is in the libraries and tools of those who use it.
"""

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass

from manifests import sums
from manifests.errors import IntegrityError, UsageError

FILE_NAME = f"{sums.FILE_NAME}.sig"
#: OpenSSF's name for a model's signature; see `bundle sign --model-signing`.
SIDECAR = "model.sig"
OPENSSL, SSH = "openssl", "ssh"
#: What ssh-keygen's -n says: a signature made for mail or git is none for a bundle.
NAMESPACE = "vllm-bundle"
#: Bytes. The longest signature in use, of an RSA key of 16384 bits, takes 6 kB as text.
LIMIT = 1 << 16
_MAGIC, _VERSION = b"SSHSIG", 1
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
_WIDTH = 70  # characters of a line, as ssh-keygen writes them
_KINDS = (
    r"ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)"
    r"|sk-ssh-ed25519@openssh\.com|sk-ecdsa-sha2-nistp256@openssh\.com"
)
#: A line of a .pub file, or of an allowed_signers file (ssh-keygen(1), ALLOWED SIGNERS).
_LINE = re.compile(
    rf"""(?:(?P<principals>"[^"]*"|\S+)\s+(?:(?P<options>(?:[^\s"]|"[^"]*")+)\s+)?)?"""
    rf"(?P<kind>{_KINDS})\s+(?P<blob>[A-Za-z0-9+/]+={{0,2}})(?:\s.*)?"
)
_NAMESPACES = re.compile(r'namespaces="([^"]*)"', re.IGNORECASE)
PRIVATE = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


def form_of(data: bytes) -> str:
    """Which tool a signature is for.

    Raises IntegrityError where it is for none.
    """
    if data.startswith(_BEGIN.encode()):
        return SSH
    if data[:1] == b"\x30" and len(data) <= LIMIT:  # DER's SEQUENCE
        return OPENSSL
    state = "empty" if not data else "neither openssl's form nor ssh-keygen's"
    raise IntegrityError(
        f"{FILE_NAME}: {state}",
        why="it was cut off or altered, or another program made it",
        mend="copy the signature again, or sign the bundle anew with: bundle sign",
    )


def wire(*parts: bytes) -> bytes:
    """Strings of the SSH wire format (RFC 4251, section 5)."""
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def unwire(data: bytes) -> list[bytes]:
    """Take wire strings apart.

    Raises ValueError where the data is not exactly that.
    """
    parts, place = [], 0
    while place < len(data):
        start = place + 4
        place = start + int.from_bytes(data[place:start], "big")
        if place > len(data) or start > len(data):
            raise ValueError("cut off")
        parts.append(data[start:place])
    return parts


@dataclass(frozen=True)
class Envelope:
    """What stands in the armour of an SSH signature."""

    blob: bytes  # the public key that made it, in wire form
    namespace: str
    hashed: str  # "sha256" or "sha512": how the message was hashed before it was signed
    algorithm: str
    raw: bytes  # the signature proper, in the algorithm's form

    def message(self, data: bytes) -> bytes:
        """The bytes that the key signs for `data`."""
        digest = hashlib.new(self.hashed, data).digest()
        return _MAGIC + wire(self.namespace.encode(), b"", self.hashed.encode(), digest)

    def armoured(self) -> bytes:
        """The text of the signature file."""
        inner = wire(self.algorithm.encode(), self.raw)
        parts = (self.blob, self.namespace.encode(), b"", self.hashed.encode(), inner)
        data = _MAGIC + _VERSION.to_bytes(4, "big") + wire(*parts)
        text = base64.b64encode(data).decode("ascii")
        lines = [text[place : place + _WIDTH] for place in range(0, len(text), _WIDTH)]
        return "\n".join([_BEGIN, *lines, _END, ""]).encode("ascii")


def parse(data: bytes) -> Envelope:
    """Read the armoured form.

    Raises IntegrityError for anything that ssh-keygen does not write.
    """
    try:
        lines = data.decode("ascii").removesuffix("\n").split("\n")
        if len(data) > LIMIT or len(lines) < 3 or (lines[0], lines[-1]) != (_BEGIN, _END):
            raise ValueError("not armoured as it should be")
        packed = _decoded("".join(lines[1:-1]))
        start = _MAGIC + _VERSION.to_bytes(4, "big")
        if not packed.startswith(start):
            raise ValueError("no SSH signature of version 1")
        blob, namespace, reserved, hashed, inner = unwire(packed.removeprefix(start))
        algorithm, raw = unwire(inner)
        if reserved or hashed not in (b"sha256", b"sha512"):
            raise ValueError("unknown hash or reserved field")
        return Envelope(
            blob, namespace.decode("utf-8"), hashed.decode(), algorithm.decode("ascii"), raw
        )
    except ValueError as error:
        raise IntegrityError(
            f"{FILE_NAME}: damaged ({error})",
            mend="copy the signature again, or sign the bundle anew with: bundle sign",
        ) from None


def _decoded(text: str) -> bytes:
    """Base64, where one value has one text: unused bits have to be zero.

    Raises ValueError.
    """
    data = base64.b64decode(text, validate=True)
    if base64.b64encode(data).decode("ascii") != text:
        raise binascii.Error("not canonical base64")
    return data


@dataclass(frozen=True)
class PublicKey:
    """A key that is trusted, and in which form its signatures have to come."""

    form: str
    blob: bytes  # wire form, also of a PEM key: so a key has one fingerprint
    namespaces: str = "*"  # patterns, as in an allowed_signers file
    principals: str = ""

    @property
    def kind(self) -> str:
        """The key's type, "ssh-ed25519"."""
        return unwire(self.blob)[0].decode("ascii")

    @property
    def fingerprint(self) -> str:
        """As `ssh-keygen -l` shows it."""
        return fingerprint(self.blob)

    def line(self) -> str:
        """The key as a .pub file holds it, without a comment."""
        return f"{self.kind} {base64.b64encode(self.blob).decode('ascii')}"

    def allows(self, namespace: str) -> bool:
        """Whether signatures of a namespace are accepted from this key."""
        found = False
        for pattern in self.namespaces.split(","):
            wanted = re.escape(pattern.removeprefix("!")).replace(r"\*", ".*").replace(r"\?", ".")
            if re.fullmatch(wanted, namespace):
                if pattern.startswith("!"):
                    return False
                found = True
        return found


def fingerprint(blob: bytes) -> str:
    """SHA256:… of a public key in wire form, as OpenSSH shows it."""
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode("ascii")
    return f"SHA256:{digest.rstrip('=')}"


def allowed_line(key: PublicKey) -> str:
    """A line of an allowed_signers file that trusts a key for bundles and nothing else."""
    return f'{NAMESPACE} namespaces="{NAMESPACE}" {key.line()}\n'


def parse_ssh(data: bytes, where: str) -> tuple[PublicKey, ...]:
    """The keys of a .pub or an allowed_signers file; `where` names it in errors.

    Raises UsageError where it is neither, or says of a key what only ssh-keygen can judge.
    """
    refuse_private(data, where)
    if b"\r" in data:
        raise UsageError(
            f"{where}: its lines end in CR LF", mend=f"copy it in binary mode, or: dos2unix {where}"
        )
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        raise _no_key(where) from None
    keys = [
        _parsed(line.strip(), f"{where}, line {number}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.strip().startswith("#")
    ]
    if not keys:
        raise _no_key(where)
    return tuple(keys)


def _parsed(line: str, where: str) -> PublicKey:
    match = _LINE.fullmatch(line)
    if match is None:
        raise _no_key(where)
    options = match["options"] or ""
    namespaces = _NAMESPACES.fullmatch(options)
    if options and namespaces is None:
        raise UsageError(
            f"{where}: has options that only ssh-keygen knows",
            mend=f"check it with: ssh-keygen -Y verify -f FILE -I PRINCIPAL -n {NAMESPACE} "
            f"-s {FILE_NAME} <{sums.FILE_NAME}",
        )
    try:
        blob = _decoded(match["blob"])
        if unwire(blob)[0].decode("ascii") != match["kind"]:
            raise ValueError("two types")
    except (ValueError, IndexError):
        raise _no_key(where) from None
    principals = (match["principals"] or "").strip('"')
    return PublicKey(SSH, blob, namespaces[1] if namespaces else "*", principals)


def refuse_private(data: bytes, where: str) -> None:
    """Stop where a private key stands in the place of a public one. Its text is never shown.

    Raises UsageError.
    """
    if PRIVATE.search(data):
        raise UsageError(
            f"{where}: holds a private key; a public one is needed here",
            why="a private key belongs on the machine that signs, and nowhere else",
            mend=f"openssl pkey -in {where} -pubout, or: ssh-keygen -y -f {where}",
        )


def _no_key(where: str) -> UsageError:
    return UsageError(
        f"{where}: no public key",
        mend="give a PEM file (BEGIN PUBLIC KEY), a .pub file of ssh-keygen, or an "
        "allowed_signers file",
    )
