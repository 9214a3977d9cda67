"""The medium: bytes of its files change, and their list does not."""

import os
import re
from pathlib import Path

from manifests import archive
from tests.support.attacks.dismantled import Dismantled, Part
from tests.support.attacks.table import SCRIPT, attack


class OnTheMedium(Dismantled):
    """The medium: bytes of its files change, and their list does not."""

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

    @attack("the end of the archive")
    def one_byte_after_the_end(self) -> None:
        self.append(self.tar, b"\0")

    @attack("the end of the archive")
    def a_record_after_the_end(self) -> None:
        self.append(self.tar, bytes(archive.RECORD))
        self.relist()

    @attack("the end of the archive")
    def a_second_archive_after_the_end(self) -> None:
        self.append(self.tar, self.tar.read_bytes())
        self.relist()

    @attack("the end of the archive")
    def a_member_in_place_of_the_end(self) -> None:
        self.repack(tail=Part("hidden", b"x").lay() + archive.trailer(1024))

    @attack("the end of the archive")
    def no_end(self) -> None:
        self.repack(tail=b"")

    @attack("install.sh: altered", door=SCRIPT)
    def a_line_more_in_the_script(self) -> None:
        self.append(self.script, b"echo altered\n")

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
        self.append(self.listing, b"# all fine\n")

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def an_empty_line_in_the_list(self) -> None:
        self.append(self.listing, b"\n")

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def a_binary_mark_in_the_list(self) -> None:
        self.listing.write_bytes(self.listing.read_bytes().replace(b"  ", b" *"))

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def an_absolute_name_in_the_list(self) -> None:
        self.append(self.listing, b"0" * 64 + b"  /etc/passwd\n")

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def a_name_above_in_the_list(self) -> None:
        self.append(self.listing, b"0" * 64 + b"  ../outside/precious\n")

    @attack("SHA256SUMS: names install.sh twice", door=SCRIPT)
    def a_list_twice(self) -> None:
        self.append(self.listing, self.listing.read_bytes())

    @attack("SHA256SUMS: malformed line", door=SCRIPT)
    def upper_case_digests(self) -> None:
        self.listing.write_bytes(re.sub(rb"[0-9a-f]{64}", lambda m: m[0].upper(), self.listed()))

    @attack("tiny+stack+: missing on the medium", door=SCRIPT)
    def a_list_cut_in_a_line(self) -> None:
        self.listing.write_bytes(self.listed()[:-8])

    @attack("SHA256SUMS: has no line for", door=SCRIPT)
    def a_list_cut_between_lines(self) -> None:
        self.listing.write_bytes(self.listed().splitlines(keepends=True)[0])

    @attack("SHA256SUMS: has no line for", door=SCRIPT)
    def an_empty_list(self) -> None:
        self.listing.write_bytes(b"")

    @attack("SHA256SUMS: not a regular file", door=SCRIPT)
    def a_folder_for_the_list(self) -> None:
        self.listing.unlink()
        self.listing.mkdir()

    @attack("SHA256SUMS: a link where a file has to be", door=SCRIPT)
    def a_link_for_the_list(self) -> None:
        self.link_away(self.listing)

    @attack("a link where a file has to be", door=SCRIPT)
    def a_link_for_the_script(self) -> None:
        self.link_away(self.script)

    @attack(".tar: a link where a file has to be", door=SCRIPT)
    def a_link_for_the_archive(self) -> None:
        self.link_away(self.tar)

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
