"""The signature of a bundle: written beside its list, and checked against trusted keys."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bundler.signing.keys import Signer, is_signed
from manifests import signature, sums
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.signature import FILE_NAME, OPENSSL, SSH, PublicKey

_TOOLS = {OPENSSL: "openssl", SSH: "ssh-keygen"}
_KEYS = {OPENSSL: "a PEM file", SSH: "a .pub or allowed_signers file"}


@dataclass(frozen=True)
class Signature:
    """Whose signature a bundle has."""

    form: str
    kind: str
    fingerprint: str
    principals: str = ""

    @property
    def tool(self) -> str:
        """The program that checks it on the isolated host."""
        return _TOOLS[self.form]

    def text(self) -> str:
        """Who signed, for a person."""
        whose = f" of {self.principals}" if self.principals else ""
        return f"{self.kind} key {self.fingerprint}{whose}"


def list_bytes(folder: Path) -> bytes:
    """SHA256SUMS, if it is one.

    Raises UsageError where the folder is no bundle, IntegrityError where the list is malformed,
    FilesystemError where it can't be read.
    """
    path = folder / sums.FILE_NAME
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{folder}: not a bundle: it has no {sums.FILE_NAME}",
            mend="name the folder that `bundle create` wrote",
        ) from None
    except OSError as error:
        raise from_oserror(error, "reading the list", path) from None
    sums.parse(data)
    return data


def sign(folder: Path, signer: Signer, *, replace: bool = False) -> Signature:
    """Write SHA256SUMS.sig. Nothing but the list is read: it names everything else.

    Raises UsageError where there is a signature and `replace` does not allow another, and the
    errors of `list_bytes`; FilesystemError where it can't be written.
    """
    data = list_bytes(folder)
    path = folder / FILE_NAME
    if os.path.lexists(path) and not replace:
        raise UsageError(
            f"{path}: the bundle is signed already", mend="replace its signature with --force"
        )
    _write(path, signer.sign(data))
    public = signer.public
    return Signature(public.form, public.kind, public.fingerprint)


def _write(path: Path, data: bytes) -> None:
    """All of it or nothing. A kill leaves a stray file, which the next run replaces."""
    draft = path.with_name(f".{path.name}.new")
    try:
        draft.unlink(missing_ok=True)
        with draft.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
            os.fchmod(out.fileno(), 0o644)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise from_oserror(error, "writing the signature", path) from None


def verify(folder: Path, trusted: Sequence[PublicKey]) -> Signature:
    """Check the signature of a bundle's list; says which of the trusted keys made it.

    Raises IntegrityError where there is none, it is bad, or nobody trusted made it.
    """
    signed = _signature_bytes(folder)
    data = list_bytes(folder)
    form = signature.form_of(signed)
    fitting = [key for key in trusted if key.form == form]
    if not fitting:
        raise IntegrityError(
            f"{FILE_NAME}: is for {_TOOLS[form]}, and the key given is not",
            mend=f"give {_KEYS[form]} with --key",
        )
    if form == SSH:
        envelope = signature.parse(signed)
        _check_namespace(envelope.namespace, fitting)
        fitting = [key for key in fitting if key.blob == envelope.blob]
        if not fitting:
            raise _refused(
                f"made by the key {signature.fingerprint(envelope.blob)}, which is not trusted"
            )
    for key in fitting:
        if is_signed(data, signed, key) and key.allows(signature.NAMESPACE):
            return Signature(key.form, key.kind, key.fingerprint, key.principals)
    raise _refused(
        f"{sums.FILE_NAME} or its signature was altered, it is the signature of another list, "
        "or another key made it"
    )


def _check_namespace(found: str, trusted: Sequence[PublicKey]) -> None:
    if found != signature.NAMESPACE:
        raise _refused(f"made for {found!r}, not for {signature.NAMESPACE!r} (ssh-keygen's -n)")
    if not any(key.allows(found) for key in trusted):
        raise _refused("the keys given are not trusted for bundles (their namespaces option)")


def _signature_bytes(folder: Path) -> bytes:
    path = folder / FILE_NAME
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise _refused("not a regular file")
    try:
        with path.open("rb") as handle:
            return handle.read(signature.LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError):
        list_bytes(folder)  # no bundle at all is another mistake
        raise IntegrityError(
            f"{folder}: not signed, and a key was given",
            why=f"there is no {FILE_NAME}",
            mend="copy the signature too, or have the bundle signed: bundle sign",
        ) from None
    except OSError as error:
        raise from_oserror(error, "reading the signature", path) from None


def _refused(why: str) -> IntegrityError:
    return IntegrityError(
        f"{FILE_NAME}: the signature is not good",
        why=why,
        mend="don't use the bundle; get it and the public key again, each by its own road",
    )
