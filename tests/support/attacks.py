"""What somebody with the medium in their hands can do to a bundle: one method for each attack.

Three depths, each of which gets past the checks of the one before it:

- the medium: bytes of its files change, their list does not;
- the archive: other headers and members, and SHA256SUMS is made to fit;
- the manifest: it says something that no honest packer writes, and install.sh and SHA256SUMS are
  made to fit, so that nothing but the rules for manifests and trees can refuse it.
"""

import io
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import zstandard

from manifests import archive, bundle, canonical, sums
from manifests.exitcodes import ExitCode
from tests.support.simulator import (
    CREATED,
    ENVIRONMENT,
    MODEL,
    Content,
    Simulator,
    archive_of,
    entries,
    sha256,
)

#: Who has to see an attack first: install.sh, or the reader that it starts.
SCRIPT, READER = "install.sh", "reader"
#: Bytes of a volume, and a model that fills several.
VOLUME = 8_192
LARGE_MODEL = {**MODEL, "large.safetensors": bytes(range(256)) * 80}
WEIGHTS = "model/sub/weights.safetensors"
F = TypeVar("F", bound=Callable[..., None])


@dataclass(frozen=True)
class Attack:
    """One attack, and how it has to end."""

    name: str
    told: str  # what the message has to name
    door: str = READER
    audited: bool = True  # False: the bytes are those that the manifest names
    volumes: bool = False
    code: ExitCode = ExitCode.INTEGRITY

    def commit(self, bundle: "BundleSimulator") -> None:
        getattr(bundle, self.name)()


ATTACKS: dict[str, Attack] = {}


def attack(told: str, **how: Any) -> Callable[[F], F]:
    """Put a method into the table."""

    def enter(method: F) -> F:
        name = method.__name__
        ATTACKS[name] = Attack(name, told, **how)
        return method

    return enter


@dataclass
class Part:
    """One member as it is to lie in the archive."""

    path: str
    data: bytes
    header: bytes | None = None  # another one than an honest packer's
    padding: bytes | None = None

    def lay(self) -> bytes:
        header = self.header or archive.header(self.path, len(self.data), CREATED)
        padding = archive.padding(len(self.data)) if self.padding is None else self.padding
        return header + self.data + padding


def tampered(block: bytes, start: int, value: bytes) -> bytes:
    """A tar header with a field replaced and its checksum made to fit."""
    changed = block[:start] + value + block[start + len(value) :]
    blank = changed[:148] + b" " * 8 + changed[156:]
    return changed[:148] + b"%06o\0 " % sum(blank[: archive.BLOCK]) + changed[156:]


def regions(volume_size: int = 0) -> dict[str, tuple[int, int]]:
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


