"""The packed environment: digested rightly, so only unpacking can see what it is."""

import io
import tarfile
from collections.abc import Callable
from typing import Any

import zstandard

from manifests import bundle
from tests.support.attacks.dismantled import Dismantled
from tests.support.attacks.table import attack
from tests.support.simulator import ENVIRONMENT, Content, archive_of


class InTheEnvironment(Dismantled):
    """The packed environment: digested rightly, so only unpacking can see what it is."""

    def _inner(self, data: bytes) -> None:
        self.put(bundle.ENVIRONMENT_MEMBER, data)
        self.reseal()

    def _inner_tar(self, change: Callable[[tarfile.TarInfo], None], path: str) -> None:
        """The listed tree with another header for one entry."""
        whole, out = io.BytesIO(archive_of(ENVIRONMENT)), io.BytesIO()
        with (
            tarfile.open(fileobj=whole) as packed,
            tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar,
        ):
            for info in packed:
                data = packed.extractfile(info) if info.isreg() else None
                if info.name == path:
                    change(info)
                tar.addfile(info, data)
        self._inner(zstandard.compress(out.getvalue()))

    def _inner_change(self, path: str = "lib/empty", **values: Any) -> None:
        def change(info: tarfile.TarInfo) -> None:
            for key, value in values.items():
                setattr(info, key, value)

        self._inner_tar(change, path)

    @attack("lib/empty", audited=False)
    def a_packed_absolute_name(self) -> None:
        self._inner_change(name=str(self.root / "outside/precious"))

    @attack("lib/empty", audited=False)
    def a_packed_name_above(self) -> None:
        self._inner_change(name="../../../../outside/precious")

    @attack("lib/empty", audited=False)
    def a_packed_symlink(self) -> None:
        self._inner_change(type=tarfile.SYMTYPE, linkname=str(self.root / "outside"))

    @attack("lib/libexample.so", audited=False)
    def a_packed_link_elsewhere(self) -> None:
        self._inner_change("lib/libexample.so", linkname="/etc/passwd")

    @attack("lib/empty", audited=False)
    def a_packed_hard_link(self) -> None:
        self._inner_change(type=tarfile.LNKTYPE, linkname="bin/python")

    @attack("lib/empty", audited=False)
    def a_packed_device(self) -> None:
        self._inner_change(type=tarfile.CHRTYPE, devmajor=1, devminor=3)

    @attack("lib/empty", audited=False)
    def a_packed_fifo(self) -> None:
        self._inner_change(type=tarfile.FIFOTYPE)

    @attack("bin/python", audited=False)
    def a_packed_setuid_program(self) -> None:
        self._inner_change("bin/python", mode=0o4755)

    @attack("lib/empty", audited=False)
    def a_packed_file_that_everybody_may_write(self) -> None:
        self._inner_change(mode=0o666)

    @attack("lib/empty", audited=False)
    def a_packed_file_of_another_owner(self) -> None:
        self._inner_change(uid=1000)

    def _packed(self, content: Content) -> None:
        self._inner(zstandard.compress(archive_of(content)))

    @attack("the end of the archive", audited=False)
    def a_packed_file_more(self) -> None:
        self._packed({**ENVIRONMENT, "zzz": b"x"})

    @attack("share", audited=False)
    def a_packed_file_less(self) -> None:
        self._packed(dict(list(ENVIRONMENT.items())[:-1]))

    @attack("bin", audited=False)
    def a_packed_tree_in_another_order(self) -> None:
        self._packed(dict(reversed(ENVIRONMENT.items())))

    @attack("the end of the archive", audited=False)
    def a_bomb_of_zeros(self) -> None:
        """A few kB that go on for 256 MiB behind the last file."""
        end = zstandard.compress(archive_of(ENVIRONMENT) + bytes(256 << 20))
        self._inner(end)

    @attack("env.tar.zst", audited=False)
    def a_bomb_that_wants_a_gigabyte_of_memory(self) -> None:
        """A window of 2 GiB, which a decoder has to hold."""
        parameters = zstandard.ZstdCompressionParameters(window_log=31, enable_ldm=True)
        packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        self._inner(packer.compress(archive_of(ENVIRONMENT)) + packer.flush())

    @attack("env.tar.zst", audited=False)
    def compressed_bytes_that_are_none(self) -> None:
        self._inner(b"not zstd")

    @attack("bin: expected the header of a listed entry", audited=False)
    def compressed_bytes_cut_off(self) -> None:
        self._inner(zstandard.compress(archive_of(ENVIRONMENT))[:-8])

    @attack("the end of the archive", audited=False)
    def a_second_frame_behind_the_first(self) -> None:
        packed = zstandard.compress(archive_of(ENVIRONMENT))
        self._inner(packed + zstandard.compress(b"hidden"))

    @attack("env.tar.zst", audited=False)
    def junk_behind_the_compressed_bytes(self) -> None:
        self._inner(zstandard.compress(archive_of(ENVIRONMENT)) + b"junk")
