"""Read a bundle's archive once, front to back, and check all of it on the way.

Rules, in this order:

1. The first member is the manifest; its sha256 is the one expected, where one is given.
2. Every further member comes in the manifest's order, with exactly its header, size and padding.
3. A member's bytes have the manifest's sha256. A consumer may use them before that is known only
   in a place from which nothing is ever started; leaving the `with` block without an error is
   the proof.
4. After the last member come the trailer's zeros, and then nothing.
"""

import os
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from manifests import archive, bundle
from manifests.digests import Readable, chunks, sha256
from manifests.errors import Damage, IntegrityError

COPY_AGAIN = "copy the bundle from its source to the medium again"


class MemberStream:
    """The bytes of one member, hashed as they are read; ends where the member ends."""

    def __init__(self, stream: Readable, member: bundle.Member) -> None:
        self._stream = stream
        self._hasher = sha256()
        self.member = member
        self.left = member.size

    def readinto(self, buffer: memoryview) -> int:
        """Fill a buffer; returns the bytes read, 0 at the member's end.

        Raises Damage where the archive ends inside the member.
        """
        if not self.left:
            return 0
        view = buffer[: self.left]
        count = self._stream.readinto(view) or 0
        if not count:
            found = f"the end after {self.member.size - self.left}"
            raise Damage(self.member.path, f"{self.member.size} bytes", found, mend=COPY_AGAIN)
        self._hasher.update(view[:count])
        self.left -= count
        return count

    def take_over(self, known: Iterable[memoryview]) -> None:
        """Hash the member's first bytes where an earlier run has put them; pass over them here."""
        for view in known:
            self._hasher.update(view)
            self.pass_over(len(view))

    def pass_over(self, count: int) -> None:
        """Leave `count` bytes unread; at most what is left."""
        assert count <= self.left
        _pass_over(self._stream, count)
        self.left -= count

    def read(self, size: int = -1) -> bytes:
        """Read up to `size` bytes, all that is left for -1."""
        if size < 0:
            return b"".join(bytes(view) for view in self.chunks())
        buffer = bytearray(min(size, self.left))
        return bytes(buffer[: self.readinto(memoryview(buffer))])

    def chunks(self) -> Iterator[memoryview]:
        """The rest of the member through one reused buffer."""
        return chunks(self)

    def hexdigest(self) -> str:
        """sha256 of the bytes read so far."""
        return self._hasher.hexdigest()


@dataclass(frozen=True)
class Whole:
    """What is installed in the end: the bundle of the archive, or the one that a delta is of."""

    manifest: bundle.Manifest
    data: bytes  # the manifest's
    digest: str  # of them

    @property
    def release(self) -> str:
        """The name of its folder once installed."""
        return bundle.release_id(self.manifest.name, self.digest)


