"""What parity survives, what it does not, and that it is never believed."""

import errno
import os
import resource
import shutil
import threading
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manifests import sums
from manifests.bundle import digest_of
from manifests.errors import FilesystemError, IntegrityError, UsageError
from manifests.medium import INSTALLER
from manifests.parity import advice, front, restore, scheme
from manifests.parity.codec import Codec
from manifests.parity.names import RESTORER
from manifests.parity.scheme import DIGEST_SIZE, ROWS, Protected, Scheme, Spare
from manifests.parity.shelf import Shelf
from manifests.reader import COPY_AGAIN
from tests.support.damage import Medium, bundle_with_parity, tree

NAME = "tiny+stack+cpu"
ARCHIVE, PARITY, HEAD = f"{NAME}.tar", f"{NAME}.parity", f"{NAME}.head"
PERCENT = 5
few = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    return bundle_with_parity(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def in_volumes(tmp_path_factory) -> Path:
    """12 volumes with parity of 10 %: one of them may be lost."""
    return bundle_with_parity(
        tmp_path_factory.mktemp("volumes"), 10, volume_size=70_000, size=800_000
    )


@pytest.fixture
def medium(whole, tmp_path) -> Medium:
    return Medium.of(whole, tmp_path / "medium")


def assert_mended(medium: Medium, target: Path, **options) -> restore.Restored:
    done = medium.restored(target, **options)
    assert tree(target) == tree(medium.source)
    assert [path.name for path in target.parent.iterdir() if "partial" in path.name] == []
    return done


def assert_lost(medium: Medium, target: Path, match: str, **options) -> IntegrityError:
    before = sorted(target.parent.iterdir())
    with pytest.raises(IntegrityError, match=match) as caught:
        medium.restored(target, **options)
    assert sorted(target.parent.iterdir()) == before
    return caught.value


# ── the code ──────────────────────────────────────────────────────────────────────────────────────


@few
@given(
    data=st.data(),
    parity=st.integers(1, 9),
    block=st.sampled_from([2048, 4096, 128 << 10]),
    seed=st.binary(min_size=8, max_size=8),
)
def test_any_rows_of_a_column_may_be_missing_as_many_as_there_is_parity(data, parity, block, seed):
    codec = Codec(ROWS, parity, block)
    rows = [(seed + bytes([row])) * (block // 9 + 1) for row in range(ROWS)]
    rows = [row[:block] for row in rows]
    column = dict(enumerate([*rows, *codec.encode(rows)]))
    missing = sorted(  # of few and of many, of data and of parity
        data.draw(st.sets(st.integers(0, ROWS + parity - 1), min_size=1, max_size=parity))
    )
    known = {row: block for row, block in column.items() if row not in missing}
    assert codec.rebuild(known, missing) == [column[row] for row in missing]


def test_parity_depends_on_the_bytes_at_a_place_alone():
    """So that coding in slices is coding; the width is not part of the format."""
    codec, narrow = Codec(ROWS, 3, 128 << 10), Codec(ROWS, 3, 64 << 10)
    rows = [bytes([row]) * (64 << 10) + bytes([row ^ 0xFF]) * (64 << 10) for row in range(ROWS)]
    halves = [narrow.encode([row[at : at + (64 << 10)] for row in rows]) for at in (0, 64 << 10)]
    assert codec.encode(rows) == [first + second for first, second in zip(*halves, strict=True)]


# ── what is survived ──────────────────────────────────────────────────────────────────────────────


@few
@given(data=st.data())
def test_damage_within_the_limit_of_each_column_is_mended(data, whole, tmp_path):
    medium = Medium.of(whole, tmp_path / "medium")
    layout = medium.scheme
    lost = set()
    for column in data.draw(st.sets(st.integers(0, layout.columns - 1), min_size=1)):
        rows = data.draw(st.sets(st.integers(0, ROWS + PERCENT - 1), max_size=PERCENT))
        lost |= {n for row in rows if (n := layout.at(row, column)) is not None}
    medium.lose(*lost)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    done = assert_mended(medium, tmp_path / "out")
    assert done.rebuilt == len(lost)


@few
@given(data=st.data())
def test_a_hole_of_the_promised_size_is_mended_wherever_it_is(data, whole, tmp_path):
    medium = Medium.of(whole, tmp_path / "medium")
    layout = medium.scheme
    size = (PERCENT * layout.columns - 1) * layout.block + 1
    offset = data.draw(st.integers(0, (medium.folder / ARCHIVE).stat().st_size - 1))
    medium.overwrite(ARCHIVE, offset, size)
    shutil.rmtree(tmp_path / "out", ignore_errors=True)
    assert_mended(medium, tmp_path / "out")


@pytest.mark.parametrize("name", [ARCHIVE, PARITY, HEAD, INSTALLER, RESTORER])
@pytest.mark.parametrize("where", ["start", "middle", "end"])
def test_damage_at_either_end_of_any_file_is_mended(medium, tmp_path, name, where):
    size = (medium.folder / name).stat().st_size
    offset = {"start": 0, "middle": size // 2, "end": max(0, size - 3000)}[where]
    medium.overwrite(name, offset, 3000)
    assert_mended(medium, tmp_path / "out")


@pytest.mark.parametrize("name", [HEAD, INSTALLER, RESTORER, sums.FILE_NAME, sums.COPY_NAME])
def test_a_small_file_may_be_missing(medium, tmp_path, name):
    (medium.folder / name).unlink()
    assert_mended(medium, tmp_path / "out")


def test_all_of_the_parity_may_be_missing_where_one_header_is_left(medium, tmp_path):
    layout = medium.scheme
    os.truncate(medium.folder / PARITY, layout.front)
    done = assert_mended(medium, tmp_path / "out")
    assert done.damaged == (PARITY,)


def test_what_has_a_twin_costs_no_parity(medium, tmp_path):
    """The largest hole, and besides the start of the archive and install.sh."""
    layout = medium.scheme
    assert layout.head >= layout.block
    medium.overwrite(ARCHIVE, 20 * layout.block, (PERCENT * layout.columns - 1) * layout.block + 1)
    medium.overwrite(ARCHIVE, 0, layout.block)
    medium.overwrite(INSTALLER, 0, 20_000)
    done = assert_mended(medium, tmp_path / "out")
    assert done.damaged == (ARCHIVE, INSTALLER)


def test_archive_and_parity_may_be_damaged_together(medium, tmp_path):
    layout = medium.scheme
    medium.overwrite(ARCHIVE, 0, 2 * layout.columns * layout.block)
    medium.overwrite(PARITY, 0, layout.front + 2 * layout.columns * layout.block)
    assert_mended(medium, tmp_path / "out")


def test_a_leaf_of_the_table_may_be_damaged_in_one_copy(medium, tmp_path):
    layout = medium.scheme
    medium.overwrite(PARITY, layout.front - 40, 40)
    medium.overwrite(ARCHIVE, 0, layout.block)
    assert_mended(medium, tmp_path / "out")


def test_whole_media_are_copied_unchanged(medium, tmp_path):
    done = assert_mended(medium, tmp_path / "out")
    assert (done.rebuilt, done.damaged) == (0, ())


def test_a_cut_off_archive_is_mended(medium, tmp_path):
    layout = medium.scheme
    path = medium.folder / ARCHIVE
    os.truncate(path, path.stat().st_size - (PERCENT * layout.columns - 1) * layout.block)
    assert_mended(medium, tmp_path / "out")


def test_bytes_after_the_end_are_left_out(medium, tmp_path):
    with (medium.folder / ARCHIVE).open("ab") as out:
        out.write(b"more")
    assert_mended(medium, tmp_path / "out")


def test_a_lost_volume_is_mended(in_volumes, tmp_path):
    volumes = sorted(path.name for path in in_volumes.iterdir() if ".tar." in path.name)
    assert len(volumes) == 12
    for name in (volumes[0], volumes[5], volumes[-1]):
        medium = Medium.of(in_volumes, tmp_path / f"without-{name}")
        (medium.folder / name).unlink()
        done = assert_mended(medium, tmp_path / f"out-{name}")
        assert done.damaged == (name,)


def test_a_lost_file_of_parity_and_a_scratch_are_mended(in_volumes, tmp_path):
    spares = sorted(path.name for path in in_volumes.iterdir() if ".parity." in path.name)
    assert len(spares) > 1
    for name in spares:
        medium = Medium.of(in_volumes, tmp_path / f"without-{name}")
        (medium.folder / name).unlink()
        medium.overwrite(f"{ARCHIVE}.003", 0, 3000)
        assert_mended(medium, tmp_path / f"out-{name}")


def test_two_damaged_copies_mend_each_other(medium, tmp_path):
    other = Medium.of(medium.source, tmp_path / "second")
    half = (medium.folder / ARCHIVE).stat().st_size // 2
    medium.overwrite(ARCHIVE, 0, half)
    other.overwrite(ARCHIVE, half, half + 1)
    medium.restored(tmp_path / "out", other.folder)
    assert tree(tmp_path / "out") == tree(medium.source)


def test_volumes_may_lie_apart_and_be_asked_for(in_volumes, tmp_path):
    medium = Medium.of(in_volumes, tmp_path / "first")
    away = tmp_path / "away"
    away.mkdir()
    for number in range(3, 9):
        (medium.folder / f"{ARCHIVE}.{number:03}").rename(away / f"{ARCHIVE}.{number:03}")
    asked = []

    def next_medium(name: str) -> Path:
        asked.append(name)
        return away

    with closing(Shelf([medium.folder], next_medium)) as shelf:
        restore.restore(shelf, restore.find(shelf), tmp_path / "out")
    assert tree(tmp_path / "out") == tree(in_volumes)
    assert asked == [f"{ARCHIVE}.003"]


def open_below(folder: Path) -> list[str]:
    """The files of a folder that this process holds open."""
    found = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the listing's own
            found.append(str(handle.readlink()))
    return [path for path in found if path.startswith(f"{folder}/")]


def test_one_drive_and_two_discs(in_volumes, tmp_path):
    """Nothing is open when a disc is asked for, or the drive could not be opened."""
    drive, first, second = (tmp_path / name for name in ("drive", "first", "second"))
    shutil.copytree(in_volumes, drive)
    (drive / "SHA256SUMS.sig").write_bytes(b"signed")
    second.mkdir()
    for number in range(3, 9):
        (drive / f"{ARCHIVE}.{number:03}").rename(second / f"{ARCHIVE}.{number:03}")
    asked = []

    def next_medium(name: str) -> Path:
        assert open_below(drive) == []
        asked.append(name)
        away = second if second.exists() else first
        drive.rename(first if away == second else second)
        away.rename(drive)
        return drive

    with closing(Shelf([drive], next_medium)) as shelf:
        restore.restore(shelf, restore.find(shelf), tmp_path / "out")
    restored = tree(tmp_path / "out")
    assert restored.pop("SHA256SUMS.sig")[1] == b"signed"
    assert restored == tree(in_volumes)
    assert asked == [f"{ARCHIVE}.003", f"{ARCHIVE}.009"]


@pytest.mark.parametrize("error", [5, 61, 123])  # EIO, ENODATA, ENOMEDIUM
def test_sectors_that_cannot_be_read_are_rebuilt(medium, tmp_path, monkeypatch, error):
    layout, real = medium.scheme, os.pread
    bad = range(layout.block, (PERCENT * layout.columns - 1) * layout.block)

    def pread(handle: int, size: int, offset: int) -> bytes:
        path = Path(f"/proc/self/fd/{handle}").readlink()
        if path == medium.folder / ARCHIVE and offset < bad.stop and offset + size > bad.start:
            raise OSError(error, os.strerror(error))
        return real(handle, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    done = medium.restored(tmp_path / "out")
    monkeypatch.undo()
    assert done.damaged == (ARCHIVE,)
    assert tree(tmp_path / "out") == tree(medium.source)


def test_signatures_are_taken_along(medium, tmp_path):
    (medium.folder / "SHA256SUMS.sig").write_bytes(b"signed")
    medium.overwrite(ARCHIVE, 0, 10)
    medium.restored(tmp_path / "out")
    assert (tmp_path / "out/SHA256SUMS.sig").read_bytes() == b"signed"


# ── what is not ───────────────────────────────────────────────────────────────────────────────────


@few
@given(data=st.data())
def test_one_block_more_in_a_column_is_named_and_leaves_nothing(data, whole, tmp_path):
    medium = Medium.of(whole, tmp_path / "medium")
    layout = medium.scheme
    column = data.draw(st.integers(0, layout.columns - 1))
    existing = [n for row in range(ROWS + PERCENT) if (n := layout.at(row, column)) is not None]
    lost = data.draw(
        st.lists(st.sampled_from(existing), unique=True, min_size=PERCENT + 1, max_size=PERCENT + 4)
    )
    medium.lose(*lost)
    error = assert_lost(medium, tmp_path / "out", "too much is lost")
    for number in lost:
        run = layout.run(number)
        starts = [f for f in error.findings if f.startswith(f"{run.name}: bytes ")]
        assert any(_covers(finding, run.offset) for finding in starts)


def _covers(finding: str, offset: int) -> bool:
    start, _, end = finding.partition(": bytes ")[2].replace(",", "").partition(" to ")
    return int(start) <= offset <= int(end)


def test_many_places_are_not_all_listed(medium, tmp_path):
    layout = medium.scheme
    medium.lose(*range(0, layout.data_blocks, 2))
    error = assert_lost(medium, tmp_path / "out", "too much is lost")
    assert error.findings[-1].startswith("and ")
    assert len(error.findings) == 21


def test_parity_without_a_header_is_none(medium, tmp_path):
    layout = medium.scheme
    size = (medium.folder / PARITY).stat().st_size
    medium.overwrite(PARITY, 0, 100)
    medium.overwrite(PARITY, size - 100, 100)
    assert layout.front > 100
    assert_lost(medium, tmp_path / "out", "no header of the parity can be read")


def test_a_medium_without_parity_says_so(medium, tmp_path):
    (medium.folder / PARITY).unlink()
    with pytest.raises(UsageError, match="has no parity"):
        medium.restored(tmp_path / "out")


def test_what_exists_is_not_written_over(medium, tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        medium.restored(tmp_path / "out")


@pytest.mark.parametrize("through_link", [False, True])
def test_the_damaged_medium_is_not_written_to(medium, tmp_path, through_link):
    place = medium.folder
    if through_link:
        place = tmp_path / "link"
        place.symlink_to(medium.folder)
    before = tree(medium.folder)
    with pytest.raises(UsageError, match="lies on the medium"):
        medium.restored(place / "out")
    assert tree(medium.folder) == before


def test_a_folder_below_links_in_a_circle_is_an_error_of_the_user(medium, tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="in a circle"):
        medium.restored(tmp_path / "loop/out")
    assert (tmp_path / "loop").is_symlink()


def test_two_runs_with_one_target(medium, tmp_path):
    refused = []

    def progress(_count: int) -> None:
        if not refused:
            with pytest.raises(UsageError, match="is writing there") as caught:
                medium.restored(tmp_path / "out")
            refused.append(caught.value)

    medium.overwrite(ARCHIVE, 0, 5000)
    with closing(Shelf([medium.folder])) as shelf:
        restore.restore(shelf, restore.find(shelf), tmp_path / "out", progress=progress)
    assert len(refused) == 1
    assert tree(tmp_path / "out") == tree(medium.source)


def test_an_interrupted_run_leaves_no_thread(medium, tmp_path):
    def interrupt(_count: int) -> None:
        raise KeyboardInterrupt

    before = set(threading.enumerate())
    with closing(Shelf([medium.folder])) as shelf, pytest.raises(KeyboardInterrupt):
        restore.restore(shelf, restore.find(shelf), tmp_path / "out", progress=interrupt)
    assert set(threading.enumerate()) <= before


def test_a_process_without_handles_calls_nothing_missing(medium):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(Shelf([medium.folder])) as shelf:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(OSError, match="Too many open files") as caught:
                shelf.sizes(ARCHIVE)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert caught.value.errno == errno.EMFILE
        assert shelf.sizes(ARCHIVE) == [(medium.folder / ARCHIVE).stat().st_size]


def test_what_a_killed_run_left_is_replaced(medium, tmp_path):
    left = tmp_path / ".out.partial"
    left.mkdir()
    (left / ARCHIVE).write_bytes(b"half")
    assert_mended(medium, tmp_path / "out")


def test_a_full_disk_is_told_before_anything_is_read(medium, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    with pytest.raises(FilesystemError, match="1,000 bytes are free"):
        medium.restored(tmp_path / "out")
    assert not (tmp_path / ".out.partial").exists()


# ── what is believed ──────────────────────────────────────────────────────────────────────────────


def lying(medium: Medium, *, list_too: bool = False) -> None:
    """The archive altered, and a parity file whose digests say that it is right."""
    layout = medium.scheme
    medium.overwrite(ARCHIVE, 5000, 1)
    with closing(Shelf([medium.folder])) as shelf:
        table = front.read_table(shelf, layout)
    archive = (medium.folder / ARCHIVE).read_bytes()
    number = 5000 // layout.block
    block = archive[number * layout.block :][: layout.block]
    table.put(number, bytes.fromhex(digest_of(block)))
    files = tuple(
        Protected(file.name, file.size, digest_of(archive) if file.name == ARCHIVE else file.sha256)
        for file in layout.files
    )
    data = table.dump()
    changed = Scheme(
        layout.schema,
        layout.parity,
        layout.block,
        files,
        layout.head,
        layout.spares,
        layout.front,
        front.leaves_of(data),
    )
    start, end = front.render(changed, data)
    raw = (medium.folder / PARITY).read_bytes()
    raw = start + raw[len(start) : -len(end)] + end
    (medium.folder / PARITY).write_bytes(raw)
    if list_too:
        listed = sums.parse((medium.source / sums.FILE_NAME).read_bytes())
        listed |= {ARCHIVE: digest_of(archive), PARITY: digest_of(raw)}
        for name in (sums.FILE_NAME, sums.COPY_NAME):
            (medium.folder / name).write_bytes(sums.render(listed))


def test_parity_that_lies_does_not_make_a_wrong_bundle_pass(medium, tmp_path):
    lying(medium)
    error = assert_lost(medium, tmp_path / "out", "does not name what was restored")
    assert any(finding.startswith(f"{ARCHIVE}: listed is ") for finding in error.findings)


def test_nor_does_it_with_a_list_that_is_not_the_trusted_one(medium, tmp_path):
    trusted = digest_of((medium.source / sums.FILE_NAME).read_bytes())
    lying(medium, list_too=True)
    assert_lost(medium, tmp_path / "out", "SHA256SUMS of what was restored", trusted=trusted)


def test_a_trusted_digest_stands_in_for_both_lists(medium, tmp_path):
    trusted = digest_of((medium.source / sums.FILE_NAME).read_bytes())
    medium.overwrite(ARCHIVE, 0, 5000)
    for name in (sums.FILE_NAME, sums.COPY_NAME):
        medium.overwrite(name, 0, 100)
    assert_lost(medium, tmp_path / "out", "neither does its copy")
    assert_mended(medium, tmp_path / "out", trusted=trusted)


def test_parity_of_two_bundles_is_told_apart(medium, tmp_path):
    other = bundle_with_parity(tmp_path / "other", size=200_000)
    with pytest.raises(IntegrityError, match="parity of 2 bundles"):
        medium.restored(tmp_path / "out", other)


def test_links_on_the_medium_are_not_followed(medium, tmp_path):
    layout = medium.scheme
    (medium.folder / INSTALLER).unlink()
    (medium.folder / INSTALLER).symlink_to(medium.source / INSTALLER)
    os.mkfifo(medium.folder / "SHA256SUMS.sig")
    done = assert_mended(medium, tmp_path / "out")
    assert done.damaged == (INSTALLER,)
    assert layout.files[-1].name == INSTALLER


# ── the format ────────────────────────────────────────────────────────────────────────────────────


def test_a_header_is_read_as_it_was_written(whole):
    with closing(Shelf([whole])) as shelf:
        layout = restore.find(shelf)
    assert scheme.parse(layout.dump()) == layout
    assert layout.files[0].name == ARCHIVE
    assert len({layout.place(n) for n in range(layout.blocks)}) == layout.blocks
    assert all(layout.at(*layout.place(n)) == n for n in range(layout.blocks))
    runs = [run for extent in layout.extents for run in extent.runs()]
    assert [run.number for run in runs] == list(range(layout.blocks))
    assert all(layout.run(run.number) == run for run in runs)


@few
@given(data=st.data())
def test_no_header_makes_the_reader_fail_in_another_way(data, whole):
    with closing(Shelf([whole])) as shelf:
        raw = bytearray(restore.find(shelf).dump())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at] = data.draw(st.integers(32, 126))
    with suppress(IntegrityError):
        scheme.parse(bytes(raw))


def good() -> Scheme:
    files = (Protected("a.tar", 5000, "0" * 64), Protected(INSTALLER, 10, "1" * 64))
    spares = (Spare("a.parity", 0, 2),)
    return Scheme(1, 2, 2048, files, 100, spares, 4096, ("2" * 64,))


@pytest.mark.parametrize(
    "change",
    [
        {"schema": 2},
        {"parity": 0},
        {"parity": 101},
        {"block": 2047},
        {"block": 1 << 30},
        {"files": ()},
        {"files": (Protected("a.tar", 5000, "0" * 64),)},
        {"files": (Protected("../a.tar", 5000, "0" * 64), *good().files[1:])},
        {"files": (Protected(sums.FILE_NAME, 5000, "0" * 64), *good().files[1:])},
        {"files": (Protected("Install.sh", 5000, "0" * 64), *good().files[1:])},
        {"files": (Protected("a.tar", 1 << 62, "0" * 64), *good().files[1:])},
        {"files": (Protected("a.tar", 5000, "x"), *good().files[1:])},
        {"files": (Protected("a.tar", 0, "0" * 64), *good().files[1:])},
        {"head": 0},
        {"head": 5001},
        {"spares": ()},
        {"spares": (Spare("a.parity", 1, 2),)},
        {"spares": (Spare("a.parity", 0, 1),)},
        {"spares": (Spare("restore.sh", 0, 2),)},
        {"front": 0},
        {"leaves": ()},
    ],
    ids=str,
)
def test_headers_that_no_honest_packer_writes_are_refused(change):
    assert scheme.parse(good().dump()) == good()
    with pytest.raises(IntegrityError, match="the header of the parity"):
        scheme.parse(replace(good(), **change).dump())


@pytest.mark.parametrize("size", [100, 100_000, 1 << 50])
def test_a_front_of_another_size_than_it_needs_is_refused(size):
    """The zeros in it would be made in memory."""
    front.check_room(good())
    with pytest.raises(IntegrityError, match=f"a front of {size} bytes"):
        front.check_room(replace(good(), front=size))


@pytest.mark.parametrize(
    ("length", "block"),
    [(1, 2048), (10 << 20, 2048), (1 << 30, 256 << 10), (100 << 30, 256 << 10)],
)
def test_blocks_grow_with_the_archive(length, block):
    assert scheme.block_size(length) == block


def test_a_table_knows_what_it_was_given():
    table = front.Table(2000)
    assert table.digest(1500) is None
    for number in range(2000):
        table.put(number, bytes([number % 256]) * DIGEST_SIZE)
    assert table.digest(1500) == bytes([1500 % 256]) * DIGEST_SIZE
    assert len(table.dump()) == 2000 * DIGEST_SIZE


# ── what other messages say ───────────────────────────────────────────────────────────────────────


def test_damage_is_told_with_the_command_that_mends_it(medium):
    with pytest.raises(IntegrityError) as caught, advice.given(medium.folder):
        raise IntegrityError("something", mend=COPY_AGAIN)
    assert "restore --to" in caught.value.mend
    with pytest.raises(FilesystemError) as unread, advice.given(medium.folder):
        raise FilesystemError("something") from OSError(5, "Input/output error")
    assert "restore --to" in unread.value.mend
    with pytest.raises(UsageError) as other, advice.given(medium.folder):
        raise UsageError("something", mend="else")
    assert other.value.mend == "else"
    (medium.folder / PARITY).unlink()
    with pytest.raises(IntegrityError) as plain, advice.given(medium.folder):
        raise IntegrityError("something", mend=COPY_AGAIN)
    assert plain.value.mend == COPY_AGAIN
