"""`bundle create`, from a request to a folder on the media: lock, fetch, build, write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bundler import (
    agreement,
    attention,
    building,
    caches,
    conda,
    delta,
    gates,
    media,
    overlay,
    parity,
    parts,
)
from bundler.draft import Draft as Draft
from bundler.locking import Choice, choose, follow_lock, make_lock, open_channel
from bundler.naming import bundle_name as bundle_name
from bundler.papers import gathering, rules
from bundler.papers.members import members as papers_of
from bundler.papers.rules import NONE, Rules
from bundler.parts import Taken
from bundler.refetch import refetcher
from bundler.request import Request
from bundler.workshop import Workshop
from manifests import FORMAT_VERSION, __version__, bundle, newfolder
from manifests.bundle import Manifest, Member, Needs
from manifests.choice import driver_needed
from manifests.console import Console
from manifests.errors import UsageError
from manifests.lock import COMPUTED, Lock, Wheel
from manifests.manual.documents import documents
from manifests.names import MEDIA_NAME
from wheelhouse.fetch import Fetcher
from wheelhouse.lockwheels import obtain, volume
from wheelhouse.sources import from_settings

#: Of the names of files that are called after a bundle; none may have more than 200 characters.
_LONGEST_ENDING = ".parity.000"
_LONGEST_NAME = 200 - len(_LONGEST_ENDING)


@dataclass(frozen=True)
class Created:
    """A bundle that was written."""

    folder: Path
    manifest: Manifest
    digest: str  # the manifest's sha256
    size: int  # bytes on the media
    notes: tuple[str, ...]  # of the gates: what is good to know and stops nothing
    remarks: tuple[str, ...] = ()  # of the server's environment on the models; of the rules
    saving: delta.Saving | None = None  # of a delta


def draft(request: Request, workshop: Workshop) -> Draft:
    """Look at a request: flags, output folder, stack, model's place.

    Raises UsageError, TargetError, SourceError or FilesystemError.
    """
    choice = choose(request, workshop)
    check_name(request.name)
    media.check_output(request.output)
    base = delta.load(request.base) if request.base is not None else None
    if request.name:
        media.check_new(_folder(request, request.name, base), request.force)
    sources = from_settings(request.index_url, request.find_links)
    return Draft(request, choice, sources, workshop, base, caches.look(request.caches))


def _folder(request: Request, name: str, base: delta.Base | None) -> Path:
    return request.output / delta.folder_name(name, base)


def lock(draft: Draft, console: Console, *, must_fit: bool = True) -> Lock:
    """The lock to follow: the one named, or one made now; see `make_lock`."""
    request = draft.request
    if request.lock is not None and request.lock.exists():
        return follow_lock(request, draft.choice, request.lock)
    return make_lock(
        request, draft.choice, draft.sources, draft.workshop, console, must_fit=must_fit
    )


def create(
    draft: Draft,
    locked: Lock,
    console: Console,
    volume_size: int = 0,
    percent: int = 0,
    must: Rules = NONE,
) -> Created:
    """Fetch and build what the lock names, and write the bundle.

    `volume_size` is the most bytes of a file on the media, 0 for one archive in one piece;
    `percent` the parity that is made, 0 for none; `must` what licences and known faults have to
    pass. Raises the errors of every step; a re-run continues with what is in the cache and on the
    media.
    """
    request, choice = draft.request, draft.choice
    locks = (locked,) if choice.base is None else (locked, choice.base)
    refetch = refetcher(request, choice.stack, locks, draft.sources, draft.workshop)
    workshop = replace(draft.workshop, refetch=refetch)
    name = request.name or bundle_name(locked)
    check_name(name)
    finish = parity.finisher(percent, locked, console)
    choice.check_memory(locked.models, workshop)
    weights = delta.to_carry(locked, draft.base)
    folder = _folder(request, name, draft.base)
    check_name(folder.name)
    media.check_new(folder, request.force)
    media.check_output(request.output, weights - newfolder.kept(folder))
    taken = _fetch(draft, locked, console)
    choice.check_memory(locked.models, workshop)  # a lock from elsewhere: known only now
    remarks = agreement.check(taken, choice.base or locked, workshop, console)
    locked = parts.with_digests(locked, taken)
    built = build(draft, locked, taken, workshop, console, must)
    with console.stage("write the papers"):
        bill = gathering.of_taken(locked, built, taken, workshop.store)
        ruled = rules.enforce(bill, must)
        papers = papers_of(bill)
    wheels = (*locked.wheels, *built)
    contents = overlay.contents(locked, wheels, choice.stack, choice.inventory)
    serving = building.build(contents, workshop, console) if choice.base is None else None
    runtime = building.build(
        building.runtime(locked.runtime_conda, locked.runtime_wheels), workshop, console
    )
    passed = gates.Passed((), ())  # the release that is extended has passed them
    if serving is not None:
        beneath = overlay.beneath(locked, choice.inventory)
        passed = gates.check(serving, runtime, choice.stack, locked.target, beneath)
    carried = {**documents(), **papers}
    whole = describe(name, request, choice, locked, built, taken, serving, runtime, passed, carried)
    whole = caches.added(whole, draft.carried)
    openers = {
        bundle.RUNTIME_MEMBER: media.file_opener(runtime.path),
        bundle.LOCK_MEMBER: media.bytes_opener(locked.dump()),
        **{path: media.bytes_opener(data) for path, data in carried.items()},
        **parts.openers(locked, taken),
        **caches.openers(draft.carried),
    }
    with delta.carried(whole, draft.base, serving, workshop, console) as (manifest, environment):
        if environment is not None:
            openers[bundle.ENVIRONMENT_MEMBER] = media.file_opener(environment)
        listing = manifest.dump()
        bundle.parse(listing)  # what no reader would take is not written
        size = manifest.archive_length(len(listing))
        left = newfolder.kept(folder)
        media.check_output(request.output, size + size * percent // 100 - left)
        if left:
            partial = newfolder.partial_of(folder)
            console.say(f"  {partial}: {left:,} bytes of an earlier run; checking")
        media.check_new(folder, request.force)  # another run may have written it since
        with console.stage(f"write {folder.name}", size) as progress:
            digest = media.write(folder, manifest, openers, progress, volume_size, finish)
    saving = delta.saving(manifest)
    return Created(folder, manifest, digest, size, passed.notes, (*remarks, *ruled), saving)


def build(
    draft: Draft,
    locked: Lock,
    taken: Sequence[Taken],
    workshop: Workshop,
    console: Console,
    must: Rules,
) -> tuple[Wheel, ...]:
    """The wheels of a lock's recipes; all else passes the rules before a compiler runs for hours.

    Raises what `rules.enforce` and `attention.build` raise.
    """
    if locked.builds and must != NONE:
        rules.enforce(gathering.of_taken(locked, (), taken, workshop.store), must)
    return attention.build(locked, draft.request, draft.sources, workshop, console)


def _fetch(draft: Draft, locked: Lock, console: Console) -> tuple[Taken, ...]:
    request, workshop = draft.request, draft.workshop
    packages = {*locked.conda, *locked.runtime_conda}
    fetcher = Fetcher(draft.sources, workshop.store, offline=request.offline)
    missing = [
        package
        for package in packages
        if not workshop.store.usable(package.sha256, conda.filename(package), package.size)
    ]
    if missing:
        with (
            workshop.scratch("channel") as scratch,
            console.stage("fetch the conda packages", sum(p.size for p in missing)) as progress,
        ):
            source = open_channel(request.channel, scratch)
            conda.fetch(missing, source, fetcher, progress)
    wheels = (*locked.wheels, *locked.runtime_wheels)
    with console.stage(f"fetch {len(locked.wheels)} wheels", volume(wheels)) as progress:
        obtain(
            wheels,
            draft.choice.stack,
            locked.flavour,
            sources=draft.sources,
            store=workshop.store,
            offline=request.offline,
            progress=progress,
        )
    return parts.fetch(draft.choice.places, locked, console)


def describe(
    name: str,
    request: Request,
    choice: Choice,
    locked: Lock,
    built: tuple[Wheel, ...],
    taken: Sequence[Taken],
    serving: building.Packed | None,
    runtime: building.Packed,
    passed: gates.Passed,
    carried: Mapping[str, bytes],
) -> Manifest:
    """The manifest of what is about to be written; `carried` are the manual and the papers."""
    members = [Member(bundle.RUNTIME_MEMBER, bundle.RUNTIME, runtime.size, runtime.sha256)]
    # Early, so that tar on any machine comes to the manual without reading gigabytes.
    members += [_document(path, data) for path, data in carried.items()]
    if serving is not None:
        packed = (serving.size, serving.sha256)
        members.append(Member(bundle.ENVIRONMENT_MEMBER, bundle.ENVIRONMENT, *packed))
    members += [_document(bundle.LOCK_MEMBER, locked.dump()), *parts.members_of(locked)]
    stack, models = choice.stack, parts.measured(locked, taken)
    # On a GPU the weights pass through the page cache, which gives way.
    weights = max(one.weights for one in taken) if stack.cuda is None else 0
    return Manifest(
        schema=FORMAT_VERSION,
        name=name,
        sequence=locked.created,
        created=locked.created,
        tool=f"vllm-bundle {__version__}",
        target=locked.target,
        stack=locked.stack,
        flavour=locked.flavour,
        server=stack.server,
        needs=Needs(
            glibc=max(locked.target.glibc, stack.glibc, key=_numbers),
            cpu_flags=stack.cpu_flags,
            memory=stack.server.memory + weights,
            gpus=passed.gpus,
            driver=driver_needed(stack, locked.target.gpus),
        ),
        model=models[0],
        thinking=request.thinking,
        lock_sha256=locked.digest(),
        members=tuple(members),
        environment=serving.entries if serving is not None else (),
        runtime=runtime.entries,
        derived=tuple(w.derived for w in (*locked.wheels, *built) if w.derived is not None),
        unpublished=_unpublished(locked),
        others=models[1:],
        adapters=tuple(map(parts.served_adapter, locked.adapters)),
        overlay=locked.overlay,
    )


def _document(path: str, data: bytes) -> Member:
    return Member(path, bundle.DOCUMENT, len(data), bundle.digest_of(data))


def _unpublished(locked: Lock) -> tuple[str, ...]:
    """Digests that no publisher vouches for: they protect the way from this machine on."""
    lines = [
        f"{wheel.filename}: sha256 computed here, from a local folder"
        for wheel in (*locked.wheels, *locked.runtime_wheels)
        if wheel.digest_from == COMPUTED and wheel.derived is None
    ]
    if locked.channel == conda.HOST:
        lines.append("conda packages: made on the building machine from its own Python")
    return (*lines, *parts.unpublished(locked))


def check_name(name: str) -> None:
    """Refuse a name that some shell or file system would not take.

    Raises UsageError.
    """
    if name and not MEDIA_NAME.fullmatch(f"{name}{_LONGEST_ENDING}"):
        raise UsageError(
            f"{name!r} can't be the name of a bundle",
            mend=f"give a --name of letters, digits and . _ + @ -, at most {_LONGEST_NAME}, "
            "that starts with a letter or digit",
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
