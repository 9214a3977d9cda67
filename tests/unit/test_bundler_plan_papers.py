import dataclasses
import zipfile

import pytest

from bundler.plan.papers import Papers, at_hand, inside
from manifests.lock import Wheel
from tests.support.index import Index, serving, wheel
from wheelhouse.sources import Sources
from wheelhouse.store import Store

TEXT = "Metadata-Version: 2.4\nName: {name}\nVersion: 1\nLicense-Expression: MIT\n"


@pytest.fixture
def index():
    with serving(Index()) as started:
        yield started


def remote(index: Index, name: str, digest: str = "a") -> Wheel:
    filename = f"{name.replace('-', '_')}-1-py3-none-any.whl"
    return Wheel(name, "1", filename, f"{index.url}/files/{filename}", digest * 64, size=7)


def publish(index: Index, found: Wheel, text: str) -> None:
    index.add((f"{found.filename}.metadata", text.encode()))


def test_metadata_comes_without_the_wheel(index, tmp_path):
    known, unknown = remote(index, "some-thing"), remote(index, "other", "b")
    publish(index, known, TEXT.format(name="Some.Thing"))
    heard: list[int] = []
    found = Papers(Sources(index.simple), tmp_path).of([known, unknown], heard.append)
    assert found == {known.sha256: TEXT.format(name="Some.Thing")}
    assert sum(heard) == len(found[known.sha256])
    assert {path for path, _ in index.requests} == {
        f"/files/{known.filename}.metadata",
        f"/files/{unknown.filename}.metadata",
    }


def test_what_was_told_is_not_asked_again_and_needs_no_network(index, tmp_path):
    known = remote(index, "a")
    publish(index, known, TEXT.format(name="a"))
    first = Papers(Sources(index.simple), tmp_path).of([known])
    index.requests.clear()
    assert Papers(Sources(index.simple), tmp_path, offline=True).of([known]) == first
    assert index.requests == []


def test_offline_nothing_is_asked_and_nothing_is_written(index, tmp_path):
    known = remote(index, "a")
    publish(index, known, TEXT.format(name="a"))
    assert Papers(Sources(index.simple), tmp_path / "new", offline=True).of([known]) == {}
    assert index.requests == []
    assert not (tmp_path / "new").exists()


def test_a_page_in_the_place_of_metadata_is_no_metadata(index, tmp_path):
    known = remote(index, "a")
    publish(index, known, "<html>Please log in</html>")
    assert Papers(Sources(index.simple), tmp_path).of([known]) == {}
    assert list(tmp_path.iterdir()) == []


def test_metadata_of_another_project_is_not_taken(index, tmp_path):
    known = remote(index, "a")
    publish(index, known, TEXT.format(name="b"))
    assert Papers(Sources(index.simple), tmp_path).of([known]) == {}


def test_a_host_that_is_not_there_is_no_failure(index, tmp_path):
    dead = [
        dataclasses.replace(remote(index, f"p{n}", f"{n}"), url=f"http://127.0.0.1:9/{n}.whl")
        for n in range(10)
    ]
    assert Papers(Sources(index.simple, timeout=2), tmp_path).of(dead) == {}


def test_credentials_of_the_index_are_used_and_not_kept(index, tmp_path):
    index.credentials = "user:s3cret"
    known = remote(index, "a")
    publish(index, known, TEXT.format(name="a"))
    assert Papers(Sources(index.authorised()), tmp_path).of([known])
    assert b"s3cret" not in b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_wheels_at_hand_are_those_of_the_store_and_of_folders(tmp_path):
    store, folder = Store(tmp_path / "objects"), tmp_path / "links"
    folder.mkdir()
    name, data = wheel("a", "1")
    (folder / name).write_bytes(data)
    with (folder / name).open("rb", buffering=0) as handle:
        digest = store.adopt(handle)
    kept = Wheel("a", "1", name, "https://example.org/a.whl", digest)
    local = Wheel("a", "1", name, f"file:{name}", "b" * 64)
    gone = Wheel("b", "1", "b-1-py3-none-any.whl", "file:b-1-py3-none-any.whl", "c" * 64)
    found = at_hand([kept, local, gone], Sources("", (str(folder),)), store)
    assert found == {kept.sha256: store.path(digest), local.sha256: folder / name}
    assert inside(folder / name).startswith("Metadata-Version: 2.1\nName: a\nVersion: 1")


def test_a_wheel_without_metadata_has_none(tmp_path):
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("vendored/x-1.dist-info/METADATA", "Name: x\nLicense: GPL\n")
    assert inside(path) == ""
    path.write_bytes(b"no wheel")
    assert inside(path) == ""
