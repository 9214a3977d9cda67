"""Where in a simulated archive what lies."""

from manifests import archive
from tests.support.simulator import CREATED, Simulator


def regions() -> dict[str, tuple[int, int]]:
    """Every stretch of a simulated archive: name → its first byte, and the one after its last."""
    simulator = Simulator()
    found, place = {}, 0
    members = {archive.MANIFEST_NAME: simulator.manifest().dump(), **simulator.contents()}
    for path, data in members.items():
        header = len(archive.header(path, len(data), CREATED))
        for what, length in (
            ("header", header),
            ("bytes", len(data)),
            ("padding", len(archive.padding(len(data)))),
        ):
            if length:
                found[f"{what} of {path}"] = (place, place + length)
                place += length
    found["trailer"] = (place, place + len(archive.trailer(place)))
    return found


def boundaries() -> list[int]:
    """Every length at which a region of the archive ends, and one byte to either side."""
    end = max(stop for _, stop in regions().values())
    places = {start + step for start, _ in regions().values() for step in (-1, 0, 1)}
    return [place for place in sorted(places | {end - 1}) if 0 <= place < end]
