import hashlib
import signal
import subprocess
import sys
import threading

import pytest

from manifests.errors import IntegrityError, SourceError
from tests.support.index import Index, serving, wheel
from tests.support.small import environment
from wheelhouse import fetch
from wheelhouse.fetch import Fetcher, Wanted
from wheelhouse.sources import Sources
from wheelhouse.store import Store

DATA = bytes(range(256)) * 20_000  # 5 MB: several chunks


@pytest.fixture
def index():
    with serving(Index()) as index:
        yield index


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "objects")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def wanted(index, file, sha=""):
    url = f"{index.url}/files/{file.filename}"
    return Wanted(file.filename, url, sha or sha256(file.data), len(file.data))


def fetcher(index, store, *, waits=(), **settings):
    sources = Sources(index_url=index.simple, timeout=5, **settings)
    return Fetcher(sources, store, waits=waits)


def test_many_files_arrive_with_their_bytes_counted(index, store):
    files = [index.add((f"f{n}.whl", DATA[n:])) for n in range(6)]
    seen = []
    fetcher(index, store).fetch((wanted(index, file) for file in files), seen.append)
    for file in files:
        assert store.path(sha256(file.data)).read_bytes() == file.data
    assert sum(seen) == sum(len(file.data) for file in files)


def test_what_is_there_is_not_asked_for_again(index, store):
    file = index.add(("a.whl", DATA))
    fetcher(index, store).fetch([wanted(index, file)])
    asked = len(index.requests)
    seen = []
    fetcher(index, store).fetch([wanted(index, file)] * 2, seen.append)
    assert len(index.requests) == asked
    assert sum(seen) == len(DATA)


def test_a_transfer_that_breaks_off_is_continued_by_range(index, store):
    file = index.add(("a.whl", DATA), break_after=2 << 20)
    seen = []
    fetcher(index, store, waits=(0,)).fetch([wanted(index, file)], seen.append)
    assert store.path(sha256(DATA)).read_bytes() == DATA
    first, second = index.transfers("a.whl")
    assert first == ""
    assert second.startswith("bytes=") and second != "bytes=0-"
    assert sum(seen) == len(DATA)


def test_the_next_run_continues_what_this_one_could_not_finish(index, store):
    file = index.add(("a.whl", DATA), break_after=2 << 20)
    with pytest.raises(SourceError, match=r"a\.whl") as caught:
        fetcher(index, store).fetch([wanted(index, file)])
    assert "it continues" in caught.value.mend
    assert not store.has(sha256(DATA))
    fetcher(index, store).fetch([wanted(index, file)])
    assert index.transfers("a.whl")[1].startswith("bytes=")
    assert store.path(sha256(DATA)).read_bytes() == DATA


def test_a_server_that_ignores_ranges_starts_anew(index, store):
    file = index.add(("a.whl", DATA), break_after=2 << 20, ignores_ranges=True)
    seen = []
    fetcher(index, store, waits=(0,)).fetch([wanted(index, file)], seen.append)
    assert store.path(sha256(DATA)).read_bytes() == DATA
    assert sum(seen) == len(DATA)


def test_wrong_bytes_under_the_right_name_are_refused_and_thrown_away(index, store):
    file = index.add(("a.whl", DATA))
    other = sha256(b"what was locked")
    with pytest.raises(IntegrityError) as caught:
        fetcher(index, store).fetch([wanted(index, file, other)])
    for part in ("a.whl", sha256(DATA), other, index.url.removeprefix("http://")):
        assert part in caught.value.what
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_a_stale_partial_is_not_held_against_the_source(index, store):
    file = index.add(("a.whl", DATA))
    with pytest.raises(KeyboardInterrupt), store.partial(sha256(DATA), "a.whl") as partial:
        partial.write(b"bytes of something else")
        raise KeyboardInterrupt
    seen = []
    fetcher(index, store).fetch([wanted(index, file)], seen.append)
    assert store.path(sha256(DATA)).read_bytes() == DATA
    assert sum(seen) == len(DATA)


def test_a_partial_longer_than_the_file_is_started_anew(index, store):
    file = index.add(("a.whl", DATA))
    with pytest.raises(KeyboardInterrupt), store.partial(sha256(DATA), "a.whl") as partial:
        partial.write(DATA + b"more")
        raise KeyboardInterrupt
    fetcher(index, store).fetch([wanted(index, file)])
    assert store.path(sha256(DATA)).read_bytes() == DATA


def test_one_bad_file_does_not_cost_the_good_ones(index, store):
    good = index.add(("good.whl", DATA))
    bad = index.add(("bad.whl", DATA[1:]))
    with pytest.raises(IntegrityError, match=r"bad\.whl"):
        fetcher(index, store).fetch([wanted(index, good), wanted(index, bad, "0" * 64)])
    fetcher(index, store).fetch([wanted(index, good)])
    assert store.has(sha256(DATA))


