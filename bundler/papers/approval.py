"""The approval record of a bundle on its media.

It repeats what SHA256SUMS, the manifest and the lock say; whether the bytes are those is the
audit's to say, whose record is compared with this one.
"""

from collections.abc import Iterable, Sequence

from bundler import signing
from bundler.inspecting import Subject, inspect
from bundler.inspecting.subject import MEDIA
from bundler.papers.approvalshares import shares
from bundler.signing.bundles import list_bytes
from manifests import __version__, approval, bundle, regular, signature
from manifests.approval import (
    Approval,
    Count,
    File,
    Licences,
    Medium,
    Signer,
    Sources,
    Vulnerabilities,
)
from manifests.approvalrelease import of_manifest
from manifests.errors import SourceError, UsageError, from_oserror
from manifests.lock import Lock
from manifests.signature import PublicKey
from manifests.volumes import lengths


def check(subject: Subject) -> Lock:
    """The lock of what a record can be made of.

    Raises UsageError where the subject is no bundle on its media, SourceError where its lock is out
    of reach.
    """
    if subject.kind != MEDIA:
        raise UsageError(
            f"{subject.path}: not a bundle on its media",
            why="people approve what is to come in; what is installed is told by its audit",
            mend="name the bundle's folder, or run: bundlectl audit --report FILE",
        )
    if subject.lock is None:
        raise SourceError(
            f"{subject.path}: the lock is out of reach",
            why="; ".join(subject.notes),
            mend="name the folders of the missing volumes with --volumes-in DIR",
        )
    return subject.lock


def record(
    subject: Subject,
    trusted: Sequence[PublicKey] = (),
    licences: Licences | None = None,
    vulnerabilities: Vulnerabilities | None = None,
) -> Approval:
    """The record; the signature is checked where keys are given.

    Raises what `check` does, IntegrityError where the signature is damaged or is not by a key
    given.
    """
    locked, manifest = check(subject), subject.manifest
    assert manifest is not None, "media have a manifest"
    return Approval(
        form=approval.FORM,
        kind=approval.APPROVAL,
        tool=f"vllm-bundle {__version__}",
        release=of_manifest(manifest, subject.digest, locked),
        medium=Medium(
            bundle.digest_of(list_bytes(subject.path)),
            subject.digest,
            _files(subject),
            _signer(subject, trusted),
            manifest.delta.base if manifest.delta else "",
        ),
        sources=_sources(subject, locked),
        shares=shares(manifest),
        licences=licences,
        vulnerabilities=vulnerabilities,
    )


def _files(subject: Subject) -> tuple[File, ...]:
    """The archive's files; sizes of volumes that are not at hand follow from the others."""
    sizes = [file.size for file in subject.files]
    assert subject.manifest is not None
    length = subject.manifest.archive_length(len(subject.raw_manifest))
    known = lengths(length, sizes) if len(sizes) > 1 else [length]
    found = known or sizes
    return tuple(
        File(file.name, file.sha256, size) for file, size in zip(subject.files, found, strict=True)
    )


def _signer(subject: Subject, trusted: Sequence[PublicKey]) -> Signer | None:
    if trusted:
        signed = signing.verify(subject.path, trusted)
        return Signer(signed.form, signed.fingerprint, checked=True)
    if signature.FILE_NAME not in subject.signatures:
        return None
    try:
        data = regular.read(subject.path / signature.FILE_NAME, signature.LIMIT)
    except OSError as error:
        raise from_oserror(error, "reading the signature") from None
    form = signature.form_of(data)
    if form == signature.SSH:
        return Signer(form, signature.fingerprint(signature.parse(data).blob))
    return Signer(form)  # openssl's form does not name its key


def _sources(subject: Subject, locked: Lock) -> Sources:
    found = inspect(subject)
    provenance = found.provenance
    return Sources(
        channel=locked.channel,
        wheels=_counts(provenance.sources.items()),
        conda=len(locked.conda) + len(locked.runtime_conda),
        built=tuple(f"{build.name} {build.version}+{build.label}" for build in locked.builds),
        repaired=len(found.repaired),
        unpublished=len(provenance.unpublished),
    )


def _counts(items: Iterable[tuple[str, int]]) -> tuple[Count, ...]:
    """The most frequent first."""
    return tuple(Count(name, count) for name, count in sorted(items, key=lambda i: (-i[1], i[0])))
