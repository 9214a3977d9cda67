"""Making parity: of finished bundles alone, the same bytes each time, and nothing half done."""

import shutil
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler import media, parity
from bundler.carried import look
from bundler.paritylayout import with_spares
from bundler.resplit import resplit
from manifests import audit, medium, sums
from manifests.errors import Damage, FilesystemError, IntegrityError, UsageError
from manifests.parity import front, scheme
from manifests.parity.names import RESTORER, beside, spare_names
from manifests.parity.scheme import Protected, Scheme
from tests.support.damage import bundle_with_parity, simulator, tree
from tests.support.simulator import Simulator

NAME = "tiny+stack+cpu"
ARCHIVE, PARITY, HEAD = f"{NAME}.tar", f"{NAME}.parity", f"{NAME}.head"


@pytest.fixture
def folder(tmp_path):
    return simulator().write(tmp_path)[0]


def test_what_lies_beside_a_bundle_with_parity(folder):
    before = tree(folder)
    made = parity.add(folder, 5)
    after = tree(folder)
    assert after.keys() - before.keys() == {PARITY, HEAD, RESTORER, sums.COPY_NAME}
    assert {name: after[name] for name in before if name != sums.FILE_NAME} == {
        name: value for name, value in before.items() if name != sums.FILE_NAME
    }
    assert after[RESTORER] == after["install.sh"]
    assert after[sums.COPY_NAME] == after[sums.FILE_NAME]
    assert after[ARCHIVE][1].startswith(after[HEAD][1])
    assert set(sums.parse(after[sums.FILE_NAME][1])) == {
        *before.keys() - {sums.FILE_NAME},
        PARITY,
        HEAD,
        RESTORER,
    }
    assert made.size == sum(len(after[name][1]) for name in made.files)
    assert audit.audit(folder).intact


def test_making_it_again_gives_the_same_bytes(folder):
    parity.add(folder, 5)
    first = tree(folder)
    parity.add(folder, 5)
    assert tree(folder) == first
    parity.add(folder, 9)
    assert len(tree(folder)[PARITY][1]) > len(first[PARITY][1])
    parity.add(folder, 5)
    assert tree(folder) == first


def test_parity_costs_what_it_says(tmp_path):
    folder = bundle_with_parity(tmp_path, 5, 30_000_000)
    whole, extra = ((folder / name).stat().st_size for name in (ARCHIVE, PARITY))
    assert 0.05 * whole < extra < 0.065 * whole


def test_volumes_get_parity_in_files_that_fit(tmp_path):
    folder = bundle_with_parity(tmp_path, 20, 800_000, volume_size=70_000)
    names = sorted(path.name for path in folder.iterdir() if ".parity" in path.name)
    assert names == [f"{PARITY}.{number:03}" for number in range(len(names))]
    assert len(names) > 1
    assert max((folder / name).stat().st_size for name in names) <= 70_000
    parity.add(folder, 1)
    left = sorted(path.name for path in folder.iterdir() if ".parity" in path.name)
    assert len(left) < len(names)
    assert audit.audit(folder).intact


