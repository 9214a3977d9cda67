import io
from dataclasses import replace

import pytest
import zstandard

from bundler import caches as carrying
from manifests import bundle, caches, members
from manifests.bundle import digest_of
from manifests.caches import Caches, Key
from manifests.errors import FilesystemError, IntegrityError, UsageError
from tests.support.simulator import MODEL, Simulator

MANIFEST = Simulator().manifest()
KEY = Key(
    device="a processor",
    capability="",
    glibc="2.28",
    stack=MANIFEST.stack,
    environment=caches.environment_of(MANIFEST),
    model=digest_of(MODEL["config.json"]),
    arguments=(),
)


def write(path, key=KEY, data=b"machine code"):
    file, given = caches.give("triton/K/k.cubin", b"machine code", "/c")
    header = Caches(caches.SCHEMA, key, "/c", (file,)).dump()
    path.write_bytes(zstandard.compress(header + (data if data != given else given)))
    return path


def test_the_caches_become_a_member_that_a_reader_takes(tmp_path):
    (chosen,) = carrying.look([write(tmp_path / "a")])
    manifest = carrying.added(MANIFEST, [chosen])
    (member,) = caches.carried(bundle.parse(manifest.dump()))
    data = b"".join(map(bytes, carrying.openers([chosen])[member.path](0)))
    assert (len(data), digest_of(data)) == (member.size, member.sha256)
    assert member.role == members.role_of(member.path) == bundle.DOCUMENT
    assert caches.read(io.BytesIO(zstandard.decompress(data)), "x") == chosen.header


def test_without_caches_the_manifest_is_the_same():
    assert carrying.added(MANIFEST, ()) == MANIFEST


@pytest.mark.parametrize("data", [b"other code!!", b"short"])
def test_bytes_that_are_not_the_headers_are_refused(tmp_path, data):
    with pytest.raises(IntegrityError, match=r"k\.cubin"):
        carrying.look([write(tmp_path / "a", data=data)])


@pytest.mark.parametrize("more", [b"more", zstandard.compress(b"another frame")])
def test_more_than_the_header_names_is_refused(tmp_path, more):
    path = write(tmp_path / "a")
    path.write_bytes(path.read_bytes() + more)
    with pytest.raises(IntegrityError):
        carrying.look([path])


def test_what_is_no_such_file_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"anything")
    with pytest.raises(IntegrityError, match="not a file of compile caches"):
        carrying.look([tmp_path / "a"])
    with pytest.raises(FilesystemError):
        carrying.look([tmp_path / "missing"])


def test_the_same_caches_twice_are_refused(tmp_path):
    path = write(tmp_path / "a")
    with pytest.raises(UsageError, match="twice"):
        carrying.look([path, path])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"stack": "another"}, "the stack another"),
        ({"environment": "0" * 64}, "another environment"),
        ({"model": "0" * 64}, "another shape"),
        ({"capability": "9.0"}, "they are for sm_90, the bundle is for cpu"),
    ],
)
def test_caches_that_no_start_could_use_are_not_carried(tmp_path, change, why):
    chosen = carrying.look([write(tmp_path / "a", replace(KEY, **change))])
    with pytest.raises(UsageError) as caught:
        carrying.added(MANIFEST, chosen)
    assert why in caught.value.why
