"""The pace of an audit, with a clock of our own; its end; and what is no file any more."""

import os
import threading
from hashlib import sha256

import pytest

from manifests import audit
from manifests.audit.reading import Reading, Stopped
from manifests.console import ignore_progress
from manifests.errors import UsageError


class Clock:
    """A time that passes only where somebody waits."""

    def __init__(self):
        self.now = 100.0
        self.waits = []

    def __call__(self):
        return self.now

    def wait(self, seconds):
        self.waits.append(seconds)
        self.now += seconds
        return False


def test_no_more_than_so_many_bytes_a_second(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(3_000_000))
    clock = Clock()
    reading = Reading(rate=1_000_000, clock=clock, wait=clock.wait)
    assert reading.digest(path, ignore_progress) == sha256(bytes(3_000_000)).hexdigest()
    assert 2.8 < clock.now - 100 <= 3  # the first bytes pass at once
    assert max(clock.waits) < 0.13  # and evenly: an eighth of a second at the most


def test_the_rate_is_that_of_all_threads_together(tmp_path):
    """As they would be seen on the disk: bytes that have passed at each moment."""
    clock, passed = Clock(), []
    reading = Reading(passed.append, rate=1_000_000, clock=clock, wait=lambda _: False)
    threads = [
        threading.Thread(target=lambda: [reading.pace(100_000) for _ in range(10)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    clock.wait(0)
    waits = []
    reading._wait = lambda seconds: waits.append(seconds) or False
    reading.pace(1)
    assert waits == [pytest.approx(4.0)]  # what 4 MB take


def test_what_was_idle_is_not_made_up_for():
    clock = Clock()
    reading = Reading(rate=1000, clock=clock, wait=clock.wait)
    reading.pace(1000)
    clock.now += 60
    reading.pace(1000)
    reading.pace(1000)
    assert clock.waits == [1.0]


def test_as_fast_as_it_goes_waits_for_nobody():
    clock = Clock()
    Reading(clock=clock, wait=clock.wait).pace(1 << 40)
    assert clock.waits == []


def test_an_end_is_an_end_in_the_middle_of_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(bytes(5 << 20))
    reading = Reading()
    with pytest.raises(Stopped):
        reading.digest(path, lambda count: reading.stop())


def test_what_is_no_file_any_more_is_an_error_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    for name in ("pipe", "link", "none"):
        with pytest.raises(OSError):
            Reading().digest(tmp_path / name, ignore_progress)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("100M", 100_000_000), ("20MiB", 20 << 20), ("10k", 10_000), ("1GB/s", 10**9)],
)
def test_a_rate_is_read(text, rate):
    assert audit.how(max_rate=text).rate == rate


@pytest.mark.parametrize("text", ["0", "9999", "fast", "-1M", "1.5M", "10T"])
def test_no_rate_is_refused(text):
    with pytest.raises(UsageError, match="--max-rate"):
        audit.how(max_rate=text)


def test_other_ways_that_make_no_sense(tmp_path):
    with pytest.raises(UsageError, match="--seed is for --sample"):
        audit.how(seed="x")
    with pytest.raises(UsageError, match="--jobs"):
        audit.how(jobs=100_000)