@settings(max_examples=12)
@given(size=st.integers(1, 1 << 36), rows=st.integers(1, 100), share=st.integers(1, 2000))
def test_any_volume_size_is_kept_or_refused(size, rows, share):
    files = (Protected(f"{ARCHIVE}.000", size, "0" * 64),)
    plan = Scheme(1, rows, scheme.block_size(size), files, 1)
    limit = max(64 << 10, size // share)
    try:
        laid = with_spares(plan, limit)
    except UsageError:
        return
    spares = [extent for extent in laid.extents if extent.start]
    assert max(extent.size for extent in spares) <= limit
    assert sum(extent.count for extent in spares) == laid.parity * laid.columns
    assert [extent.name for extent in spares] == spare_names(files[0].name, len(spares))
    leaves = ("0" * 64,) * -(-laid.blocks // scheme.LEAF)
    front.check_room(replace(laid, leaves=leaves))


def test_a_damaged_bundle_gets_none(folder):
    before = tree(folder)
    data = bytearray((folder / ARCHIVE).read_bytes())
    data[100_000] ^= 1
    (folder / ARCHIVE).write_bytes(data)
    with pytest.raises(Damage) as caught:
        parity.add(folder, 5)
    assert caught.value.path == ARCHIVE
    assert tree(folder).keys() == before.keys()


def test_bytes_that_change_meanwhile_are_noticed(folder, monkeypatch):
    def change(_count: int) -> None:
        with (folder / ARCHIVE).open("r+b") as out:
            out.seek(100_000)
            out.write(b"other")

    before = tree(folder).keys()
    seen = []

    def progress(count: int) -> None:
        seen.append(count)
        if sum(seen) > (folder / ARCHIVE).stat().st_size:  # the second pass
            change(count)

    with pytest.raises(IntegrityError, match="changed while parity was made"):
        parity.add(folder, 5, progress)
    assert tree(folder).keys() == before


@pytest.mark.parametrize("share", [0.0, 0.5, 1.1, 1.9])
def test_an_interrupt_leaves_the_bundle_as_it_was(folder, share):
    before, done = tree(folder), 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        if done >= share * parity.reads(folder) / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parity.add(folder, 5, progress)
    assert tree(folder) == before


def test_a_run_that_was_killed_is_made_good_by_the_next(folder):
    parity.add(folder, 5)
    good = tree(folder)
    (folder / sums.FILE_NAME).write_bytes(
        sums.render(
            {
                name: digest
                for name, digest in sums.parse(good[sums.FILE_NAME][1]).items()
                if not beside(name)
            }
        )
    )
    for name in (PARITY, f"{PARITY}.007"):
        (folder / f".{name}.partial").write_bytes(b"half")
    (folder / sums.COPY_NAME).unlink()
    parity.add(folder, 5)
    assert tree(folder) == good


def test_files_that_only_look_like_parity_stay(folder):
    """Of another bundle that lies in the same folder, or anybody's."""
    for name in ("other.parity", "other.parity.000", "other.head", f"{NAME}.more.head"):
        (folder / name).write_bytes(b"another's")
    (folder / f"{PARITY}.003").write_bytes(b"of earlier parity")
    parity.add(folder, 5)
    left = {path.name for path in folder.iterdir() if path.read_bytes() == b"another's"}
    assert left == {"other.parity", "other.parity.000", "other.head", f"{NAME}.more.head"}
    assert not (folder / f"{PARITY}.003").exists()


def test_no_bundle_is_an_error_of_the_user(tmp_path):
    assert parity.reads(tmp_path / "nope") == 0
    with pytest.raises(UsageError, match="nope"):
        parity.add(tmp_path / "nope", 5)


def test_signatures_of_the_old_list_are_removed_and_that_is_said(folder):
    (folder / "SHA256SUMS.sig").write_bytes(b"old")
    made = parity.add(folder, 5)
    assert not (folder / "SHA256SUMS.sig").exists()
    assert "sign again" in made.notes[0]


def test_a_bundle_whose_runtime_cannot_restore_gets_none(tmp_path):
    folder, _ = Simulator().write(tmp_path)
    before = tree(folder)
    with pytest.raises(UsageError, match="can't restore"):
        parity.add(folder, 5)
    assert tree(folder) == before


def test_a_missing_volume_is_named(tmp_path):
    folder, _ = simulator().write(tmp_path, volume_size=100_000)
    (folder / f"{ARCHIVE}.001").unlink()
    with pytest.raises(UsageError, match=r"tar\.001: missing"):
        parity.add(folder, 5)


@pytest.mark.parametrize(("text", "rows"), [("5%", 5), ("5", 5), (" 100 % ", 100), ("1%", 1)])
def test_percentages(text, rows):
    assert parity.parse_percent(text) == rows


@pytest.mark.parametrize(
    "text", ["", "0", "0%", "101%", "-5", "5.5%", "five", "\N{ARABIC-INDIC DIGIT FIVE}%", "5%%"]
)
def test_percentages_that_are_none(text):
    with pytest.raises(UsageError, match="parity of"):
        parity.parse_percent(text)


def test_split_leaves_parity_behind_and_says_so(tmp_path):
    folder = bundle_with_parity(tmp_path)
    written = resplit(look(medium.vouched(folder)), tmp_path / "split", 100_000)
    assert not any(beside(path.name) for path in written.folder.iterdir())
    assert not (written.folder / sums.COPY_NAME).exists()
    assert written.notes == (
        "the parity was not taken along; it was made for the old files, so make it anew with "
        "`bundle parity`",
    )
    parity.add(written.folder, 5)
    assert audit.audit(written.folder).intact


def test_a_bundle_with_parity_is_replaced_like_any_other(tmp_path):
    folder = bundle_with_parity(tmp_path)
    media.check_new(folder, force=True)


@pytest.mark.parametrize("name", [PARITY, HEAD, RESTORER, sums.COPY_NAME])
@pytest.mark.parametrize("how", ["alter", "remove", "link"])
def test_an_audit_covers_what_restoring_needs(tmp_path, name, how):
    folder = bundle_with_parity(tmp_path)
    path = folder / name
    if how == "alter":
        path.write_bytes(path.read_bytes()[:-1] + b"\0\0")
    elif how == "remove":
        path.unlink()
    else:
        shutil.move(path, tmp_path / name)
        path.symlink_to(tmp_path / name)
    report = audit.audit(folder)
    assert {finding.path for finding in report.findings} == {name}


def test_parity_may_lie_in_another_folder(tmp_path):
    folder = bundle_with_parity(tmp_path, volume_size=70_000, size=300_000)
    other = tmp_path / "other"
    other.mkdir()
    for path in list(folder.glob("*.parity*")):
        path.rename(other / path.name)
    assert not audit.audit(folder).intact
    assert audit.audit(folder, volumes_in=(other,)).intact


def test_a_full_disk_leaves_the_bundle_as_it_was(folder, monkeypatch):
    before = tree(folder)

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(parity, "write_at", full)
    with pytest.raises(FilesystemError, match="No space left"):
        parity.add(folder, 5)
    monkeypatch.undo()
    assert tree(folder) == before
