import contextlib
import io
import tarfile
from contextlib import closing

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from bundlectl import unpack
from bundlectl.extract import extract
from bundlectl.journal import journal_path
from manifests import bundle, tree
from manifests.audit.installation import audit_tree, release_entries
from manifests.bundle import model_entries
from manifests.errors import BundleError, Damage, IntegrityError
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader
from tests.support.simulator import ENVIRONMENT, Simulator, archive_of, entries


def run(folder, digest, prefix, keep=(), progress=lambda n: None):
    for name in ("releases", "models", "state/journal"):
        (prefix / name).mkdir(parents=True, exist_ok=True)
    with (folder / f"{folder.name}.tar").open("rb", buffering=0) as raw:
        reader = BundleReader(raw, digest)
        unpacker = unpack.Unpacker(prefix, reader, progress)
        unpacker.run(keep)
    return reader.manifest, prefix / "releases" / unpacker.release


def test_every_file_lies_where_it_belongs(tmp_path):
    folder, digest = Simulator().write(tmp_path / "media")
    done = []
    manifest, release = run(folder, digest, tmp_path / "host", progress=done.append)
    assert audit_tree(release, release_entries(manifest, digest)) == []
    model = tmp_path / "host" / manifest.model_folder()
    assert audit_tree(model, model_entries(manifest)) == []
    assert sum(done) == sum(member.size for member in manifest.members)
    assert not journal_path(tmp_path / "host", digest).exists()


def test_every_flipped_byte_is_refused_and_nothing_gets_its_name(tmp_path):
    folder, digest = Simulator().write(tmp_path / "media")
    path = folder / f"{folder.name}.tar"
    data = bytearray(path.read_bytes())
    for number, place in enumerate(range(3, len(data), 211)):
        data[place] ^= 1
        path.write_bytes(data)
        prefix = tmp_path / str(number)
        with pytest.raises(IntegrityError):
            run(folder, digest, prefix)
        names = [item.name for area in ("releases", "models") for item in (prefix / area).iterdir()]
        assert all(name.endswith(".partial") for name in names)
        data[place] ^= 1


def test_the_lists_digest_is_compared_before_anything_gets_its_name(tmp_path):
    folder, digest = Simulator().write(tmp_path / "media")
    listed = (folder / "SHA256SUMS").read_text().splitlines()
    wrong = [f"{'0' * 64}{line[64:]}" if line.endswith(".tar") else line for line in listed]
    (folder / "SHA256SUMS").write_text("".join(f"{line}\n" for line in wrong))
    for name in ("releases", "models", "state/journal"):
        (tmp_path / "host" / name).mkdir(parents=True)
    with closing(ArchiveStream(Medium(folder, manifest_sha256=digest))) as stream:
        unpacker = unpack.Unpacker(tmp_path / "host", BundleReader(stream, digest), print)
        with pytest.raises(Damage, match=r"\.tar: expected 0000"):
            unpacker.run()
    assert [p.name for p in (tmp_path / "host/models").iterdir()] == ["tiny@000000000000.partial"]


ATTACKS = {
    "another order": dict(reversed(ENVIRONMENT.items())),
    "one more": {**ENVIRONMENT, "zzz": b""},
    "one less": dict(list(ENVIRONMENT.items())[:-1]),
    "a link for a file": {**ENVIRONMENT, "lib/empty": "../../../../etc/passwd"},
    "another target": {**ENVIRONMENT, "lib/libexample.so": "/etc/passwd"},
    "other bytes": {**ENVIRONMENT, "lib/empty": b"x"},
    "same size, other bytes": {**ENVIRONMENT, "lib/libexample.so.1": b"\x7fELF exbmple"},
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_inner_archive_that_is_not_the_listed_tree(tmp_path, attack):
    """Packed and digested rightly, so that only the comparison with the tree can refuse it."""
    archive = zstandard.compress(archive_of(ATTACKS[attack]))
    folder, digest = Simulator(environment_archive=archive).write(tmp_path / "media")
    with pytest.raises(Damage):
        run(folder, digest, tmp_path / "host")


def raw_tar(*infos: tarfile.TarInfo) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for info in infos:
            tar.addfile(info)
    return out.getvalue()


@pytest.mark.parametrize("kind", [tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_other_kinds_of_members_are_refused(tmp_path, kind):
    info = tarfile.TarInfo("file")
    info.type, info.linkname = kind, "/etc/passwd"
    with pytest.raises(Damage):
        extract(io.BytesIO(raw_tar(info)), [tree.Entry("file", sha256="0" * 64)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_link_planted_in_the_partial_folder_is_not_followed(tmp_path):
    folder, digest = Simulator().write(tmp_path / "media")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("kept")
    release = f"{folder.name}-{digest[:12]}"
    partial = tmp_path / "host/releases" / f"{release}.partial"
    partial.mkdir(parents=True)
    (partial / "env").symlink_to(elsewhere)
    with pytest.raises(IntegrityError, match="a link where a folder has to be"):
        run(folder, digest, tmp_path / "host")
    assert (elsewhere / "precious").read_text() == "kept"


def test_a_folder_that_a_cut_off_run_left_is_replaced(tmp_path):
    folder, digest = Simulator().write(tmp_path / "media")
    manifest, release = run(folder, digest, tmp_path / "host")
    (release / "env/bin/python").write_bytes(b"half")
    _, release = run(folder, digest, tmp_path / "host", keep={manifest.model_folder()})
    assert audit_tree(release, release_entries(manifest, digest)) == []


def changed(data: bytes, draw) -> bytes:
    """The bytes with one of them another one."""
    place = draw(st.integers(0, len(data) - 1))
    byte = draw(st.integers(1, 255)) ^ data[place]
    return data[:place] + bytes([byte]) + data[place + 1 :]


@settings(max_examples=60)
@given(data=st.data())
def test_one_changed_byte_in_a_plain_tree_is_named(tmp_path_factory, data):
    plain = changed(archive_of(ENVIRONMENT), data.draw)
    with pytest.raises(Damage):
        extract(io.BytesIO(plain), entries(ENVIRONMENT), tmp_path_factory.mktemp("tree"))


@settings(max_examples=30)
@given(data=st.data())
@pytest.mark.parametrize("member", [bundle.RUNTIME_MEMBER, bundle.ENVIRONMENT_MEMBER])
def test_compressed_bytes_that_are_not_an_archive_of_the_tree(tmp_path_factory, member, data):
    """With the digest that the manifest names, so that the decompressor is what has to refuse."""
    simulator = Simulator()
    contents = simulator.contents()
    contents[member] = changed(contents[member], data.draw)
    simulator.contents = lambda: contents
    root = tmp_path_factory.mktemp("bundle")
    folder, digest = simulator.write(root / "media")
    # A few bits of gzip's and zstd's headers say nothing about the content.
    with contextlib.suppress(BundleError):
        manifest, release = run(folder, digest, root / "host")
        assert audit_tree(release, release_entries(manifest, digest)) == []
