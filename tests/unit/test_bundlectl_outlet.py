"""What waits for a reader, and what does not, with real pipes."""

import contextlib
import os
import threading
import time

from bundlectl.outlet import Outlet


@contextlib.contextmanager
def pipe():
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)


def read_until(end, words):
    data = b""
    while words not in data:
        data += os.read(end, 1 << 20)
    return data


def test_every_piece_arrives_in_order_and_at_once():
    with pipe() as (reading, writing), contextlib.closing(Outlet(writing)) as outlet:
        outlet.write(b"one\n")
        assert os.read(reading, 99) == b"one\n"
        for number in range(50):
            outlet.write(b"%d\n" % number)
        outlet.close()
        assert read_until(reading, b"49\n") == b"".join(b"%d\n" % number for number in range(50))


def test_a_reader_that_is_slow_costs_what_it_does_not_read_and_is_told():
    piece = b"x" * 65_535 + b"\n"
    with pipe() as (reading, writing), contextlib.closing(Outlet(writing)) as outlet:
        begun = time.monotonic()
        for _ in range(500):
            outlet.write(piece)
        assert time.monotonic() - begun < 1  # a pipe holds one of them
        kept = b""
        while outlet._pieces.full():
            kept += os.read(reading, 1 << 20)
        while not outlet._pieces.empty():
            kept += os.read(reading, 1 << 20)
        outlet.write(b"the end")
        kept += read_until(reading, b"the end")
        told = kept.partition(b"[")[2].split()[0]
        assert int(told) % len(piece) == 0
        assert int(told) + kept.count(b"x" * 65_535) * len(piece) == 500 * len(piece)


def test_nobody_waits_for_a_reader_for_ever():
    with pipe() as (_, writing):
        outlet = Outlet(writing)
        for _ in range(100):
            outlet.write(bytes(65_536))
        begun = time.monotonic()
        outlet.close()
        assert time.monotonic() - begun < 5


def test_a_reader_that_has_left_does_no_harm():
    others = set(threading.enumerate())
    with pipe() as (reading, writing), contextlib.closing(Outlet(writing)) as outlet:
        os.close(reading)
        (own,) = set(threading.enumerate()) - others
        for _ in range(5):
            outlet.write(b"to nobody\n")
        outlet.close()
        assert not own.is_alive()  # by itself, not by an error
