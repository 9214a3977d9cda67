import hashlib
import io
import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manifests.errors import FilesystemError, IntegrityError
from wheelhouse.store import Store


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


DATA = b"some bytes" * 1000
SHA = digest(DATA)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "objects")


def test_an_object_appears_only_when_its_bytes_are_right(store):
    with store.partial(SHA, "thing") as partial:
        partial.write(DATA[:100])
        assert not store.has(SHA)
        partial.write(DATA[100:])
    assert store.path(SHA).read_bytes() == DATA
    assert store.path(SHA).stat().st_mode & 0o222 == 0


def test_wrong_bytes_are_thrown_away_and_named(store):
    with pytest.raises(IntegrityError) as caught, store.partial(SHA, "thing-1.0.whl") as partial:
        partial.write(b"other bytes")
    assert "thing-1.0.whl" in caught.value.what
    assert SHA in caught.value.what
    assert digest(b"other bytes") in caught.value.what
    assert [path for path in store.root.rglob("*") if path.is_file()] == []


def test_an_interrupted_object_is_continued(store):
    with pytest.raises(KeyboardInterrupt), store.partial(SHA, "thing") as partial:
        partial.write(DATA[:500])
        raise KeyboardInterrupt
    assert not store.has(SHA)
    with store.partial(SHA, "thing") as partial:
        assert partial.size == 500
        partial.write(DATA[500:])
    assert store.has(SHA)


def test_a_killed_writer_leaves_no_object_and_no_lock(store):
    code = (
        "import os, signal, sys; from pathlib import Path; from wheelhouse.store import Store\n"
        "with Store(Path(sys.argv[1])).partial(sys.argv[2], 'x') as partial:\n"
        "    partial.write(b'some')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, store.root, SHA], check=False)
    assert done.returncode == -9
    assert not store.has(SHA)
    with store.partial(SHA, "x") as partial:
        assert partial.size == 4
        partial.write(DATA[4:])
    assert store.has(SHA)


def test_two_writers_of_one_object_do_the_work_once(store):
    inside, wrote = threading.Event(), []

    def second():
        inside.wait()
        with store.partial(SHA, "thing") as partial:
            wrote.append(partial is not None)

    thread = threading.Thread(target=second)
    thread.start()
    with store.partial(SHA, "thing") as partial:
        inside.set()
        partial.write(DATA)
    thread.join()
    assert wrote == [False]


def test_restart_forgets_what_was_there(store):
    with store.partial(SHA, "thing") as partial:
        partial.write(b"rubbish")
        partial.restart()
        partial.write(DATA)
    assert store.path(SHA).read_bytes() == DATA


@given(data=st.binary(max_size=3000))
@settings(max_examples=25, deadline=None)
def test_adopt_names_a_stream_by_its_digest(tmp_path_factory, data):
    store = Store(tmp_path_factory.mktemp("adopt") / "objects")
    seen = []
    assert store.adopt(io.BytesIO(data), seen.append) == digest(data)
    assert store.path(digest(data)).read_bytes() == data
    assert sum(seen) == len(data)
    assert [path.name for path in store.root.iterdir() if path.is_file()] == []


def test_a_bad_object_is_named_and_removed(store):
    store.adopt(io.BytesIO(DATA))
    assert store.verified(SHA, "thing.whl") == store.path(SHA)
    store.path(SHA).chmod(0o644)
    store.path(SHA).write_bytes(DATA[:-1] + b"X")
    with pytest.raises(IntegrityError, match=r"thing\.whl"):
        store.verified(SHA, "thing.whl")
    assert not store.has(SHA)


def test_a_missing_object_says_what_to_do(store):
    with pytest.raises(FilesystemError) as caught:
        store.verified(SHA, "thing.whl")
    assert "run the command again" in caught.value.mend


def test_an_unwritable_store_is_a_filesystem_error(tmp_path):
    (tmp_path / "objects").write_text("a file where the folder should be")
    store = Store(tmp_path / "objects")
    with pytest.raises(FilesystemError, match="objects"), store.partial(SHA, "thing"):
        pass
    with pytest.raises(FilesystemError):
        store.adopt(io.BytesIO(DATA))


def test_a_full_disk_is_a_filesystem_error_and_leaves_no_object(store, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FilesystemError, match="No space left"), store.partial(SHA, "x") as partial:
        partial.write(DATA)
    assert not store.has(SHA)
