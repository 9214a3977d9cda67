"""The installation record: what an audit of an installation found there."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path

from manifests import __version__, approval, bundle, lock, placement, regular, signature
from manifests.approval import BOTH, Audited, Installation, Installed, Instance, Problem, dump
from manifests.approvalpage import render
from manifests.approvalrelease import of_manifest
from manifests.audit import answer
from manifests.audit.report import INSTALLATION, LINK, Finding, Report
from manifests.errors import BundleError, UsageError
from manifests.lock import Lock
from manifests.names import printable

#: What install.sh trusts below a prefix, where no key is given.
KEYS = ("etc/trusted-key.pem", "etc/allowed_signers")
#: Problems that a record lists; the audit itself tells all of them.
_MOST = 100
_PEM = re.compile(rb"-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----")
#: SubjectPublicKeyInfo of an uncompressed point of P-256, up to the point (RFC 5480, section 2).
_P256 = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d030107034200")
#: A record by the ending of its file's name.
PAGE, JSON = ".html", ".json"
_FORMS = (PAGE, JSON)
UNREADABLE = "not readable"
#: What stands for a link's target outside of the prefix.
_ELSEWHERE = "/…"
#: What may stand before and behind a path in a sentence.
_BEFORE, _BEHIND = r"(?<![^\s'\"(\[:=,])", r"(?=/|[\s'\":;,)\]]|\.?(?:\s|$))"


def check(file: Path, audited: Path) -> None:
    """Before a long audit: whether its answer can be written as a record.

    Raises UsageError, FilesystemError.
    """
    answer.check_outside(file, "--report", (audited,))
    if file.suffix not in _FORMS:
        raise UsageError(
            f"--report {file}: neither a page nor a document for machines",
            mend=f"name a file that ends in {' or '.join(_FORMS)}",
        )
    if not placement.is_installation(audited):
        raise UsageError(
            f"{audited}: not an installation",
            why="a report is the counterpart of an approval: it says what is installed",
            mend="name the prefix; the record of a bundle on its media is made by: bundle record",
        )


def installation(
    prefix: Path, report: Report, instances: tuple[Instance, ...] | None = None, host: str = ""
) -> Installation:
    """The record of an installation that was just audited.

    Only releases whose manifest the audit has read are told; what is wrong with the others stands
    in its findings.
    """
    assert report.kind == INSTALLATION, "see check"
    return Installation(
        form=approval.FORM,
        kind=approval.INSTALLATION,
        tool=f"vllm-bundle {__version__}",
        releases=tuple(_releases(prefix, report)),
        audited=Audited(
            report.clean,
            report.files,
            report.size,
            len(report.findings),
            tuple(_problem(one, prefix) for one in report.findings[:_MOST]),
            report.sample,
            report.resumed.files if report.resumed is not None else 0,
        ),
        trusted=tuple(dict.fromkeys(key for name in KEYS for key in _trusted(prefix / name))),
        instances=instances,
        host=host,
    )


def write(file: Path, record: Installation) -> None:
    """Write a record as its name says: a page in all languages, or the data alone.

    Raises FilesystemError.
    """
    page = file.suffix != JSON
    answer.write(file, render(record, BOTH) if page else dump(record).decode())


def _releases(prefix: Path, report: Report) -> Iterator[Installed]:
    for release in placement.installed_releases(prefix):
        try:
            manifest, digest = placement.load_manifest(prefix, release)
            receipt = placement.load_receipt(placement.receipt_path(prefix, release))
        except (BundleError, OSError):
            continue
        if digest in report.manifest_sha256:
            locked = _lock(prefix / placement.RELEASES / release, manifest)
            yield Installed(of_manifest(manifest, digest, locked), receipt.ignored)


def _lock(folder: Path, manifest: bundle.Manifest) -> Lock | None:
    """A release's lock; None where it is not the manifest's, which the audit tells."""
    try:
        data = regular.read(folder / bundle.LOCK_MEMBER)
        named = {member.path: member.sha256 for member in manifest.members}
        if bundle.digest_of(data) != named.get(bundle.LOCK_MEMBER):
            return None
        return lock.parse(data, bundle.LOCK_MEMBER)
    except (BundleError, OSError):
        return None


def _problem(found: Finding, prefix: Path) -> Problem:
    texts = [found.expected, found.found]
    if found.problem == LINK:  # a target each; one that is not relative names a place of the host
        texts = [plain(text, prefix.absolute()) for text in texts]
        texts = [_ELSEWHERE if text.startswith("/") else text for text in texts]
    else:
        texts = [plain(text, prefix) for text in texts]
    return Problem(found.problem, printable(found.path), *texts)


def plain(text: str, prefix: Path) -> str:
    """A text of an audit without the folder where it was made."""
    for place in sorted({str(prefix.absolute()), str(prefix.resolve())}, key=len, reverse=True):
        text = re.sub(f"{_BEFORE}{re.escape(place)}{_BEHIND}", "PREFIX", text)
    if not prefix.is_absolute() and prefix.name:  # "." stands in no path
        text = re.sub(f"{_BEFORE}{re.escape(str(prefix))}(?=/)", "PREFIX", text)
    return printable(text)


def _trusted(path: Path) -> Iterator[str]:
    """Fingerprints of the keys in a file, as `ssh-keygen -l` shows them; empty where none is."""
    try:
        data = regular.read(path)
    except FileNotFoundError:
        return
    except (BundleError, OSError):
        yield UNREADABLE
        return
    try:
        if path.suffix == ".pem":
            yield _of_pem(data)
        else:
            yield from (key.fingerprint for key in signature.parse_ssh(data, path.name))
    except (BundleError, ValueError):
        yield UNREADABLE


def _of_pem(data: bytes) -> str:
    """Of a P-256 key, which is the only kind that is checked with openssl.

    Raises ValueError.
    """
    found = _PEM.search(data)
    key = base64.b64decode(b"".join(found[1].split()), validate=True) if found else b""
    if not key.startswith(_P256) or len(key) != len(_P256) + 65:
        raise ValueError("not a public key of P-256")
    point = key[len(_P256) :]
    return signature.fingerprint(signature.wire(b"ecdsa-sha2-nistp256", b"nistp256", point))