class BundleReader:
    """A bundle's archive as a stream. Raises IntegrityError where it does not start as one."""

    def __init__(self, stream: Readable, expected: str = "") -> None:
        self._stream = stream
        data, mtime = self._first()
        self.digest = bundle.digest_of(data)
        if expected and self.digest != expected:
            raise Damage(archive.MANIFEST_NAME, expected, self.digest, mend=COPY_AGAIN)
        self.data = data
        self.manifest = bundle.parse(data)
        if mtime != self.manifest.created:
            expected = f"time {self.manifest.created}"
            raise Damage(archive.MANIFEST_NAME, expected, str(mtime), mend=COPY_AGAIN)

    @cached_property
    def whole(self) -> Whole:
        """What an installation of this archive is in the end."""
        made = self.manifest.delta
        if made is None:
            return Whole(self.manifest, self.data, self.digest)
        manifest = self.manifest.whole()
        return Whole(manifest, manifest.dump(), made.manifest_sha256)

    def _first(self) -> tuple[bytes, int]:
        """The manifest's bytes and its time stamp."""
        block = self._exactly(archive.BLOCK, "the first header")
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
            mtime = int(info.mtime)
            regular = info.size >= 0  # base-256 has a sign
            regular &= archive.header(archive.MANIFEST_NAME, info.size, mtime) == block
        except (tarfile.TarError, ValueError, OverflowError):
            regular = False
        if not regular:
            raise IntegrityError(
                f"the archive does not start with {archive.MANIFEST_NAME}",
                why="it is not a bundle, or its first block was altered",
                mend=COPY_AGAIN,
            )
        if info.size > archive.MANIFEST_LIMIT:
            raise IntegrityError(
                f"{archive.MANIFEST_NAME}: {info.size} bytes are too many", mend=COPY_AGAIN
            )
        data = self._exactly(info.size, archive.MANIFEST_NAME)
        self._padding(archive.MANIFEST_NAME, info.size)
        return data, mtime

    @contextmanager
    def member(self, member: bundle.Member) -> Iterator[MemberStream]:
        """The next member's bytes; what the block leaves unread is read and checked at its end.

        Raises Damage, also at the end of the block, where header, bytes or padding differ.
        """
        wanted = archive.header(member.path, member.size, self.manifest.created)
        header_matches = self._exactly(len(wanted), f"the header of {member.path}") == wanted
        stream = MemberStream(self._stream, member)
        yield stream
        for _ in stream.chunks():
            pass
        padding = archive.padding(member.size)
        padded = self._exactly(len(padding), f"the padding after {member.path}") == padding
        # The padding is behind us, so that an audit, which goes on, stays in step.
        if stream.hexdigest() != member.sha256:
            raise Damage(member.path, member.sha256, stream.hexdigest(), mend=COPY_AGAIN)
        if not padded:
            raise self._unpadded(member.path)
        if not header_matches:
            # Nothing follows from a header (the manifest decides), so this can wait until here.
            raise Damage(member.path, "the header that it had", "another", mend=COPY_AGAIN)

    def skip(self, member: bundle.Member) -> None:
        """Pass over a member that an earlier run has verified; it is not read where it need not."""
        _pass_over(self._stream, archive.member_length(member.path, member.size))

    @contextmanager
    def excerpt(self, member: bundle.Member) -> Iterator[MemberStream]:
        """The next member's bytes, of which the consumer takes what it wants.

        He proves himself what he takes: the rest is passed over, so that there is no digest of the
        whole. After Damage the reader stands at the next member.
        """
        header = archive.header(member.path, member.size, self.manifest.created)
        found = self._exactly(len(header), f"the header of {member.path}")
        stream = MemberStream(self._stream, member)
        try:
            if found != header:
                raise Damage(member.path, "the header that it had", "another", mend=COPY_AGAIN)
            yield stream
        except Damage:
            _pass_over(self._stream, stream.left + len(archive.padding(member.size)))
            raise
        _pass_over(self._stream, stream.left + len(archive.padding(member.size)))

    def finish(self) -> None:
        """Check that the archive ends as it should.

        Raises Damage otherwise.
        """
        length = archive.member_length(archive.MANIFEST_NAME, len(self.data))
        length += sum(archive.member_length(m.path, m.size) for m in self.manifest.members)
        wanted = archive.trailer(length)
        found = b"".join(bytes(view) for view in chunks(self._stream, len(wanted) + 1))
        if found != wanted:
            state = "less" if len(found) < len(wanted) else "more, or other bytes"
            raise Damage(
                "the end of the archive", f"{len(wanted)} zero bytes", state, mend=COPY_AGAIN
            )

    def _exactly(self, size: int, what: str) -> bytes:
        data = b"".join(bytes(view) for view in chunks(self._stream, size))
        if len(data) != size:
            raise Damage(what, f"{size} bytes", f"the end after {len(data)}", mend=COPY_AGAIN)
        return data

    def _padding(self, path: str, size: int) -> None:
        wanted = archive.padding(size)
        if self._exactly(len(wanted), f"the padding after {path}") != wanted:
            raise self._unpadded(path)

    @staticmethod
    def _unpadded(path: str) -> Damage:
        return Damage(f"the padding after {path}", "zeros", "other bytes", mend=COPY_AGAIN)


def _pass_over(stream: Readable, length: int) -> None:
    seek = getattr(stream, "seek", None)
    if seek is not None:
        seek(length, os.SEEK_CUR)
        return
    for _ in chunks(stream, length):
        pass
