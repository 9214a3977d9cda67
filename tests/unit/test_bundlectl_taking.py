"""What only `Taker` decides; kills at every step are in tests/system/test_install_kill.py."""

import contextlib
import dataclasses
import io
import shutil

import pytest
import zstandard

from bundlectl import blocks, extract, readahead, unpack
from bundlectl.journal import Journal, journal_path
from bundlectl.unpack import StaleStart
from manifests import bundle
from manifests.audit.installation import audit_tree, release_entries
from manifests.errors import Damage, FilesystemError
from manifests.reader import BundleReader
from tests.support import killing

SHARD = "model/one.safetensors"


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    return killing.make(tmp_path_factory.mktemp("media"), is_large=True)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", killing.BLOCK)
    for module in (extract, readahead):
        monkeypatch.setattr(module, "CHUNK", killing.BLOCK // 4)


class Medium(io.BytesIO):
    """The archive in memory, which counts what is read of it and breaks where it is told to."""

    def __init__(self, data: bytes, broken: int | None = None) -> None:
        super().__init__(data)
        self.read_bytes = 0
        self.broken = broken

    def readinto(self, buffer):
        if self.broken is not None and self.tell() + len(buffer) > self.broken:
            raise OSError(5, "Input/output error")
        count = super().readinto(buffer)
        self.read_bytes += count
        return count


def archive_of(media):
    return (media[0] / f"{media[0].name}.tar").read_bytes()


def run(medium, digest, prefix):
    for name in ("releases", "models", "state/journal"):
        (prefix / name).mkdir(parents=True, exist_ok=True)
    done = []
    unpacker = unpack.Unpacker(prefix, BundleReader(medium, digest), done.append)
    try:
        unpacker.run()
    finally:
        run.progress = done
    return prefix / "releases" / unpacker.release


def begun(media, prefix, place):
    """A run whose medium broke at a place of the archive; gives the journal."""
    with pytest.raises(FilesystemError, match="Input/output error"):
        run(Medium(archive_of(media), broken=place), media[1], prefix)
    return Journal(journal_path(prefix, media[1]))


def in_shard(media, blocks_of_it):
    """The place in the archive where so many blocks of the shard have passed."""
    shard = killing.large().contents()[SHARD]
    return archive_of(media).index(shard[:100]) + int(blocks_of_it * killing.BLOCK)


def test_the_rest_of_a_file(media, tmp_path):
    journal = begun(media, tmp_path, in_shard(media, 3.5))
    assert journal.begun(SHARD) == (3 * killing.BLOCK,)
    medium = Medium(archive_of(media))
    release = run(medium, media[1], tmp_path)
    left = len(archive_of(media)) - in_shard(media, 3)
    assert left <= medium.read_bytes <= left + 8 * 512 + len((release / "bundle.json").read_bytes())
    manifest = bundle.parse((release / "bundle.json").read_bytes())
    assert sum(run.progress) == sum(member.size for member in manifest.members)
    assert audit_tree(release, release_entries(manifest, media[1])) == []
    assert audit_tree(tmp_path / manifest.model_folder(), bundle.model_entries(manifest)) == []


def test_the_rest_of_a_tree(media, tmp_path):
    environment = bundle.ENVIRONMENT_MEMBER
    data = archive_of(media)
    manifest = BundleReader(io.BytesIO(data)).manifest
    (member,) = manifest.of_role(bundle.ENVIRONMENT)
    end = data.index(b"bundle.lock", len(manifest.dump()) + 512)  # the next member's header
    journal = begun(media, tmp_path, end - member.size // 3)
    entries, plain, compressed = journal.begun(environment)
    assert 0 < entries < len(manifest.environment)
    assert plain > compressed / 2
    medium = Medium(data)
    release = run(medium, media[1], tmp_path)
    assert medium.read_bytes < len(data) - compressed
    assert audit_tree(release, release_entries(manifest, media[1])) == []


@pytest.mark.parametrize("harm", ["extra", "missing", "other size", "other kind", "gone", "link"])
def test_a_tree_that_is_not_as_it_was_left(media, tmp_path, harm):
    data = archive_of(media)
    manifest = BundleReader(io.BytesIO(data)).manifest
    end = data.index(b"bundle.lock", len(manifest.dump()) + 512)
    begun(media, tmp_path, end - 9 * 1024)
    (env,) = tmp_path.glob("releases/*.partial/env")
    file = env / "lib/part0.so"
    assert file.is_file()
    outside = tmp_path / "outside"
    outside.mkdir()
    if harm == "extra":
        (env / "lib/new/deep").mkdir(parents=True)
        (env / "lib/new/deep/file").write_text("x")
        (env / "lib/new/link").symlink_to(outside)
    elif harm == "missing":
        file.unlink()
    elif harm == "other size":
        file.write_bytes(b"x")
    elif harm == "other kind":
        file.unlink()
        file.symlink_to(outside)
    elif harm == "gone":
        shutil.rmtree(env)
    else:
        shutil.move(env / "lib", outside / "lib")
        (env / "lib").symlink_to(outside / "lib")
    release = run(Medium(data), media[1], tmp_path)
    assert audit_tree(release, release_entries(manifest, media[1])) == []
    assert harm != "link" or (outside / "lib/part0.so").is_file()


def test_a_wrong_start_on_the_disk_is_told_from_a_wrong_medium(media, tmp_path):
    begun(media, tmp_path, in_shard(media, 3.5))
    (path,) = tmp_path.glob("models/*.partial/one.safetensors")
    data = bytearray(path.read_bytes())
    data[5] ^= 1
    path.write_bytes(data)
    with pytest.raises(StaleStart, match=SHARD):
        run(Medium(archive_of(media)), media[1], tmp_path)
    assert sum(run.progress) == 0
    assert Journal(journal_path(tmp_path, media[1])).begun(SHARD) == ()
    run(Medium(archive_of(media)), media[1], tmp_path)

    other = tmp_path / "other"
    begun(media, other, in_shard(media, 3.5))
    wrong = bytearray(archive_of(media))
    wrong[in_shard(media, 4.5)] ^= 1
    with pytest.raises(StaleStart):
        run(Medium(bytes(wrong)), media[1], other)
    with pytest.raises(Damage, match=SHARD) as caught:
        run(Medium(bytes(wrong)), media[1], other)
    assert not isinstance(caught.value, StaleStart)


def test_wrong_bytes_are_not_a_start(media, tmp_path):
    """A bad disc is found at a member's end, when blocks of it are in the journal."""
    wrong = bytearray(archive_of(media))
    wrong[in_shard(media, 1.5)] ^= 1
    with pytest.raises(Damage, match=SHARD):
        run(Medium(bytes(wrong)), media[1], tmp_path)
    assert Journal(journal_path(tmp_path, media[1])).begun(SHARD) == ()
    run(Medium(archive_of(media)), media[1], tmp_path)


@pytest.mark.parametrize("numbers", [(0,), (1, 2), (10**18,), (1, 10**9, 5), (9999, 1, 1)])
@pytest.mark.parametrize("member", [SHARD, "env.tar.zst"])
def test_a_journal_that_says_something_else(media, tmp_path, member, numbers):
    begun(media, tmp_path, in_shard(media, 1.5))
    journal = Journal(journal_path(tmp_path, media[1]))
    if member in journal:  # it was done: let it be begun
        journal.remove()
    journal.mark(member, *numbers)
    with contextlib.suppress(StaleStart):
        run(Medium(archive_of(media)), media[1], tmp_path)
    if list(tmp_path.glob("releases/*.partial")):
        run(Medium(archive_of(media)), media[1], tmp_path)
    (release,) = tmp_path.glob("releases/*")
    manifest = bundle.parse((release / "bundle.json").read_bytes())
    assert audit_tree(release, release_entries(manifest, media[1])) == []
    assert audit_tree(tmp_path / manifest.model_folder(), bundle.model_entries(manifest)) == []


def test_two_bundles_with_one_model(media, tmp_path):
    """Neither believes that its own run wrote what lies in the model's folder."""
    simulator = killing.large()
    manifest = dataclasses.replace(simulator.manifest(), sequence=2)
    folder, digest = simulator.write(tmp_path / "second", manifest)
    prefix = tmp_path / "host"
    begun(media, prefix, in_shard(media, 9))
    begun((folder, digest), prefix, in_shard((folder, digest), 1))
    run(Medium(archive_of(media)), media[1], prefix)
    assert audit_tree(prefix / manifest.model_folder(), bundle.model_entries(manifest)) == []


def test_two_bundles_that_take_turns(media, tmp_path):
    """What one has noted of the model's folder ends when the other goes on there."""
    simulator = killing.large()
    manifest = simulator.manifest()
    first, second = (
        simulator.write(tmp_path / str(n), dataclasses.replace(manifest, sequence=n))
        for n in (1, 2)
    )
    prefix = tmp_path / "host"
    for bundled in (first, second):
        assert SHARD in begun(bundled, prefix, in_shard(bundled, 7))
    begun(first, prefix, in_shard(first, 2))  # writes the shard anew, and half of it
    run(Medium(archive_of(second)), second[1], prefix)
    assert audit_tree(prefix / manifest.model_folder(), bundle.model_entries(manifest)) == []


def test_what_is_noted_of_a_tree_ends_with_the_tree(media, tmp_path):
    data = archive_of(media)
    manifest = BundleReader(io.BytesIO(data)).manifest
    end = data.index(b"bundle.lock", len(manifest.dump()) + 512)
    assert begun(media, tmp_path, end - 9 * 1024).begun(bundle.ENVIRONMENT_MEMBER)
    (env,) = tmp_path.glob("releases/*.partial/env")
    (env / "lib/part0.so").unlink()
    journal = begun(media, tmp_path, data.index(zstandard.MAGIC_NUMBER.to_bytes(4, "little")) + 900)
    assert journal.begun(bundle.ENVIRONMENT_MEMBER) == ()
    release = run(Medium(data), media[1], tmp_path)
    assert audit_tree(release, release_entries(manifest, media[1])) == []
