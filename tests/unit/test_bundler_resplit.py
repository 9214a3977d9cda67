import errno
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler import media, resplit
from bundler.carried import look, medium_of
from manifests import sums
from manifests.audit import audit
from manifests.errors import Damage, FilesystemError, IntegrityError, SourceError, UsageError
from tests.support.simulator import Simulator

MODEL = {"config.json": b"{}", "weights.safetensors": bytes(range(256)) * 1500}
SIZE = 100_000


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def volumes(folder):
    return sorted(folder.glob("*.tar.*"))


def read(*paths, **options):
    return resplit.resplit(look(medium_of(paths)), options.pop("output"), **options)


@pytest.fixture
def whole(tmp_path):
    return Simulator(model=MODEL).write(tmp_path / "whole")[0]


@pytest.fixture
def split(tmp_path):
    return Simulator(model=MODEL).write(tmp_path / "split", volume_size=SIZE)[0]


def refused(error, match, tmp_path, *paths, **options):
    """The output is as empty as before."""
    with pytest.raises(error, match=match) as caught:
        read(*paths, output=tmp_path / "output" / "made on the way", **options)
    assert not (tmp_path / "output").exists()
    return caught.value


def test_a_split_writes_what_create_would_have_written(whole, split, tmp_path):
    counted = []
    made = read(whole, output=tmp_path, volume_size=SIZE, progress=counted.append)
    assert contents(made.folder) == contents(split)
    assert made.files == tuple(path.name for path in volumes(split))
    assert sum(counted) == made.length == (whole / f"{whole.name}.tar").stat().st_size
    assert audit(made.folder).manifest_sha256 == audit(whole).manifest_sha256 == (made.digest,)
    assert (made.folder / "install.sh").stat().st_mode & 0o777 == 0o755


def test_a_join_writes_what_create_would_have_written(whole, split, tmp_path):
    assert contents(read(split, output=tmp_path).folder) == contents(whole)


def test_volumes_are_split_again(split, tmp_path):
    expected, _ = Simulator(model=MODEL).write(tmp_path / "create", volume_size=SIZE * 2)
    assert contents(read(split, output=tmp_path, volume_size=SIZE * 2).folder) == contents(expected)


def test_what_fits_stays_one_file(whole, tmp_path):
    made = read(whole, output=tmp_path, volume_size=10 << 20)
    assert contents(made.folder) == contents(whole)


@settings(max_examples=40)
@given(
    weights=st.binary(max_size=3000).map(lambda data: data * 100),
    first=st.integers(70_000, 300_000),
    second=st.integers(70_000, 300_000),
)
def test_split_and_join_are_inverse(weights, first, second):
    simulator = Simulator(model={"config.json": b"{}", "w.safetensors": weights})
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        whole, digest = simulator.write(root / "0")
        once = read(whole, output=root / "1", volume_size=first)
        again = read(once.folder, output=root / "2", volume_size=second)
        back = read(again.folder, output=root / "3")
        assert contents(back.folder) == contents(whole)
        assert {once.digest, again.digest, back.digest} == {digest}
        for made, limit in ((once, first), (again, second)):
            assert all((made.folder / name).stat().st_size <= limit for name in made.files)
            assert audit(made.folder).intact


def test_the_installer_of_the_bundle_is_kept(whole, tmp_path):
    """It goes with the bundle's runtime, whichever release of ours splits it."""
    script = (whole / "install.sh").read_bytes() + b"# of another release\n"
    (whole / "install.sh").write_bytes(script)
    listed = sums.parse((whole / "SHA256SUMS").read_bytes())
    listed["install.sh"] = media.bundle.digest_of(script)
    (whole / "SHA256SUMS").write_bytes(sums.render(listed))
    made = read(whole, output=tmp_path, volume_size=SIZE)
    lines = (made.folder / "install.sh").read_bytes().splitlines()
    assert lines[-1] == b"# of another release"
    assert f"ARCHIVE={whole.name}.tar.000".encode() in lines
    assert audit(made.folder).intact


def test_volumes_in_several_folders(split, whole, tmp_path):
    discs = []
    for number, path in enumerate(volumes(split)):
        discs.append(tmp_path / f"disc {number}")
        discs[-1].mkdir()
        shutil.move(path, discs[-1] / path.name)
    # Named as folders or as files, in any order, and a folder more than once.
    named = [next(discs[0].iterdir()), *reversed(discs), split, next(discs[1].iterdir())]
    assert contents(read(*named, output=tmp_path).folder) == contents(whole)


def test_each_disc_may_carry_the_list(split, whole, tmp_path):
    second = tmp_path / "disc"
    second.mkdir()
    shutil.copy(split / "SHA256SUMS", second)
    shutil.move(volumes(split)[1], second)
    assert contents(read(split, second, output=tmp_path).folder) == contents(whole)


def test_lists_of_two_bundles(split, whole, tmp_path):
    refused(IntegrityError, "SHA256SUMS: is not that of", tmp_path, split, whole)


def test_a_missing_volume(split, tmp_path):
    volumes(split)[2].unlink()
    error = refused(SourceError, r"\.tar\.002: not on this medium", tmp_path, split)
    assert str(split) in error.why


def test_a_foreign_volume(split, tmp_path):
    other, _ = Simulator(model={**MODEL, "config.json": b"[]"}).write(
        tmp_path / "other", volume_size=SIZE
    )
    shutil.copy(volumes(other)[1], volumes(split)[1])
    refused(Damage, r"\.tar\.001: the bundle that it belongs to", tmp_path, split)


