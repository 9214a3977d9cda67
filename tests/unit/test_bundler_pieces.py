import os
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler import media
from bundler.pieces import Pieces
from manifests import audit, bundle
from tests.support import killing

SIZE = 80_000
BUNDLE = killing.large()
MANIFEST = BUNDLE.manifest()
DATA = MANIFEST.dump()


def pieces(folder, size):
    return closing(Pieces(folder, MANIFEST, bundle.digest_of(DATA), len(DATA), size))


@pytest.fixture(scope="module", params=[0, SIZE])
def whole(request, tmp_path_factory):
    """A finished bundle, and the size of its volumes."""
    folder, _ = BUNDLE.write(tmp_path_factory.mktemp("whole"), volume_size=request.param)
    return folder, request.param


def copy(folder, target, length, size):
    """What a run has left that was killed after `length` bytes of the files."""
    for path in sorted(folder.glob("*.tar*")):
        data = path.read_bytes()[: max(0, length)]
        if data:
            (target / path.name).write_bytes(data)
        length -= path.stat().st_size


@settings(max_examples=30)
@given(data=st.data())
def test_what_is_kept_is_given_back_and_the_rest_is_written(whole, tmp_path_factory, data):
    folder, size = whole
    files = sorted(folder.glob("*.tar*"))
    work = tmp_path_factory.mktemp("work")
    length = data.draw(st.integers(0, sum(path.stat().st_size for path in files)))
    copy(folder, work, length, size)
    head = 512 if size else 0
    stream = b"".join(path.read_bytes()[head:] for path in files)
    with pieces(work, size) as again:
        asked = data.draw(st.integers(1, len(stream)))
        found = b"".join(bytes(view) for view in again.kept(asked))
        found += b"".join(bytes(view) for view in again.kept(len(stream)))
        assert stream.startswith(found)
        assert len(found) >= length - head * (length // (size or len(stream)) + 1)
        again.put(stream[len(found) :])
        digests = again.finish()
    assert {name: bundle.digest_of((work / name).read_bytes()) for name in digests} == digests
    assert [(work / path.name).read_bytes() for path in files] == [p.read_bytes() for p in files]


@given(data=st.data())
@settings(max_examples=30)
def test_shortened(whole, tmp_path_factory, data):
    folder, size = whole
    work = tmp_path_factory.mktemp("work")
    copy(folder, work, 1 << 30, size)
    with pieces(work, size) as again:
        length = again.left
        assert length == MANIFEST.archive_length(len(DATA))
        length = data.draw(st.integers(0, length))
        again.shorten(length)
    with pieces(work, size) as again:
        assert again.left == length


@pytest.mark.parametrize("first", [0, SIZE])
@pytest.mark.parametrize("second", [0, SIZE, SIZE + 1, SIZE * 2])
def test_another_volume_size_than_that_of_the_interrupted_run(tmp_path, first, second):
    folder, _ = BUNDLE.write(tmp_path, volume_size=first)
    folder.rename(tmp_path / f".{folder.name}.partial")
    BUNDLE.write(tmp_path, volume_size=second)
    BUNDLE.write(tmp_path / "new", volume_size=second)
    for path in (tmp_path / "new" / folder.name).iterdir():
        assert (folder / path.name).read_bytes() == path.read_bytes()
    assert audit.audit(folder, lambda count: None).intact
    assert [path.name for path in tmp_path.glob(".*")] == []


def test_a_foreign_volume_is_no_start(tmp_path):
    folder, _ = BUNDLE.write(tmp_path, volume_size=SIZE)
    other = killing.large(2)
    made, _ = other.write(tmp_path / "other", volume_size=SIZE)
    partial = folder.rename(tmp_path / f".{folder.name}.partial")
    name = f"{folder.name}.tar.001"
    (made / name).replace(partial / name)
    with pieces(partial, SIZE) as again:
        assert again.left == SIZE - 512


def test_what_is_whole_is_not_written_again(tmp_path):
    """The files of a kept start keep their inodes."""
    folder, _ = BUNDLE.write(tmp_path, volume_size=SIZE)
    before = {path.name: path.stat().st_ino for path in folder.glob("*.tar*")}
    folder.rename(tmp_path / f".{folder.name}.partial")
    nothing = dict.fromkeys(BUNDLE.contents(), media.bytes_opener(b""))
    media.write(folder, MANIFEST, nothing, lambda count: None, SIZE)
    assert {path.name: path.stat().st_ino for path in folder.glob("*.tar*")} == before


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / f"{MANIFEST.name}.tar")
    with pieces(tmp_path, 0) as again:
        assert list(again.kept(len(DATA))) == []
    assert list(tmp_path.iterdir()) == []
