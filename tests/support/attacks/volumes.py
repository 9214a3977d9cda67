"""Volumes: missing, mixed, swapped, cut off."""

import os
import shutil

from manifests.exitcodes import ExitCode
from tests.support.attacks.dismantled import Dismantled
from tests.support.attacks.table import SCRIPT, attack
from tests.support.simulator import MODEL, Simulator

#: Bytes of a volume, and a model that fills several.
VOLUME = 8_192
LARGE_MODEL = {**MODEL, "large.safetensors": bytes(range(256)) * 80}


class OnVolumes(Dismantled):
    """Volumes: missing, mixed, swapped, cut off."""

    @attack("the bundle that it belongs to", volumes=True)
    def a_volume_of_another_bundle(self) -> None:
        other = type(self)(
            self.root / "other", Simulator(model=LARGE_MODEL | {"x": b""}), self.volume_size
        )
        shutil.copy(other.volumes()[1], self.volumes()[1])

    @attack("the bundle that it belongs to", volumes=True)
    def a_volume_of_another_bundle_in_the_list(self) -> None:
        self.a_volume_of_another_bundle()
        self.relist()

    @attack("the volume that it is", volumes=True)
    def volumes_swapped(self) -> None:
        one, two = self.volumes()[1:3]
        one.rename(self.folder / "x")
        two.rename(one)
        (self.folder / "x").rename(two)

    @attack("the volume that it is", volumes=True)
    def volumes_swapped_in_the_list(self) -> None:
        self.volumes_swapped()
        self.relist()

    @attack(".tar.001: not on this medium", volumes=True, code=ExitCode.SOURCE)
    def a_volume_missing(self) -> None:
        self.volumes()[1].unlink()

    @attack(".tar.001: not on this medium", volumes=True, code=ExitCode.SOURCE)
    def a_fifo_for_a_volume(self) -> None:
        self.volumes()[1].unlink()
        os.mkfifo(self.folder / f"{self.folder.name}.tar.001")

    @attack("a link where a file has to be", volumes=True, door=SCRIPT)
    def a_link_for_a_volume(self) -> None:
        self.link_away(self.volumes()[1])

    @attack("lies beside the bundle", volumes=True, door=SCRIPT)
    def a_stale_volume_of_an_earlier_bundle(self) -> None:
        volumes = self.volumes()
        shutil.copy(volumes[-1], volumes[0].with_suffix(f".{len(volumes):03}"))

    @attack("does not start with a volume's label", volumes=True)
    def a_label_altered(self) -> None:
        self._flip_volume(1, 300)

    @attack(".tar.001", volumes=True)
    def a_bit_of_a_volume(self) -> None:
        self._flip_volume(1, 4000)

    @attack(".tar.", volumes=True)
    def a_volume_cut_off(self) -> None:
        os.truncate(self.volumes()[2], VOLUME // 2)

    @attack("the end of the archive", volumes=True)
    def a_volume_cut_off_and_listed(self) -> None:
        os.truncate(self.volumes()[-1], VOLUME // 2)
        self.relist()

    @attack("the end of the archive", volumes=True)
    def bytes_after_the_last_volume(self) -> None:
        self.append(self.volumes()[-1], bytes(512))
        self.relist()

    @attack("are missing in the list", volumes=True)
    def a_gap_in_the_list(self) -> None:
        self.volumes()[1].unlink()
        self.relist()

    @attack("the volume that it is", volumes=True)
    def the_last_volume_left_out_of_the_list(self) -> None:
        self.volumes()[-1].unlink()
        self.relist()

    def _flip_volume(self, number: int, place: int) -> None:
        path = self.volumes()[number]
        data = bytearray(path.read_bytes())
        data[place] ^= 1
        path.write_bytes(data)
