import shutil
import subprocess
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import archive, volumes
from manifests.audit import audit, prepare
from manifests.digests import chunks
from manifests.errors import BundleError, Damage, SourceError, UsageError
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader
from tests.support.simulator import Simulator

MODEL = {"config.json": b"{}", "weights.safetensors": bytes(range(256)) * 1500}
SIZE = 100_000


@pytest.fixture
def split(tmp_path):
    """A bundle in volumes, its manifest's sha256, and the names of the volumes."""
    folder, digest = Simulator(model=MODEL).write(tmp_path / "media", volume_size=SIZE)
    return folder, digest, sorted(path.name for path in folder.glob("*.tar.*"))


def read(folder, digest="", others=(), **options):
    """Every member, read as an installer reads them."""
    medium = Medium(folder, others, digest)
    with closing(ArchiveStream(medium, **options)) as stream:
        reader = BundleReader(stream, digest)
        contents = {}
        for member in reader.manifest.members:
            with reader.member(member) as data:
                contents[member.path] = data.read()
        reader.finish()
    return contents


def test_volumes_hold_the_same_archive(split, tmp_path):
    folder, digest, names = split
    assert len(names) > 3
    assert all((folder / name).stat().st_size <= SIZE for name in names)
    assert read(folder, digest) == Simulator(model=MODEL).contents()
    whole, _ = Simulator(model=MODEL).write(tmp_path / "whole")
    slices = [(folder / name).read_bytes()[archive.BLOCK :] for name in names]
    assert b"".join(slices) == (whole / f"{whole.name}.tar").read_bytes()
    assert audit(folder).intact


def test_what_fits_is_not_split(tmp_path):
    folder, _ = Simulator().write(tmp_path, volume_size=10 << 20)
    assert [path.name for path in folder.glob("*.tar*")] == [f"{folder.name}.tar"]


def test_tar_reads_the_first_volume(split, tmp_path):
    folder, _, names = split
    command = ["tar", "-xf", folder / names[0], "-C", tmp_path, archive.MANIFEST_NAME]
    subprocess.run(command, capture_output=True, check=False)
    assert (tmp_path / archive.MANIFEST_NAME).read_bytes() == Simulator(
        model=MODEL
    ).manifest().dump()


def test_a_missing_volume_is_named_before_anything_is_read(split):
    folder, digest, names = split
    (folder / names[2]).unlink()
    with pytest.raises(SourceError, match=names[2].replace("+", r"\+")):
        ArchiveStream(Medium(folder, manifest_sha256=digest))
    problems = {(finding.problem, finding.path) for finding in audit(folder).findings}
    assert ("missing", names[2]) in problems


def test_volumes_may_lie_in_several_folders(split, tmp_path):
    folder, digest, names = split
    other = tmp_path / "second disc"
    other.mkdir()
    for name in names[2:]:
        shutil.move(folder / name, other / name)
    assert read(folder, digest, (other,)) == Simulator(model=MODEL).contents()


def test_volumes_may_come_one_medium_after_another(split, tmp_path):
    folder, digest, names = split
    asked = []
    drawer = tmp_path / "drawer"
    drawer.mkdir()
    for name in names[1:]:
        shutil.move(folder / name, drawer / name)

    def put_in(name):
        asked.append(name)
        return drawer

    assert read(folder, digest, next_medium=put_in) == Simulator(model=MODEL).contents()
    assert asked == names[1:]


def test_swapped_volumes_are_named(split):
    folder, digest, names = split
    first, second = folder / names[1], folder / names[2]
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    with pytest.raises(Damage, match=r"\.001: the volume that it is: expected 1 of"):
        ArchiveStream(Medium(folder, manifest_sha256=digest))
    assert not audit(folder).intact


def test_a_volume_of_another_bundle_is_named(split, tmp_path):
    folder, digest, names = split
    foreign = {**MODEL, "config.json": b"[]"}
    other, _ = Simulator(model=foreign).write(tmp_path / "other", volume_size=SIZE)
    shutil.copy(other / names[3], folder / names[3])
    with pytest.raises(Damage, match=r"\.003: the bundle that it belongs to"):
        ArchiveStream(Medium(folder, manifest_sha256=digest))
    assert not audit(folder).intact


def test_a_bad_byte_names_its_volume(split):
    folder, digest, names = split
    path = folder / names[2]
    data = bytearray(path.read_bytes())
    data[5000] ^= 1
    path.write_bytes(data)
    with pytest.raises(Damage, match=names[2].replace("+", r"\+")):
        read(folder, digest)
    named = {finding.path for finding in audit(folder).findings}
    assert named == {names[2], "model/weights.safetensors"}


@pytest.mark.parametrize("change", [lambda data: data[:-1], lambda data: data + b"\0"])
def test_a_volume_of_another_length_is_named(split, change):
    folder, digest, names = split
    path = folder / names[1]
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(Damage, match=r"\.001"):
        read(folder, digest)
    assert names[1] in {finding.path for finding in audit(folder).findings}


def apart(folder, tmp_path, names):
    """A second disc with some of the volumes."""
    disc = tmp_path / "second disc"
    disc.mkdir()
    for name in names:
        shutil.move(folder / name, disc / name)
    return disc


def findings(folder, *discs):
    return {(f.problem, f.path) for f in audit(folder, volumes_in=discs).findings}