@dataclass
class BundleSimulator:
    """A valid bundle on a medium, taken apart so that any part of it can be replaced."""

    root: Path
    content: Simulator = field(default_factory=Simulator)
    volume_size: int = 0

    def __post_init__(self) -> None:
        manifest = self.content.manifest()
        self.folder, self.digest = self.root / "media" / manifest.name, sha256(manifest.dump())
        if not self.folder.exists():  # a copy of an earlier one is made faster
            self.content.write(self.root / "media", volume_size=self.volume_size)
        self.manifest: dict[str, Any] = json.loads(manifest.dump())
        self.parts = [Part(path, data) for path, data in self.content.contents().items()]

    # The medium's files

    @property
    def tar(self) -> Path:
        return self.folder / f"{self.folder.name}.tar"

    @property
    def script(self) -> Path:
        return self.folder / "install.sh"

    @property
    def listing(self) -> Path:
        return self.folder / sums.FILE_NAME

    def volumes(self) -> list[Path]:
        return sorted(self.folder.glob("*.tar.*"))

    def named_digest(self) -> str:
        """The manifest that install.sh names: what bundlectl is told to expect."""
        match = re.search(r"^MANIFEST_SHA256=(\w+)$", self.script.read_text(), re.MULTILINE)
        return match[1] if match else ""

    # Making things fit again

    def relist(self) -> None:
        """Write SHA256SUMS for what lies there."""
        names = [path.name for path in self.folder.iterdir() if path != self.listing]
        self.listing.write_bytes(
            sums.render({name: sha256((self.folder / name).read_bytes()) for name in names})
        )

    def repack(self, data: bytes | None = None, *, tail: bytes | None = None) -> None:
        """Write the archive from its parts, and a list that fits."""
        data = canonical.dumps(self.manifest) if data is None else data
        laid = Part(archive.MANIFEST_NAME, data).lay()
        laid += b"".join(part.lay() for part in self.parts)
        self.tar.write_bytes(laid + (archive.trailer(len(laid)) if tail is None else tail))
        self.relist()

    def reseal(self, data: bytes | None = None) -> None:
        """`repack`, with an install.sh that names the new manifest and runtime."""
        data = canonical.dumps(self.manifest) if data is None else data
        text = self.script.read_text()
        text = text.replace(self.digest, bundle.digest_of(data))
        for part in self.parts:
            if part.path == bundle.RUNTIME_MEMBER:
                for key, value in (("SHA256", sha256(part.data)), ("SIZE", len(part.data))):
                    text = re.sub(rf"(?m)^RUNTIME_{key}=.*$", f"RUNTIME_{key}={value}", text)
        self.script.write_text(text)
        self.repack(data)

    def part(self, path: str) -> Part:
        (found,) = (part for part in self.parts if part.path == path)
        return found

    def member(self, path: str) -> dict[str, Any]:
        """A member as the manifest lists it."""
        (found,) = (member for member in self.manifest["members"] if member["path"] == path)
        return dict_of(found)

    def entry(self, path: str) -> dict[str, Any]:
        """An entry of the environment as the manifest lists it."""
        (found,) = (entry for entry in self.manifest["environment"] if entry["path"] == path)
        return dict_of(found)

    def put(self, path: str, data: bytes) -> None:
        """Replace or add a member, in the manifest too."""
        role = {bundle.RUNTIME_MEMBER: "runtime", bundle.ENVIRONMENT_MEMBER: "environment"}
        listed = {
            "path": path,
            "role": role.get(path, "model" if path.startswith("model/") else "document"),
            "size": len(data),
            "sha256": sha256(data),
        }
        for known in self.manifest["members"]:
            if known["path"] == path:
                known.update(listed)
                self.part(path).data = data
                return
        self.manifest["members"].append(listed)
        self.parts.append(Part(path, data))

    def list_environment(self, content: Content, packed: bytes | None = None) -> None:
        """Another environment, in the manifest and packed (or packed in another way)."""
        from manifests.records import to_data

        self.manifest["environment"] = to_data(entries(content))
        data = archive_of(content) if packed is None else packed
        self.put(bundle.ENVIRONMENT_MEMBER, zstandard.compress(data))

    # The medium: bytes at rest

    def flip(self, place: int) -> None:
        """Change one bit of the archive."""
        with self.tar.open("r+b") as handle:
            handle.seek(place)
            (byte,) = handle.read(1)
            handle.seek(place)
            handle.write(bytes([byte ^ 1 << place % 8]))

    def cut(self, length: int) -> None:
        """Cut the archive off."""
        os.truncate(self.tar, length)

    def _append(self, path: Path, data: bytes) -> None:
        with path.open("ab") as handle:
            handle.write(data)

    @attack("the end of the archive")
    def one_byte_after_the_end(self) -> None:
        self._append(self.tar, b"\0")

    @attack("the end of the archive")
    def a_record_after_the_end(self) -> None:
        self._append(self.tar, bytes(archive.RECORD))
        self.relist()

    @attack("the end of the archive")
    def a_second_archive_after_the_end(self) -> None:
        self._append(self.tar, self.tar.read_bytes())
        self.relist()

    @attack("the end of the archive")
    def a_member_in_place_of_the_end(self) -> None:
        self.repack(tail=Part("hidden", b"x").lay() + archive.trailer(1024))

    @attack("the end of the archive")
    def no_end(self) -> None:
        self.repack(tail=b"")

    @attack("install.sh: altered", door=SCRIPT)
    def a_line_more_in_the_script(self) -> None:
        self._append(self.script, b"echo altered\n")

    @attack("lines end in CR LF", door=SCRIPT)
    def a_script_in_crlf(self) -> None:
        self._to_crlf(self.script)

    @attack("SHA256SUMS: its lines end in CR LF", door=SCRIPT)
    def a_list_in_crlf(self) -> None:
        self._to_crlf(self.listing)

    @attack("lines end in CR LF", door=SCRIPT)
    def all_texts_in_crlf(self) -> None:
        self._to_crlf(self.script)
        self._to_crlf(self.listing)

    @attack("install.sh", door=SCRIPT)
    def a_script_in_crlf_and_a_list_that_fits(self) -> None:
        self._to_crlf(self.script)
        self.relist()

    @staticmethod
    def _to_crlf(path: Path) -> None:
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def a_comment_in_the_list(self) -> None:
        self._append(self.listing, b"# all fine\n")

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def an_empty_line_in_the_list(self) -> None:
        self._append(self.listing, b"\n")

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def a_binary_mark_in_the_list(self) -> None:
        self.listing.write_bytes(self.listing.read_bytes().replace(b"  ", b" *"))

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def an_absolute_name_in_the_list(self) -> None:
        self._append(self.listing, b"0" * 64 + b"  /etc/passwd\n")

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def a_name_above_in_the_list(self) -> None:
        self._append(self.listing, b"0" * 64 + b"  ../outside/precious\n")

    @attack("SHA256SUMS: names install.sh twice", door=SCRIPT)
    def a_list_twice(self) -> None:
        self._append(self.listing, self.listing.read_bytes())

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def upper_case_digests(self) -> None:
        self.listing.write_bytes(re.sub(rb"[0-9a-f]{64}", lambda m: m[0].upper(), self._listed()))

    @attack("tiny+stack+: missing on the medium", door=SCRIPT)
    def a_list_cut_in_a_line(self) -> None:
        self.listing.write_bytes(self._listed()[:-8])

    @attack("SHA256SUMS: has no line for", door=SCRIPT)
    def a_list_cut_between_lines(self) -> None:
        self.listing.write_bytes(self._listed().splitlines(keepends=True)[0])

    def _listed(self) -> bytes:
        return self.listing.read_bytes()

    @attack("SHA256SUMS: has no line for", door=SCRIPT)
    def an_empty_list(self) -> None:
        self.listing.write_bytes(b"")

    @attack("SHA256SUMS: not a regular file", door=SCRIPT)
    def a_folder_for_the_list(self) -> None:
        self.listing.unlink()
        self.listing.mkdir()

    @attack("SHA256SUMS: a link where a file has to be", door=SCRIPT)
    def a_link_for_the_list(self) -> None:
        self._link_away(self.listing)

    @attack("a link where a file has to be", door=SCRIPT)
    def a_link_for_the_script(self) -> None:
        self._link_away(self.script)

    @attack(".tar: a link where a file has to be", door=SCRIPT)
    def a_link_for_the_archive(self) -> None:
        self._link_away(self.tar)

    def _link_away(self, path: Path) -> None:
        moved = self.root / f"moved {path.name}"
        shutil.move(path, moved)
        path.symlink_to(moved)

    @attack(".tar: missing on the medium", door=SCRIPT)
    def a_fifo_for_the_archive(self) -> None:
        self.tar.unlink()
        os.mkfifo(self.tar)

    @attack(".tar: missing on the medium", door=SCRIPT)
    def a_folder_for_the_archive(self) -> None:
        self.tar.unlink()
        self.tar.mkdir()

    @attack(".tar: missing on the medium", door=SCRIPT)
    def no_archive(self) -> None:
        self.tar.unlink()

    @attack("autorun.inf: lies beside the bundle", door=SCRIPT)
    def a_stranger(self) -> None:
        (self.folder / "autorun.inf").write_bytes(b"")

    @attack(".hidden: lies beside the bundle", door=SCRIPT)
    def a_hidden_stranger(self) -> None:
        (self.folder / ".hidden").write_bytes(b"")

    @attack("lies beside the bundle", door=SCRIPT)
    def a_stranger_with_a_line_break(self) -> None:
        (self.folder / "x\nintact: media").write_bytes(b"")

    @attack("lies beside the bundle", door=SCRIPT)
    def a_stranger_that_is_not_utf8(self) -> None:
        Path(os.fsdecode(os.fsencode(self.folder) + b"/caf\xe9")).write_bytes(b"")

    @attack("-rf: lies beside the bundle", door=SCRIPT)
    def a_stranger_like_an_option(self) -> None:
        (self.folder / "-rf").write_bytes(b"")

    @attack("INSTALL.SH: lies beside the bundle", door=SCRIPT)
    def a_twin_of_the_script(self) -> None:
        (self.folder / "INSTALL.SH").write_bytes(b"")

    @attack("pipe: lies beside the bundle", door=SCRIPT)
    def a_fifo_beside_the_bundle(self) -> None:
        os.mkfifo(self.folder / "pipe")

    # The archive: other headers and members, with a list that fits

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

    @attack("the archive is cut off", door=SCRIPT, code=ExitCode.FILESYSTEM)
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

    def _head(self, path: str = WEIGHTS, *, before: bytes = b"", **values: Any) -> None:
        """Another header for a member, with the checksum and the list that fit."""
        part = self.part(path)
        info = tarfile.TarInfo(values.pop("name", path))
        info.size, info.mtime, info.mode = len(part.data), CREATED, 0o644
        for key, value in values.items():
            setattr(info, key, value)
        part.header = before + info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        self.repack()

    @attack(WEIGHTS)
    def an_absolute_name(self) -> None:
        self._head(name=str(self.root / "outside/precious"))

    @attack(WEIGHTS)
    def a_name_above(self) -> None:
        self._head(name="../../../outside/precious")

    @attack(WEIGHTS)
    def a_name_in_another_case(self) -> None:
        self._head(name=WEIGHTS.upper())

    @attack(WEIGHTS)
    def a_symlink(self) -> None:
        self._head(type=tarfile.SYMTYPE, linkname=str(self.root / "outside"), size=0)

    @attack(WEIGHTS)
    def a_hard_link(self) -> None:
        self._head(type=tarfile.LNKTYPE, linkname=str(self.root / "outside/precious"))

    @attack(WEIGHTS)
    def a_character_device(self) -> None:
        self._head(type=tarfile.CHRTYPE, devmajor=1, devminor=3)

    @attack(WEIGHTS)
    def a_block_device(self) -> None:
        self._head(type=tarfile.BLKTYPE, devmajor=8, devminor=0)

    @attack(WEIGHTS)
    def a_fifo(self) -> None:
        self._head(type=tarfile.FIFOTYPE)

    @attack(WEIGHTS)
    def a_folder(self) -> None:
        self._head(type=tarfile.DIRTYPE)

    @attack(WEIGHTS)
    def a_setuid_bit(self) -> None:
        self._head(mode=0o4755)

    @attack(WEIGHTS)
    def a_file_that_everybody_may_write(self) -> None:
        self._head(mode=0o666)

    @attack(WEIGHTS)
    def another_owner(self) -> None:
        self._head(uid=1000, uname="mallory")

    @attack(WEIGHTS)
    def another_time(self) -> None:
        self._head(mtime=0)

    @attack(WEIGHTS)
    def a_huge_size(self) -> None:
        self._head(size=(1 << 62) - 1)

    @attack(WEIGHTS)
    def a_smaller_size(self) -> None:
        self._head(size=1)

    @attack(WEIGHTS)
    def a_negative_size(self) -> None:
        self._head()
        part = self.part(WEIGHTS)
        assert part.header is not None
        # GNU's base-256: the first bit says so, the rest is two's complement.
        part.header = tampered(part.header, 124, b"\xff" * 12)
        self.repack()

    @attack(WEIGHTS)
    def a_wrong_checksum(self) -> None:
        self._head()
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
        self._head(type=tarfile.GNUTYPE_SPARSE)
        part = self.part(WEIGHTS)
        assert part.header is not None
        part.header = tampered(part.header, 483, b"%011o\0" % (1 << 32))  # real size
        self.repack()

    @attack(WEIGHTS)
    def a_pax_header_before_a_member(self) -> None:
        info = tarfile.TarInfo(WEIGHTS)
        info.pax_headers = {"path": "../../../outside/precious", "size": "1"}
        self._head(before=info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")[:1024])

    @attack("does not start with bundle.json")
    def a_global_pax_header(self) -> None:
        block = tarfile.TarInfo.create_pax_global_header({"path": "/etc/passwd"})
        self.repack()
        self.tar.write_bytes(block + self.tar.read_bytes())
        self.relist()

    @attack(WEIGHTS)
    def a_long_name_before_a_member(self) -> None:
        long = archive.header("../" * 40 + "outside/precious", 1, CREATED)[:-archive.BLOCK]
        self._head(before=long)

    @attack(WEIGHTS)
    def a_volume_label_before_a_member(self) -> None:
        label = tarfile.TarInfo("label")
        label.type = b"V"
        self._head(before=label.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict"))

    @attack("does not start with bundle.json")
    def a_manifest_that_is_a_symlink(self) -> None:
        self._first_header(type=tarfile.SYMTYPE, linkname="/etc/passwd")

    @attack("does not start with bundle.json")
    def a_manifest_with_a_negative_size(self) -> None:
        self._first_header(raw=(124, b"\xff" * 12))

    @attack("bundle.json")
    def a_manifest_with_a_huge_size(self) -> None:
        self._first_header(size=1 << 50)

    @attack("bundle.json")
    def a_manifest_of_another_time(self) -> None:
        self._first_header(mtime=CREATED + 1)

    def _first_header(self, raw: tuple[int, bytes] = (0, b""), **values: Any) -> None:
        data = self.tar.read_bytes()
        info = tarfile.TarInfo.frombuf(data[: archive.BLOCK], "utf-8", "strict")
        for key, value in values.items():
            setattr(info, key, value)
        block = tampered(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict"), *raw)
        self.tar.write_bytes(block + data[archive.BLOCK :])
        self.relist()

    # What `tar` itself meets when install.sh takes the runtime out

    def _runtime(self, **values: Any) -> None:
        self._head(bundle.RUNTIME_MEMBER, **values)

    @attack("the archive is cut off", door=SCRIPT, code=ExitCode.FILESYSTEM)
    def a_runtime_that_is_a_symlink(self) -> None:
        self._runtime(type=tarfile.SYMTYPE, linkname=str(self.root / "outside/precious"))

    @attack("the archive is cut off", door=SCRIPT, code=ExitCode.FILESYSTEM)
    def a_runtime_that_is_a_hard_link(self) -> None:
        self._runtime(type=tarfile.LNKTYPE, linkname=str(self.root / "outside/precious"))

    @attack("the archive is cut off", door=SCRIPT, code=ExitCode.FILESYSTEM)
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

    # The manifest: everything fits, and no honest packer writes it

    @attack("bundle.json: expected")
    def a_manifest_edited_and_listed(self) -> None:
        """SHA256SUMS fits, and install.sh still names the manifest that was."""
        self.manifest["thinking"] = False
        self.repack()

    @attack("install.sh: altered", door=SCRIPT)
    def a_manifest_edited_and_named(self) -> None:
        """install.sh names it, and SHA256SUMS is the one that was."""
        listed = self._listed()
        self.manifest["thinking"] = False
        self.reseal()
        self.listing.write_bytes(listed)

    def _text(self, change: Callable[[bytes], bytes]) -> None:
        self.reseal(change(canonical.dumps(self.manifest)))

    @attack("bundle.json: not canonical")
    def a_manifest_with_blanks(self) -> None:
        self._text(lambda text: text.replace(b":", b": "))

    @attack("bundle.json: not canonical")
    def a_manifest_without_its_line_end(self) -> None:
        self._text(lambda text: text[:-1])

    @attack("bundle.json: not canonical")
    def a_manifest_in_crlf(self) -> None:
        self._text(lambda text: text.replace(b"\n", b"\r\n"))

    @attack("bundle.json: not canonical")
    def a_manifest_in_another_order(self) -> None:
        self._text(lambda text: b'{"tool":"x",' + text[1:].replace(b',"tool":', b',"toolx":'))

    @attack("bundle.json: not canonical JSON (duplicate key)")
    def a_key_twice_in_the_manifest(self) -> None:
        self._text(lambda text: text.replace(b'{"created":', b'{"created":0,"created":'))

    @attack("bundle.json: not canonical")
    def a_manifest_with_a_bom(self) -> None:
        self._text(lambda text: b"\xef\xbb\xbf" + text)

    @attack("bundle.json: not canonical")
    def a_manifest_with_a_float(self) -> None:
        self._text(lambda text: text.replace(b'"schema":1', b'"schema":1.0'))

    @attack("bundle.json: not canonical")
    def a_manifest_with_nan(self) -> None:
        self._text(lambda text: text.replace(b'"schema":1', b'"schema":NaN'))

    @attack("bundle.json: not canonical")
    def a_manifest_with_an_endless_number(self) -> None:
        self._text(lambda text: text.replace(b'"schema":1', b'"schema":' + b"9" * 5000))

    @attack("bundle.json: not canonical")
    def a_manifest_with_half_a_character(self) -> None:
        self._text(lambda text: text.replace(b'"tool":"', b'"tool":"\\ud800'))

    @attack("bundle.json: not canonical")
    def a_manifest_that_is_no_json(self) -> None:
        self._text(lambda text: text[: len(text) // 2])

    @attack("bundle.json: not canonical")
    def a_manifest_nested_without_end(self) -> None:
        self._text(lambda text: b"[" * 200_000 + b"]" * 200_000 + b"\n")

    @attack("bundle.json")
    def a_manifest_that_is_a_list(self) -> None:
        self._text(lambda text: b"[]\n")

    @attack("bundle.json: unknown field")
    def an_unknown_field(self) -> None:
        self.manifest["surprise"] = 1
        self.reseal()

    @attack("bundle.json.members[0].size")
    def a_size_that_is_a_text(self) -> None:
        self.manifest["members"][0]["size"] = "1"
        self.reseal()

    @attack("bundle.json: schema 0")
    def an_older_format_than_the_first(self) -> None:
        self.manifest["schema"] = 0
        self.reseal()

    @attack("format 2", code=ExitCode.USAGE)
    def a_newer_format(self) -> None:
        self.manifest["schema"] = 2
        self.reseal()

    @attack("bundle.json: the name")
    def a_name_that_leads_away(self) -> None:
        self.manifest["name"] = "../../../outside/x"
        self.reseal()

    @attack("bundle.json: the model name")
    def a_model_name_that_leads_away(self) -> None:
        self.manifest["model"]["name"] = "../../outside/x"
        self.reseal()

    @attack("bundle.json: the revision")
    def a_revision_that_leads_away(self) -> None:
        self.manifest["model"]["revision"] = "../../x"
        self.reseal()

    @attack("env.tar.zst is missing")
    def no_environment(self) -> None:
        self.manifest["members"] = [
            item for item in self.manifest["members"] if item["path"] != "env.tar.zst"
        ]
        self.parts = [part for part in self.parts if part.path != "env.tar.zst"]
        self.reseal()

    @attack("is listed twice")
    def a_member_listed_twice(self) -> None:
        self.manifest["members"].append(self.member(WEIGHTS))
        self.parts.append(self.part(WEIGHTS))
        self.reseal()

    @attack("is listed twice")
    def members_that_differ_by_case(self) -> None:
        self.put(WEIGHTS.replace("sub", "Sub"), b"")
        self.reseal()

    @attack("model: Sub: differs from sub only by case")
    def folders_that_differ_by_case(self) -> None:
        self.put("model/Sub/other.safetensors", b"")
        self.reseal()

    def _member(self, path: str) -> None:
        self.put(path, b"planted")
        self.reseal()

    @attack("absolute path")
    def a_member_with_an_absolute_path(self) -> None:
        self._member(str(self.root / "outside/planted"))

    @attack("'..'")
    def a_member_with_a_path_above(self) -> None:
        self._member("model/../../../outside/planted")

    @attack("'bad\\nname'")
    def a_member_with_a_line_break(self) -> None:
        self._member("model/bad\nname")

    @attack("env/bin/python")
    def a_document_in_the_environment(self) -> None:
        self._member("env/bin/python")

    @attack("runtime/bin/python")
    def a_document_in_the_runtime(self) -> None:
        self._member("runtime/bin/python")

    @attack("Bundle.json")
    def a_document_like_the_manifest(self) -> None:
        self._member("Bundle.json")

    @attack("lies below")
    def a_document_below_a_document(self) -> None:
        self.put("notes", b"a file")
        self._member("notes/more")

    @attack("lies below")
    def a_model_file_below_a_file(self) -> None:
        self._member("model/config.json/more")

    @attack("has no size or digest")
    def a_negative_size_in_the_manifest(self) -> None:
        self.manifest["members"][-1]["size"] = -1
        self.reseal()

    @attack("has no size or digest")
    def a_size_beyond_any_disk(self) -> None:
        self.manifest["members"][-1]["size"] = 10**40
        self.reseal()

    @attack("this host does not fit: disk", code=ExitCode.FILESYSTEM)
    def a_size_beyond_this_disk(self) -> None:
        self.manifest["members"][-1]["size"] = 10**18
        self.reseal()

    @attack("has no size or digest")
    def a_digest_that_is_none(self) -> None:
        self.manifest["members"][-1]["sha256"] = "0" * 63
        self.reseal()

    @attack("created")
    def a_time_beyond_the_calendar(self) -> None:
        self.manifest["created"] = 1 << 60
        for part in self.parts:
            part.header = archive.header(part.path, len(part.data), 1 << 60)
        self.reseal()
        self._first_header(mtime=1 << 60)

    def _tree(self, **changes: bytes | str | None) -> None:
        self.list_environment({**ENVIRONMENT, **changes})
        self.reseal()

    @attack("absolute path")
    def a_tree_with_an_absolute_path(self) -> None:
        self._tree(**{str(self.root / "outside/planted"): b"x"})

    @attack("'..'")
    def a_tree_with_a_path_above(self) -> None:
        self._tree(**{"lib/../../../../../outside/planted": b"x"})

    @attack("is not relative")
    def a_tree_with_an_absolute_link(self) -> None:
        self._tree(**{"lib/link": "/etc/passwd"})

    @attack("leaves the tree")
    def a_tree_with_a_link_above(self) -> None:
        self._tree(**{"lib/link": "../../runtime/bin/python"})

    @attack("leaves the tree")
    def a_tree_with_links_that_lead_away_together(self) -> None:
        """Each stays inside by its text; the second goes up from where the first has led."""
        self._tree(
            **{"a": None, "a/b": None, "a/b/c": None, "a/b/c/top": "../../..", "out": UP + "/.."}
        )

    @attack("lies below")
    def a_file_through_a_link(self) -> None:
        self._tree(**{"lib/link": "..", "lib/link/planted": b"x"})

    @attack("env")
    def a_document_through_links(self) -> None:
        """A member that would be written where links of the environment lead."""
        self.list_environment(
            {
                **ENVIRONMENT,
                **{"a": None, "a/b": None, "a/b/c": None, "a/b/c/top": "../../.."},
                "out": UP + "/../../../..",
            }
        )
        self._member("env/out/outside/precious")

    @attack("lies below")
    def a_file_below_a_file(self) -> None:
        self._tree(**{"lib/empty/planted": b"x"})

    @attack("only by case")
    def a_tree_with_twins(self) -> None:
        self._tree(**{"LIB": None, "LIB/Empty": b"x"})

    @attack("listed twice")
    def a_tree_with_a_name_twice(self) -> None:
        self.manifest["environment"].append(self.entry("lib/empty"))
        self.reseal()

    @attack("unknown kind")
    def a_tree_with_a_device(self) -> None:
        self.manifest["environment"].append({"path": "null", "kind": "device"})
        self.reseal()

    @attack("share/deep/er")
    def a_file_without_its_folder(self) -> None:
        self._tree(**{"share/deep/er": b"x"})

    @attack("lib/early")
    def a_file_before_its_folder(self) -> None:
        self.list_environment({"lib/early": b"x", **ENVIRONMENT})
        self.reseal()

    @attack("lib/link")
    def a_link_with_a_size(self) -> None:
        self.manifest["environment"].append(
            {"path": "lib/link", "kind": "link", "target": "empty", "size": 512}
        )
        self.reseal()

    @attack("lib/empty")
    def a_size_beyond_any_disk_in_the_tree(self) -> None:
        self._listed_entry("lib/empty")["size"] = 10**40
        self.reseal()

    @attack("lib/empty")
    def a_negative_size_in_the_tree(self) -> None:
        self._listed_entry("lib/empty")["size"] = -1
        self.reseal()

    @attack("lib/empty")
    def a_file_without_a_digest(self) -> None:
        del self._listed_entry("lib/empty")["sha256"]
        self.reseal()

    @attack("rewrite")
    def a_rewrite_that_is_none(self) -> None:
        self._listed_entry("lib/empty")["rewrite"] = {"mode": "rot13", "placeholder": "x"}
        self.reseal()

    def _listed_entry(self, path: str) -> dict[str, Any]:
        return next(item for item in self.manifest["environment"] if item["path"] == path)

    @attack("is too long")
    def a_path_of_a_megabyte(self) -> None:
        """Nothing is packed for it: the listing alone would take hours to look at."""
        self.manifest["environment"].append({"path": "a/" * 50_000 + "a", "sha256": "0" * 64})
        self.reseal()

    @attack("'" + "n" * 256)
    def a_name_of_256_bytes(self) -> None:
        self._tree(**{"n" * 256: b"x"})

    # The packed environment: digested rightly, so only unpacking can see what it is

    def _inner(self, data: bytes) -> None:
        self.put(bundle.ENVIRONMENT_MEMBER, data)
        self.reseal()

    def _inner_tar(self, change: Callable[[tarfile.TarInfo], None], path: str) -> None:
        """The listed tree with another header for one entry."""
        packed, out = tarfile.open(fileobj=io.BytesIO(archive_of(ENVIRONMENT))), io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
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

    # Volumes

    @attack("the bundle that it belongs to", volumes=True)
    def a_volume_of_another_bundle(self) -> None:
        other = BundleSimulator(
            self.root / "other", Simulator(model=LARGE_MODEL | {"x": b""}), self.volume_size
        )
        shutil.copy(other.volumes()[1], self.volumes()[1])

    # An audit compares what the volumes hold, which is the same here; labels are the reader's.
    @attack("the bundle that it belongs to", volumes=True, audited=False)
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
        self._link_away(self.volumes()[1])

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
        self._append(self.volumes()[-1], bytes(512))
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


#: A way to the top of the tree that looks three folders deep.
UP = "a/b/c/top"


def dict_of(value: Any) -> dict[str, Any]:
    """A copy of a table."""
    return dict(value)


def boundaries() -> list[int]:
    """Every length at which a region of the archive ends, and one byte to either side."""
    end = max(stop for _, stop in regions().values())
    places = {start + step for start, _ in regions().values() for step in (-1, 0, 1)}
    return [place for place in sorted(places | {end - 1}) if 0 <= place < end]
