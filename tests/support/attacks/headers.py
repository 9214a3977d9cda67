"""The archive: other headers and members, with a list that fits."""

import tarfile
from typing import Any

from manifests import archive, bundle, canonical
from tests.support.attacks.dismantled import WEIGHTS, Dismantled, Part, tampered
from tests.support.attacks.table import SCRIPT, attack
from tests.support.simulator import CREATED


class InTheArchive(Dismantled):
    """The archive: other headers and members, with a list that fits."""

    @attack("bundle.lock")
    def a_member_missing(self) -> None:
        self.parts = [part for part in self.parts if part.path != bundle.LOCK_MEMBER]
        self.repack()

    @attack("the end of the archive")
    def a_member_more(self) -> None:
        self.parts.append(Part("hidden", b"unlisted"))
        self.repack()

    @attack("bundle.lock")
    def a_member_more_in_between(self) -> None:
        self.parts.insert(2, Part("hidden", b"unlisted"))
        self.repack()

    @attack("the end of the archive")
    def a_member_twice(self) -> None:
        self.parts.append(Part(WEIGHTS, b"the second one wins with tar"))
        self.repack()

    @attack("runtime.tar.gz in it is", door=SCRIPT)
    def the_runtime_twice(self) -> None:
        self.parts.append(Part(bundle.RUNTIME_MEMBER, b"the second one wins with tar"))
        self.repack()

    @attack("model/config.json")
    def members_in_another_order(self) -> None:
        self.parts[-1], self.parts[-2] = self.parts[-2], self.parts[-1]
        self.repack()

    @attack("env.tar.zst")
    def bytes_in_the_padding(self) -> None:
        part = self.part(bundle.ENVIRONMENT_MEMBER)
        part.padding = b"x" * len(archive.padding(len(part.data)))
        self.repack()

    @attack("does not start with bundle.json")
    def no_manifest(self) -> None:
        data = self.tar.read_bytes()
        length = archive.member_length("bundle.json", len(canonical.dumps(self.manifest)))
        self.tar.write_bytes(data[length:])
        self.relist()

    @attack("the first header")
    def an_empty_archive(self) -> None:
        self.tar.write_bytes(b"")
        self.relist()

    @attack("does not start with bundle.json")
    def zeros_for_an_archive(self) -> None:
        self.tar.write_bytes(bytes(archive.RECORD))
        self.relist()

    @attack(WEIGHTS)
    def an_absolute_name(self) -> None:
        self.head(name=str(self.root / "outside/precious"))

    @attack(WEIGHTS)
    def a_name_above(self) -> None:
        self.head(name="../../../outside/precious")

    @attack(WEIGHTS)
    def a_name_in_another_case(self) -> None:
        self.head(name=WEIGHTS.upper())

    @attack(WEIGHTS)
    def a_symlink(self) -> None:
        self.head(type=tarfile.SYMTYPE, linkname=str(self.root / "outside"), size=0)

    @attack(WEIGHTS)
    def a_hard_link(self) -> None:
        self.head(type=tarfile.LNKTYPE, linkname=str(self.root / "outside/precious"))

    @attack(WEIGHTS)
    def a_character_device(self) -> None:
        self.head(type=tarfile.CHRTYPE, devmajor=1, devminor=3)

    @attack(WEIGHTS)
    def a_block_device(self) -> None:
        self.head(type=tarfile.BLKTYPE, devmajor=8, devminor=0)

    @attack(WEIGHTS)
    def a_fifo(self) -> None:
        self.head(type=tarfile.FIFOTYPE)

    @attack(WEIGHTS)
    def a_folder(self) -> None:
        self.head(type=tarfile.DIRTYPE)

    @attack(WEIGHTS)
    def a_setuid_bit(self) -> None:
        self.head(mode=0o4755)

    @attack(WEIGHTS)
    def a_file_that_everybody_may_write(self) -> None:
        self.head(mode=0o666)

    @attack(WEIGHTS)
    def another_owner(self) -> None:
        self.head(uid=1000, uname="mallory")

    @attack(WEIGHTS)
    def another_time(self) -> None:
        self.head(mtime=0)

    @attack(WEIGHTS)
    def a_huge_size(self) -> None:
        self.head(size=(1 << 62) - 1)

    @attack(WEIGHTS)
    def a_smaller_size(self) -> None:
        self.head(size=1)

    @attack(WEIGHTS)
    def a_negative_size(self) -> None:
        self.head()
        part = self.part(WEIGHTS)
        assert part.header is not None
        # GNU's base-256: the first bit says so, the rest is two's complement.
        part.header = tampered(part.header, 124, b"\xff" * 12)
        self.repack()

    @attack(WEIGHTS)
    def a_wrong_checksum(self) -> None:
        self.head()
        part = self.part(WEIGHTS)
        assert part.header is not None
        part.header = part.header[:148] + b"000000\0 " + part.header[156:]
        self.repack()

    @attack(WEIGHTS)
    def a_ustar_prefix(self) -> None:
        """The name in two fields, as POSIX has it and GNU has not."""
        info = tarfile.TarInfo(WEIGHTS)
        info.size, info.mtime, info.mode = len(self.part(WEIGHTS).data), CREATED, 0o644
        block = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
        self.part(WEIGHTS).header = tampered(block, 345, b"model/../../outside")
        self.repack()

    @attack(WEIGHTS)
    def a_sparse_file(self) -> None:
        self.head(type=tarfile.GNUTYPE_SPARSE)
        part = self.part(WEIGHTS)
        assert part.header is not None
        part.header = tampered(part.header, 483, b"%011o\0" % (1 << 32))  # real size
        self.repack()

    @attack(WEIGHTS)
    def a_pax_header_before_a_member(self) -> None:
        info = tarfile.TarInfo(WEIGHTS)
        info.pax_headers = {"path": "../../../outside/precious", "size": "1"}
        self.head(before=info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")[:1024])

    @attack("does not start with bundle.json")
    def a_global_pax_header(self) -> None:
        block = tarfile.TarInfo.create_pax_global_header({"path": "/etc/passwd"})
        self.repack()
        self.tar.write_bytes(block + self.tar.read_bytes())
        self.relist()

    @attack(WEIGHTS)
    def a_long_name_before_a_member(self) -> None:
        long = archive.header("../" * 40 + "outside/precious", 1, CREATED)[: -archive.BLOCK]
        self.head(before=long)

    @attack(WEIGHTS)
    def a_volume_label_before_a_member(self) -> None:
        label = tarfile.TarInfo("label")
        label.type = b"V"
        self.head(before=label.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict"))

    @attack("does not start with bundle.json")
    def a_manifest_that_is_a_symlink(self) -> None:
        self.first_header(type=tarfile.SYMTYPE, linkname="/etc/passwd")

    @attack("does not start with bundle.json")
    def a_manifest_with_a_negative_size(self) -> None:
        self.first_header(raw=(124, b"\xff" * 12))

    @attack("bundle.json")
    def a_manifest_with_a_huge_size(self) -> None:
        self.first_header(size=1 << 50)

    @attack("bundle.json")
    def a_manifest_of_another_time(self) -> None:
        self.first_header(mtime=CREATED + 1)

    # What `tar` itself meets when install.sh takes the runtime out

    def _runtime(self, **values: Any) -> None:
        self.head(bundle.RUNTIME_MEMBER, **values)

    @attack("runtime.tar.gz in it is", door=SCRIPT)
    def a_runtime_that_is_a_symlink(self) -> None:
        self._runtime(type=tarfile.SYMTYPE, linkname=str(self.root / "outside/precious"))

    @attack("runtime.tar.gz in it is no file", door=SCRIPT)
    def a_runtime_that_is_a_pipe(self) -> None:
        self._runtime(type=tarfile.FIFOTYPE)

    @attack("runtime.tar.gz in it is", door=SCRIPT)
    def a_runtime_that_is_a_hard_link(self) -> None:
        self._runtime(type=tarfile.LNKTYPE, linkname=str(self.root / "outside/precious"))

    @attack("runtime.tar.gz in it is", door=SCRIPT)
    def a_runtime_below_a_symlink(self) -> None:
        info = tarfile.TarInfo(bundle.RUNTIME_MEMBER)
        info.type, info.linkname = tarfile.SYMTYPE, str(self.root / "outside")
        link = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
        self._runtime(name=f"{bundle.RUNTIME_MEMBER}/precious", before=link)

    @attack("runtime.tar.gz", door=SCRIPT)
    def a_runtime_through_a_symlink(self) -> None:
        """The link has the runtime's name, and so has the file that is to be written through it."""
        info = tarfile.TarInfo(bundle.RUNTIME_MEMBER)
        info.type, info.linkname = tarfile.SYMTYPE, str(self.root / "outside/precious")
        link = info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict")
        part = self.part(bundle.RUNTIME_MEMBER)
        part.data = part.data[:-1] + b"x"
        self._runtime(before=link)

    @attack("runtime.tar.gz", door=SCRIPT)
    def a_runtime_of_other_bytes(self) -> None:
        part = self.part(bundle.RUNTIME_MEMBER)
        part.data = part.data[:-1] + bytes([part.data[-1] ^ 1])
        self.repack()
