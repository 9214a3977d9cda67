"""A tiny bundle with parity, and ways to damage a copy of it."""

import random
import shutil
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bundler import parity
from manifests.parity import restore
from manifests.parity.restore import Restored
from manifests.parity.scheme import Scheme
from manifests.parity.shelf import Shelf
from tests.support.simulator import RUNTIME, Simulator

#: What says that the runtime can restore; see bundler.parity.
LIBRARY = {"lib": None, "lib/pyeclib": None, "lib/pyeclib/core.py": b""}


def simulator(size: int = 300_000, **changes) -> Simulator:
    weights = random.Random(size).randbytes(size)
    model = {"config.json": b"{}", "model.safetensors": weights}
    return Simulator(runtime={**RUNTIME, **LIBRARY}, model=model, **changes)


def bundle_with_parity(
    output: Path, percent: int = 5, size: int = 300_000, volume_size: int = 0
) -> Path:
    folder, _ = simulator(size).write(output, volume_size=volume_size)
    parity.add(folder, percent)
    return folder


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.name: (path.stat().st_mode & 0o777, path.read_bytes()) for path in folder.iterdir()
    }


@dataclass(frozen=True)
class Medium:
    """A copy of a bundle that may be damaged, and what it was."""

    source: Path
    folder: Path

    @classmethod
    def of(cls, source: Path, place: Path) -> "Medium":
        shutil.rmtree(place, ignore_errors=True)
        return cls(source, Path(shutil.copytree(source, place / source.name)))

    @cached_property
    def scheme(self) -> Scheme:
        with closing(Shelf([self.source])) as shelf:
            return restore.find(shelf)

    def overwrite(self, name: str, offset: int, size: int) -> None:
        """Other bytes than those that were there, as far as the file goes."""
        with (self.folder / name).open("r+b") as out:
            out.seek(offset)
            data = out.read(size)
            out.seek(offset)
            out.write(bytes(byte ^ 0x55 for byte in data))

    def lose(self, *numbers: int) -> None:
        """Damage whole blocks, by number, wherever they lie."""
        for number in numbers:
            run = self.scheme.run(number)
            for name in {run.name, self.scheme.twin(run)} - {""}:
                self.overwrite(name, run.offset, run.size)

    def restored(self, target: Path, *others: Path, trusted: str = "") -> Restored:
        with closing(Shelf([self.folder, *others])) as shelf:
            return restore.restore(shelf, restore.find(shelf), target, trusted=trusted)