def test_offline_names_what_is_missing_and_asks_nobody(index, store):
    there, missing = index.add(("a.whl", DATA)), index.add(("b.whl", DATA[1:]))
    fetcher(index, store).fetch([wanted(index, there)])
    asked = len(index.requests)
    offline = Fetcher(Sources(index.simple), store, offline=True)
    offline.fetch([wanted(index, there)])
    with pytest.raises(SourceError) as caught:
        offline.fetch([wanted(index, there), wanted(index, missing)])
    assert caught.value.findings == ("b.whl",)
    assert len(index.requests) == asked


def test_a_missing_file_is_a_source_error(index, store):
    with pytest.raises(SourceError, match="404"):
        fetcher(index, store).fetch([Wanted("x.whl", f"{index.url}/files/x.whl", "0" * 64)])


def test_an_unreachable_host_is_named_without_credentials(store):
    sources = Sources("http://user:s3cret@127.0.0.1:9/simple", timeout=1)
    with pytest.raises(SourceError) as caught:
        Fetcher(sources, store, waits=()).fetch(
            [Wanted("x.whl", "http://127.0.0.1:9/files/x.whl", "0" * 64)]
        )
    shown = caught.value.render()
    assert "127.0.0.1:9" in shown
    assert "--offline" in shown
    assert "s3cret" not in shown


def test_credentials_of_the_index_are_added_for_its_own_host(index, store):
    index.credentials = "user:s3cret"
    file = index.add(("a.whl", DATA))
    with pytest.raises(SourceError, match="401") as caught:
        fetcher(index, store).fetch([wanted(index, file)])
    assert "credentials" in caught.value.mend
    Fetcher(Sources(index.authorised()), store).fetch([wanted(index, file)])
    assert store.has(sha256(DATA))


def test_a_local_file_is_copied_and_hashed(store, tmp_path):
    folder = tmp_path / "my wheels"
    folder.mkdir()
    name, data = wheel("a", "1.0")
    (folder / name).write_bytes(data)
    sources = Sources("", find_links=(str(folder),))
    Fetcher(sources, store).fetch([Wanted(name, f"file:{name}", sha256(data))])
    assert store.path(sha256(data)).read_bytes() == data
    (folder / name).write_bytes(data + b"!")
    with pytest.raises(IntegrityError, match="my wheels"):
        Fetcher(sources, store).fetch([Wanted(name, f"file:{name}", "0" * 64)])
    with pytest.raises(SourceError, match="none of the configured folders"):
        Fetcher(sources, store).fetch([Wanted("b.whl", "file:b.whl", "1" * 64)])


def test_an_unreadable_local_file_is_named(store, tmp_path):
    (tmp_path / "a.whl").symlink_to(tmp_path / "a.whl")
    with pytest.raises(SourceError, match=r"a\.whl"):
        Fetcher(Sources("", (str(tmp_path),)), store).fetch(
            [Wanted("a.whl", "file:a.whl", "0" * 64)]
        )


_DIES = """
import os, signal, sys
from pathlib import Path
from wheelhouse.fetch import Fetcher, Wanted
from wheelhouse.sources import Sources
from wheelhouse.store import Store
index, folder, url, sha256 = sys.argv[1:]
got = 0
def count(more):
    global got
    got += more
    if got > 2_000_000:
        os.kill(os.getpid(), signal.SIGKILL)
Fetcher(Sources(index), Store(Path(folder))).fetch([Wanted("a.whl", url, sha256)], count)
"""


def test_what_a_killed_run_had_is_continued_by_range(index, store):
    file = index.add(("a.whl", DATA))
    item = wanted(index, file)
    words = [index.simple, str(store.root), item.url, item.sha256]
    done = subprocess.run([sys.executable, "-c", _DIES, *words], env=environment(), check=False)
    assert done.returncode == -signal.SIGKILL
    assert not store.has(item.sha256)
    seen = []
    fetcher(index, store).fetch([item], seen.append)
    assert store.path(item.sha256).read_bytes() == DATA
    assert sum(seen) == len(DATA)
    first, second = index.transfers("a.whl")
    assert first == ""
    assert int(second.removeprefix("bytes=").rstrip("-")) >= 1 << 20


def test_the_largest_is_begun_first(index, store, monkeypatch):
    monkeypatch.setattr(fetch, "CONNECTIONS", 1)
    files = [index.add((f"f{n}.whl", DATA[: n * 1000])) for n in (1, 3, 2)]
    fetcher(index, store).fetch([wanted(index, file) for file in files])
    asked = [path for path, _ in index.requests if path.startswith("/files/")]
    assert asked == ["/files/f3.whl", "/files/f2.whl", "/files/f1.whl"]


def test_a_busy_server_is_asked_again(index, store):
    file = index.add(("a.whl", DATA))
    index.busy = 2
    fetcher(index, store).fetch([wanted(index, file)])
    assert len(index.transfers("a.whl")) == 3


def test_transfers_run_side_by_side(index, store):
    gate = threading.Barrier(4, timeout=10)
    files = [index.add((f"f{n}.whl", DATA[n:])) for n in range(4)]
    for file in files:
        file.before = gate.wait  # nobody gets a byte before four have asked
    fetcher(index, store).fetch([wanted(index, file) for file in files])
    assert all(store.has(sha256(file.data)) for file in files)
