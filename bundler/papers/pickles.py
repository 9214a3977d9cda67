"""Look into the files of models that can run code when they are loaded.

On its medium or installed: the bytes are the manifest's, or nothing is believed of them.
"""

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import IO

from bundler.carried import medium_of, nobody
from bundler.inspecting import Subject
from bundler.inspecting.subject import MEDIA
from bundler.papers.pickles_judge import harmless, judge, may_run
from manifests.bundle import Manifest
from manifests.digests import chunks, sha256
from manifests.errors import Damage, from_oserror
from manifests.medium import ArchiveStream
from manifests.members import Member, Part, part_of
from manifests.placement import REPAIR
from manifests.reader import BundleReader
from manifests.risks import PICKLE, is_code
from manifests.vulns_judge import BASE, REMOTE, UNREAD, Scan
from manifests.vulns_packages import Unseen
from manifests.vulns_report import NO_BYTES, Finding
from manifests.vulns_report import PICKLE as KIND


def scan(subject: Subject, volumes_in: Sequence[Path] = ()) -> Scan:
    """Look into every file of the models that can run code when it is loaded.

    Its bytes have the manifest's digest, or nothing is believed of them. Raises IntegrityError
    where they have not, FilesystemError where they can't be read, SourceError where a volume is
    not at hand. A lock has no bytes, and the scan says so.
    """
    if subject.manifest is None:
        return Scan(missing=NO_BYTES)
    manifest = subject.manifest
    opened = _on_media if subject.kind == MEDIA else _installed
    files: list[str] = []
    findings: list[Finding] = []
    unread: list[Unseen] = []
    for part, path, handle in opened(subject, manifest, volumes_in):
        if not may_run(path, handle):
            continue
        item = part.item
        name = f"{item.name}/{path}"
        judgement = judge(handle, name, path in _allowed(part))
        if judgement.read:
            files.append(name)
        elif not is_code(path):  # what is code is told anyhow
            unread.append(Unseen(UNREAD, name))
        if judgement.level:
            findings.append(
                Finding(
                    kind=KIND,
                    name=item.name,
                    version=item.revision[:12],
                    id=f"pickle:{name}",
                    level=judgement.level,
                    summary=judgement.summary,
                    why=judgement.why,
                )
            )
    return Scan(
        tuple(sorted(files)),
        tuple(sorted(findings, key=lambda one: one.id)),
        unseen=(*_of_base(manifest), *_of_code(manifest), *unread),
    )


def _allowed(part: Part) -> Collection[str]:
    """The pickles of a model that were allowed when the bundle was made."""
    return {one.path for one in getattr(part.item, "risks", ()) if one.kind == PICKLE}


def _of_code(manifest: Manifest) -> tuple[Unseen, ...]:
    """Code that comes with models, and the places that name it: nothing here judges those."""
    parts = manifest.parts()
    named = {
        f"{part.item.name}/{one.path}"
        for part in parts
        for one in getattr(part.item, "risks", ())
        if one.kind != PICKLE
    }
    named |= {
        f"{part.item.name}/{member.path.removeprefix(part.start)}"
        for member in manifest.whole().members
        if is_code(member.path)
        for part in [part_of(member.path, parts)]
        if part is not None
    }
    return tuple(Unseen(REMOTE, name) for name in sorted(named))


def _of_base(manifest: Manifest) -> tuple[Unseen, ...]:
    """The models of which a delta leaves files to its base."""
    carried = {one.path for one in manifest.members}
    left = {
        part.item
        for member in manifest.whole().members
        if member.path not in carried and not harmless(member.path)
        for part in [part_of(member.path, manifest.parts())]
        if part is not None
    }
    found = {Unseen(BASE, one.name, one.revision[:12]) for one in left}
    return tuple(sorted(found, key=lambda one: one.name))


# Where it lies

_Opened = Iterator[tuple[Part, str, IO[bytes]]]


def _on_media(subject: Subject, manifest: Manifest, volumes_in: Sequence[Path]) -> _Opened:
    """The members of models, one after the other, each compared before it is given."""
    parts = manifest.parts()
    medium = medium_of([subject.path], volumes_in)
    with closing(ArchiveStream(medium, nobody)) as stream:
        reader = BundleReader(stream, medium.manifest_sha256)
        for member in reader.manifest.members:
            part = part_of(member.path, parts)
            if part is None or harmless(member.path):
                reader.skip(member)
                continue
            with tempfile.TemporaryFile() as copy:  # picklescan goes back and forth in it
                with reader.member(member) as data:
                    for view in data.chunks():
                        copy.write(view)
                yield part, member.path.removeprefix(part.start), copy


def _installed(subject: Subject, manifest: Manifest, _volumes_in: Sequence[Path]) -> _Opened:
    prefix = subject.path.parent.parent
    for member in manifest.members:
        part = part_of(member.path, manifest.parts())
        if part is None or harmless(member.path):
            continue
        path = member.path.removeprefix(part.start)
        file = prefix / part.folder / path
        try:
            handle = file.open("rb")
        except FileNotFoundError:
            raise Damage(str(file), member.sha256, "no such file", mend=REPAIR) from None
        except OSError as error:
            raise from_oserror(error, "looking at a model") from error
        with handle:
            _compare(handle, member, file)
            yield part, path, handle


def _compare(handle: IO[bytes], member: Member, file: Path) -> None:
    hasher = sha256()
    try:
        for view in chunks(handle):  # type: ignore[arg-type]  # a file has readinto
            hasher.update(view)
    except OSError as error:
        raise from_oserror(error, "looking at a model", file) from error
    if hasher.hexdigest() != member.sha256:
        raise Damage(str(file), member.sha256, hasher.hexdigest(), mend=REPAIR)
