import io
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundlectl.readahead import ReadAhead
from manifests import digests


@settings(max_examples=50)
@given(data=st.binary(max_size=5000), sizes=st.lists(st.integers(1, 700), min_size=1))
def test_gives_the_same_bytes(data, sizes):
    ahead = ReadAhead(io.BytesIO(data))
    got = b""
    turn = 0
    while piece := ahead.read(sizes[turn % len(sizes)]):
        got += piece
        turn += 1
    assert got == data
    assert ahead.read(5) == b""
    assert list(ahead.views()) == []
    ahead.close()


def test_the_consumer_gets_the_error():
    class Broken:
        def readinto(self, buffer):
            raise OSError(5, "Input/output error")

    ahead = ReadAhead(Broken())
    with pytest.raises(OSError, match="Input/output"):
        ahead.read(1)
    ahead.close()


def test_close_ends_the_thread_of_an_endless_stream():
    class Endless:
        def readinto(self, buffer):
            return len(buffer)

    others = set(threading.enumerate())
    ahead = ReadAhead(Endless())
    assert len(ahead.read(digests.CHUNK + 1)) == digests.CHUNK + 1
    (own,) = set(threading.enumerate()) - others
    ahead.close()
    assert not own.is_alive()
