"""The bill of what is in the store: what artefacts say, read out of them as they were fetched."""

import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bundler.papers import (
    bill,
    gathering_code,
    gathering_conda,
    gathering_models,
    gathering_said,
    gathering_ways,
)
from bundler.papers.bill import Bill
from bundler.papers.gathering_assembly import assemble, conda_ref, part_ref, wheel_ref
from bundler.papers.gathering_said import NOTHING, Said
from bundler.papers.gathering_ways import Papers
from bundler.parts import Taken
from manifests.lock import CondaPackage, Lock, Wheel
from wheelhouse import record
from wheelhouse.store import Store


def of_taken(locked: Lock, built: Sequence[Wheel], taken: Iterable[Taken], store: Store) -> Bill:
    """The bill of a bundle that is being made; `locked` has every file's sha256.

    Raises IntegrityError or FilesystemError.
    """
    papers = {
        part_ref(one.item): {
            file.path: gathering_ways.read(one.files[file.path], file)
            for file in gathering_models.papers(one.item)
        }
        for one in taken
    }
    return of_store(locked, built, papers, store)


def of_store(
    locked: Lock, built: Sequence[Wheel], papers: Mapping[str, Papers], store: Store
) -> Bill:
    """The bill of a lock whose artefacts are in the store; `papers` of its parts by their refs."""
    said = {
        part_ref(part): gathering_models.said(part, papers[part_ref(part)]) for part in locked.parts
    }
    for scope, conda, wheels in scopes(locked, built):
        said |= {conda_ref(scope, one): _stored_conda(one, store) for one in conda}
        said |= {wheel_ref(scope, one): _stored_wheel(one, store) for one in wheels}
    return assemble(locked, built, said, gathering_code.of_this_program(), locked.digest())


def scopes(
    locked: Lock, built: Sequence[Wheel]
) -> Iterator[tuple[str, tuple[CondaPackage, ...], tuple[Wheel, ...]]]:
    """What is in the environment, and what in the runtime."""
    yield bill.ENVIRONMENT, locked.conda, (*locked.wheels, *built)
    yield bill.RUNTIME, locked.runtime_conda, locked.runtime_wheels


def _stored_wheel(wheel: Wheel, store: Store) -> Said:
    """What a wheel in the store says; its bytes were compared when they came there."""
    try:
        return _of_zip(store.path(wheel.sha256), wheel)
    except (*record.UNSOUND, OSError):
        path = store.verified(wheel.sha256, wheel.filename)  # heals it, or says what is wrong
    try:
        return _of_zip(path, wheel)
    except record.UNSOUND:
        return NOTHING  # as it was published


def _of_zip(path: Path, wheel: Wheel) -> Said:
    with zipfile.ZipFile(path) as archive:
        found: dict[str, bytes] = {}
        tops = {i.filename.partition("/")[0] for i in archive.infolist()}
        infos = {name for name in tops if name.endswith(".dist-info")}
        own = gathering_said.info_of(infos, wheel.name, wheel.version)
        for info in archive.infolist() if own else ():
            folder, _, name = info.filename.partition("/")
            wanted = folder == own and name and not info.is_dir()
            if wanted and gathering_said.is_wanted(name, info.file_size):
                found[name] = archive.read(info)
    return gathering_said.of_wheel(found)


def _stored_conda(package: CondaPackage, store: Store) -> Said:
    name = package.url.rpartition("/")[2]
    try:
        return gathering_conda.of_archive(store.path(package.sha256), package)
    except (*gathering_conda.DAMAGE, OSError):
        path = store.verified(package.sha256, name)
    try:
        return gathering_conda.of_archive(path, package)
    except gathering_conda.DAMAGE:
        return NOTHING
