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
@settings(max_examples=25)
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


def cut(path):
    path.unlink()
    path.write_bytes(DATA[:-1])


def link(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def folder(path):
    path.unlink()
    (path / "deep").mkdir(parents=True)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("harm", [cut, link, folder, pipe])
def test_what_lies_in_an_objects_place_is_told_of_and_gives_way(store, harm):
    heard = []
    store = Store(store.root, heard.append)
    store.adopt(io.BytesIO(DATA))
    assert store.usable(SHA, "thing", len(DATA))
    harm(store.path(SHA))
    assert not store.usable(SHA, "thing", len(DATA))
    assert [line.startswith("  cache: thing went bad (") for line in heard] == [True]
    assert not store.usable(SHA, "thing", len(DATA))
    assert len(heard) == 1
    with store.partial(SHA, "thing") as partial:
        partial.write(DATA)
    assert store.intact(SHA, "thing")


@pytest.mark.parametrize("harm", [link, folder, pipe])
def test_adopting_and_continuing_go_through_no_link(store, harm):
    store.adopt(io.BytesIO(DATA))
    harm(store.path(SHA))
    store.adopt(io.BytesIO(DATA))
    assert store.intact(SHA, "thing")
    store.path(SHA).unlink()
    growing = store.path(SHA).with_name(f"{SHA}.partial")
    growing.write_bytes(b"some")
    harm(growing)
    with store.partial(SHA, "thing") as partial:
        assert partial.size == 0
        partial.write(DATA)
    assert store.path(SHA).read_bytes() == DATA
    assert store.has(SHA)


def test_an_object_that_changed_takes_its_progress_back(store):
    heard, told = [], []
    store = Store(store.root, heard.append)
    store.adopt(io.BytesIO(DATA))
    store.path(SHA).chmod(0o644)
    store.path(SHA).write_bytes(DATA[:-1] + b"X")
    assert not store.intact(SHA, "thing", told.append)
    assert sum(told) == 0
    assert "its sha256 is " in heard[0]


def test_a_bad_object_is_fetched_again_where_it_is_used(store):
    asked = []

    def refetch(sha256):
        asked.append(sha256)
        Store(store.root).adopt(io.BytesIO(DATA))
        return True

    healing = Store(store.root, refetch=refetch)
    assert healing.verified(SHA, "thing").read_bytes() == DATA  # it was never there
    assert healing.heal(SHA, "thing") is False
    healing.path(SHA).chmod(0o644)
    healing.path(SHA).write_bytes(b"x")
    assert healing.heal(SHA, "thing") is True
    assert asked == [SHA, SHA]
    unable = Store(store.root, refetch=lambda _sha256: True)
    unable.path(SHA).unlink()
    with pytest.raises(FilesystemError, match="no longer in the store"):
        unable.verified(SHA, "thing")


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
