"""What file systems and files say for or against a rule of doctor."""

from collections.abc import Callable, Mapping

from bundlectl.host import FileSystem
from bundlectl.host.reading import UNLIMITED
from bundlectl.scene import Scene
from manifests.console import size
from manifests.doctor import Answer

#: Bytes and files. With less, what failed for want of room failed for that.
_LITTLE_DISK, _LITTLE_SHM, _FEW_INODES = 1 << 28, 1 << 30, 1000
_UNKNOWN = Answer(None)
_SHM = "/dev/shm"  # noqa: S108 - told, not used


def _shm_small(scene: Scene) -> Answer:
    shm = scene.host.storage.shm
    if shm is None:
        return Answer(True, f"{_SHM} is missing or can't be written")
    found = f"{_SHM} has {size(shm.size)}, {size(shm.free)} free"
    return Answer(min(shm.size, shm.free) < _LITTLE_SHM, found)


def _shm_missing(scene: Scene) -> Answer:
    there = scene.host.storage.shm is not None
    return Answer(not there, f"{_SHM} {'can' if there else 'can not'} be written")


def _mount(file_system: FileSystem | None, holds: bool, how: str) -> Answer:
    if file_system is None:
        return _UNKNOWN
    word = "" if holds else "not "
    return Answer(holds, f"{file_system.mount} ({file_system.kind}) is {word}{how}")


def _cache(scene: Scene) -> FileSystem:
    return scene.host.storage.cache or scene.host.storage.file_system


def _cache_noexec(scene: Scene) -> Answer:
    return _mount(_cache(scene), _cache(scene).noexec, "mounted noexec")


def _temporary_noexec(scene: Scene) -> Answer:
    place = scene.temporary
    return _mount(place, place is not None and place.noexec, "mounted noexec")


def _prefix_noexec(scene: Scene) -> Answer:
    place = scene.host.storage.file_system
    return _mount(place, place.noexec, "mounted noexec")


def _prefix_read_only(scene: Scene) -> Answer:
    places = (scene.host.storage.file_system, _cache(scene))
    worst = next((place for place in places if place.read_only), places[0])
    return _mount(worst, worst.read_only, "mounted read-only")


def _places(scene: Scene) -> list[FileSystem]:
    found = (scene.host.storage.file_system, _cache(scene), scene.temporary, scene.host.storage.shm)
    return [place for place in found if place is not None]


def _disk_full(scene: Scene) -> Answer:
    least = min(_places(scene), key=lambda place: place.free)
    return Answer(least.free < _LITTLE_DISK, f"{size(least.free)} free on {least.mount}")


def _inodes_out(scene: Scene) -> Answer:
    counted = [place for place in _places(scene) if place.inodes != UNLIMITED]
    if not counted:
        return Answer(False, "no limit to the number of files")
    least = min(counted, key=lambda place: place.inodes)
    return Answer(
        least.inodes < _FEW_INODES, f"{least.inodes} more files can be made on {least.mount}"
    )


def _cache_forbidden(scene: Scene) -> Answer:
    if scene.installed is None:
        return _UNKNOWN
    how = "can" if scene.installed.cache_writable else "can not"
    return Answer(
        not scene.installed.cache_writable,
        f"{scene.host.storage.prefix}/cache {how} be written by this account",
    )


def _prefix_moved(scene: Scene) -> Answer:
    if scene.installed is None:
        return _UNKNOWN
    moved = scene.installed.moved
    return Answer(bool(moved), f"its launcher was made for {moved or 'this place'}")


def _model_incomplete(scene: Scene) -> Answer:
    if scene.installed is None:
        return _UNKNOWN
    missing = scene.installed.incomplete
    return Answer(bool(missing), missing or "all files of the model have their sizes")


#: By the names in manifests/doctor/probes.toml.
PROBES: Mapping[str, Callable[[Scene], Answer]] = {
    "shm-small": _shm_small,
    "shm-missing": _shm_missing,
    "cache-noexec": _cache_noexec,
    "temporary-noexec": _temporary_noexec,
    "prefix-noexec": _prefix_noexec,
    "prefix-read-only": _prefix_read_only,
    "prefix-moved": _prefix_moved,
    "disk-full": _disk_full,
    "inodes-out": _inodes_out,
    "cache-forbidden": _cache_forbidden,
    "model-incomplete": _model_incomplete,
}