def test_a_named_volume_that_is_not_of_the_bundle(split, tmp_path):
    stale = split / f"{split.name}.tar.900"
    stale.write_bytes(b"stale")
    refused(IntegrityError, r"\.tar\.900: the list in .* does not name it", tmp_path, split, stale)


def test_stale_volumes_are_not_read(split, whole, tmp_path):
    (split / f"{split.name}.tar.900").write_bytes(b"stale")
    assert contents(read(split, output=tmp_path).folder) == contents(whole)


def test_swapped_volumes(split, tmp_path):
    first, second = volumes(split)[1:3]
    kept = first.read_bytes()
    second.rename(first)
    second.write_bytes(kept)
    refused(Damage, r"\.tar\.001: the volume that it is: expected 1 of", tmp_path, split)


def test_a_volume_twice_under_two_names(split, tmp_path):
    shutil.copy(volumes(split)[2], volumes(split)[1])
    refused(Damage, r"\.tar\.001: the volume that it is: expected 1 of", tmp_path, split)


def test_a_volume_in_two_folders_counts_once(split, whole, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    shutil.copy(volumes(split)[1], copy)
    assert contents(read(split, copy, output=tmp_path).folder) == contents(whole)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("change", [lambda data: data[:-7], lambda data: data + b"\0"])
def test_a_volume_of_another_length(split, tmp_path, number, change):
    path = volumes(split)[number]
    path.write_bytes(change(path.read_bytes()))
    refused(Damage, rf"\.tar\.00{number}: expected \d+ bytes, found \d+ bytes", tmp_path, split)


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("place", [0.2, 0.5, 0.999])
def test_a_bad_byte_names_its_volume(split, tmp_path, number, place):
    path = volumes(split)[number]
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 1
    path.write_bytes(data)
    error = refused(Damage, rf"\.tar\.00{number}: expected [0-9a-f]{{64}}", tmp_path, split)
    assert error.mend


def test_a_bad_byte_of_the_manifest(split, tmp_path):
    path = volumes(split)[0]
    path.write_bytes(path.read_bytes().replace(b'"thinking":true', b'"thinking":fals'))
    refused(Damage, "bundle.json: expected [0-9a-f]{64}", tmp_path, split)


def test_a_bad_byte_of_a_whole_archive_names_its_member(whole, tmp_path):
    path = whole / f"{whole.name}.tar"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    refused(Damage, "model/weights.safetensors", tmp_path, whole, volume_size=SIZE)


def test_two_volumes_of_which_one_is_short(tmp_path):
    """Nobody can say which, before it is read."""
    folder, _ = Simulator(model=MODEL).write(tmp_path / "two", volume_size=300_000)
    first, second = volumes(folder)
    data = first.read_bytes()
    first.write_bytes(data[:-9])
    refused(Damage, r"\.tar\.000: expected [0-9a-f]{64}", tmp_path, folder)
    first.write_bytes(data)
    second.write_bytes(second.read_bytes()[:-9])
    refused(Damage, r"\.tar\.001: expected [0-9a-f]{64}", tmp_path, folder)


@pytest.mark.parametrize(
    ("name", "match"),
    [("install.sh", "install.sh: expected [0-9a-f]{64}, found [0-9a-f]{64}")],
)
def test_what_names_the_manifest_is_checked(whole, tmp_path, name, match):
    (whole / name).write_bytes((whole / name).read_bytes() + b"#")
    refused(Damage, match, tmp_path, whole)
    (whole / name).unlink()
    refused(Damage, "install.sh: expected [0-9a-f]{64}, found no such file", tmp_path, whole)


def test_no_bundle(tmp_path):
    refused(UsageError, "no bundle", tmp_path, tmp_path)
    refused(UsageError, "no such file or folder", tmp_path, tmp_path / "nowhere")


def test_volumes_too_small_for_what_install_starts_from(whole, tmp_path):
    refused(UsageError, "the first has to hold", tmp_path, whole, volume_size=1000)


def test_nothing_is_replaced_but_with_force_a_bundle(whole, split, tmp_path):
    before = contents(split)
    with pytest.raises(UsageError, match="exists already"):
        read(whole, output=split.parent, volume_size=SIZE * 2)
    assert contents(split) == before
    read(whole, output=split.parent, volume_size=SIZE * 2, force=True)
    assert len(volumes(split)) < len([name for name in before if ".tar" in name])


@pytest.mark.parametrize("force", [True, False])
def test_a_bundle_is_not_replaced_by_itself(whole, tmp_path, force):
    before = contents(whole)
    with pytest.raises(UsageError, match="the bundle is read from there"):
        read(whole, output=whole.parent, volume_size=SIZE, force=force)
    assert contents(whole) == before


def test_a_signature_is_told_to_be_void(whole, tmp_path):
    (whole / "SHA256SUMS.sig").write_bytes(b"signed")
    made = read(whole, output=tmp_path, volume_size=SIZE)
    (note,) = made.notes
    assert note.startswith("SHA256SUMS.sig: not taken along")
    assert "bundle sign" in note
    assert not (made.folder / "SHA256SUMS.sig").exists()


def test_a_full_disk(whole, tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    error = refused(FilesystemError, "No space left", tmp_path, whole, volume_size=SIZE)
    assert "writing the bundle" in error.what


def test_too_little_room_is_said_before_anything_is_written(whole, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
    refused(FilesystemError, "bytes are free, the bundle takes", tmp_path, whole)


@pytest.mark.parametrize("after", range(0, 400_000, 50_000))
def test_ctrl_c_leaves_nothing(split, tmp_path, after):
    done = 0

    def interrupt(count):
        nonlocal done
        done += count
        if done >= after:
            raise KeyboardInterrupt

    refused(KeyboardInterrupt, None, tmp_path, split, progress=interrupt)
