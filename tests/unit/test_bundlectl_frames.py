import io
from typing import BinaryIO, cast

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from bundlectl.frames import Frames, Mark
from bundlectl.readahead import ReadAhead
from bundler import pack
from bundler.packplan import Member
from manifests.digests import chunks

BEGIN = Mark(0, 0)
parts = st.lists(st.binary(max_size=3000), min_size=1, max_size=5)


def read(data: bytes, start: Mark = BEGIN) -> tuple[bytes, list[Mark]]:
    ahead = ReadAhead(io.BytesIO(data))
    frames = Frames(ahead, start)
    try:
        return b"".join(bytes(view) for view in chunks(frames, chunk=1000)), list(frames.marks)
    finally:
        ahead.close()


@settings(max_examples=60)
@given(
    parts=parts,
    checksum=st.booleans(),
    sized=st.booleans(),
    window=st.integers(10, 20),
)
def test_every_end_of_a_frame_is_a_place_to_begin(parts, checksum, sized, window):
    """Every shape of a header that zstd writes: with and without sizes, checksums, windows."""
    parameters = zstandard.ZstdCompressionParameters(
        write_checksum=checksum, write_content_size=sized, window_log=window
    )
    frames = [zstandard.ZstdCompressor(compression_params=parameters).compress(p) for p in parts]
    whole, packed = b"".join(parts), b"".join(frames)
    plain, marks = read(packed)
    assert plain == whole
    assert [mark.compressed for mark in marks] == [
        sum(map(len, frames[: n + 1])) for n in range(len(frames))
    ]
    assert [mark.plain for mark in marks] == [
        sum(map(len, parts[: n + 1])) for n in range(len(parts))
    ]
    for mark in marks:
        rest, later = read(packed[mark.compressed :], mark)
        assert rest == whole[mark.plain :]
        assert later == marks[marks.index(mark) + 1 :]


def test_many_blocks_of_every_kind():
    """Blocks of one repeated byte, of noise that stays as it is, and compressed ones."""
    data = bytes(600_000) + bytes(range(256)) * 3000 + zstandard.compress(b"x") * 9000
    noise = bytes((n * n * 7919 >> 5) & 255 for n in range(400_000))
    for part in (data, noise, data + noise):
        packed = zstandard.ZstdCompressor(level=1).compress(part)
        assert read(packed * 2) == (
            part * 2,
            [Mark(len(part), len(packed)), Mark(2 * len(part), 2 * len(packed))],
        )


def test_streams_of_several_threads():
    out = io.BytesIO()
    compressor = zstandard.ZstdCompressor(threads=2, write_checksum=True)
    with compressor.stream_writer(out, closefd=False) as stream:
        stream.write(bytes(range(256)) * 9000)
        stream.flush(zstandard.FLUSH_FRAME)
        middle = out.tell()
        stream.write(b"the rest")
    plain, marks = read(out.getvalue())
    assert plain == bytes(range(256)) * 9000 + b"the rest"
    assert marks[0] == Mark(256 * 9000, middle)


@settings(max_examples=60)
@given(parts=parts, data=st.data())
def test_a_frame_that_is_cut_off_has_no_end(parts, data):
    packed = b"".join(zstandard.compress(part) for part in parts)
    end = data.draw(st.integers(0, len(packed) - 1))
    try:
        plain, marks = read(packed[:end])
    except zstandard.ZstdError:
        return
    assert b"".join(parts).startswith(plain)
    assert all(mark.compressed <= end for mark in marks)
    assert len(marks) < len(parts)


@given(junk=st.binary(min_size=1, max_size=300))
def test_junk(junk):
    if junk[:4] != b"\x28\xb5\x2f\xfd":
        with pytest.raises(zstandard.ZstdError, match="no frame begins here"):
            read(junk)
    with pytest.raises(zstandard.ZstdError):
        read(zstandard.compress(b"one") + b"\x50\x2a\x4d\x18" + junk)


def test_the_packer_ends_frames_between_members(monkeypatch):
    """Whatever the number of threads, the bytes are the same."""
    monkeypatch.setattr(pack, "_FRAME", 5000)
    members = [Member(f"file-{n}", data=bytes([n]) * 3000) for n in range(9)]
    packed = []
    for threads in (1, 2, 4):
        out = io.BytesIO()
        pack.write(members, cast(BinaryIO, out), compression="zstd", threads=threads)
        packed.append(out.getvalue())
    assert len(set(packed)) == 1
    _, marks = read(packed[0])
    one = 512 + 3000 + 72  # header, bytes, padding
    assert [mark.plain for mark in marks[:-1]] == [2 * one, 4 * one, 6 * one, 8 * one]