def test_an_audit_of_volumes_in_several_folders(split, tmp_path):
    folder, digest, names = split
    whole, counted = audit(folder), []
    disc = apart(folder, tmp_path, names[2:])
    report = audit(folder, counted.append, (disc, folder, disc))
    assert report.intact
    assert (report.size, report.files, report.manifest_sha256) == (
        whole.size,
        whole.files,
        (digest,),
    )
    # Of each volume all but its label.
    size = sum(
        (p / n).stat().st_size - 512 for n in names for p in (folder, disc) if (p / n).exists()
    )
    size += (folder / "install.sh").stat().st_size
    assert sum(counted) == prepare(folder, (disc,)).size == size
    assert findings(folder) == {("missing", name) for name in names[2:]} | {
        ("altered", "the manifest that install.sh names")
    }


def test_an_audit_names_what_is_wrong_on_another_disc(split, tmp_path):
    folder, _, names = split
    disc = apart(folder, tmp_path, names[1:])
    data = bytearray((disc / names[2]).read_bytes())
    data[5000] ^= 1
    (disc / names[2]).write_bytes(data)
    (disc / f"{folder.name}.tar.900").write_bytes(b"stale")
    (disc / "holiday.jpg").write_bytes(b"none of ours")
    assert findings(folder, disc) == {
        ("altered", names[2]),
        ("altered", "model/weights.safetensors"),
        ("extra", str(disc / f"{folder.name}.tar.900")),
    }


def test_an_audit_of_a_link_on_another_disc(split, tmp_path):
    folder, _, names = split
    disc = apart(folder, tmp_path, names[1:])
    (disc / names[1]).rename(disc / "elsewhere")
    (disc / names[1]).symlink_to("elsewhere")
    assert findings(folder, disc) == {("link", str(disc / names[1]))}


def test_an_audit_hashes_second_copies_too(split, tmp_path):
    folder, _, names = split
    disc = tmp_path / "copy"
    disc.mkdir()
    shutil.copy(folder / names[1], disc)
    assert findings(folder, disc) == set()
    (disc / names[1]).write_bytes(b"other")
    assert findings(folder, disc) == {("altered", str(disc / names[1]))}


def test_an_installation_has_no_volumes(tmp_path):
    (tmp_path / "state/receipts").mkdir(parents=True)
    with pytest.raises(UsageError, match="has no volumes"):
        audit(tmp_path, volumes_in=(tmp_path,))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([1512, 1512, 1512, 1012], [1512, 1512, 1512, 1012]),
        ([1512, None, 1512, None], [1512, 1512, 1512, 1012]),
        ([None, None, None, 1012], [1512, 1512, 1512, 1012]),
        ([1512, 1400, 1512, 1012], [1512, 1512, 1512, 1012]),
        ([1400, 1512, 1512, 1], [1512, 1512, 1512, 1012]),
        ([1512, 1512, 1512, 1513], [1512, 1512, 1512, 1012]),
        ([None, None, None, None], None),
        ([4012], None),
    ],
)
def test_lengths_are_those_of_most_volumes(found, expected):
    assert volumes.lengths(3500, found) == expected


def test_of_two_volumes_nobody_can_say_which_is_wrong():
    assert volumes.lengths(1500, [1512, 1012]) == [1512, 1012]
    assert volumes.lengths(1500, [1512, 1011]) is None
    assert volumes.lengths(1500, [1511, 1012]) is None


@given(st.integers(2, 9), st.integers(1, 5000), st.data())
def test_lengths_of_what_was_written(count, full, data):
    last = data.draw(st.integers(1, full))
    sizes = [*[full + archive.BLOCK] * (count - 1), last + archive.BLOCK]
    found = [size if data.draw(st.booleans()) else None for size in sizes]
    answer = volumes.lengths(full * (count - 1) + last, found)
    assert answer == sizes or (answer is None and not any(found))


def test_skipping_crosses_volumes(split):
    folder, digest, _ = split
    with closing(ArchiveStream(Medium(folder, manifest_sha256=digest))) as stream:
        reader = BundleReader(stream, digest)
        for member in reader.manifest.members[:-1]:
            reader.skip(member)
        with reader.member(reader.manifest.members[-1]) as data:
            assert data.read() == MODEL["weights.safetensors"]
        reader.finish()


def test_stale_volumes_of_an_earlier_run_are_not_read(split):
    folder, digest, _ = split
    (folder / f"{folder.name}.tar.900").write_bytes(b"stale")
    assert read(folder, digest) == Simulator(model=MODEL).contents()
    (finding,) = audit(folder).findings
    assert (finding.problem, finding.path) == ("extra", f"{folder.name}.tar.900")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("fat32", 4294967295),
        ("4000M", 4_000_000_000),
        ("4GiB", 4 << 30),
        ("700 MB", 700_000_000),
        ("100000", 100_000),
    ],
)
def test_sizes(text, size):
    assert volumes.parse_size(text) == size


@given(st.text(max_size=12))
def test_any_other_size_is_refused_with_a_mend(text):
    try:
        assert volumes.parse_size(text) >= volumes.SMALLEST
    except UsageError as error:
        assert error.mend


@given(st.binary(min_size=512, max_size=512))
def test_any_block_is_a_label_or_refused(block):
    with pytest.raises(BundleError):
        volumes.parse_label(block, "x.tar.000")


@given(st.integers(0, 999), st.integers(1, 999), st.integers(0, 2**33 - 1))
def test_labels_round_trip(number, count, mtime):
    label = volumes.Label("name.tar", number, count, "ab" * 32)
    assert volumes.parse_label(label.block(mtime), label.filename) == label


def test_too_many_volumes_are_refused():
    with pytest.raises(UsageError, match="volumes of"):
        volumes.count_for(10**12, volumes.SMALLEST)


def test_an_archive_in_one_piece_is_read_to_its_end(tmp_path):
    folder, _ = Simulator().write(tmp_path)
    path = folder / f"{folder.name}.tar"
    with closing(ArchiveStream(Medium(folder))) as stream:
        assert sum(len(view) for view in chunks(stream)) == path.stat().st_size
