"""What a delta does not carry comes from the installed base, and ends as the whole bundle does."""

import contextlib
import os
import time

import pytest

from bundlectl import donor, unpack
from bundlectl.journal import journal_path
from manifests import archive, placement, tree
from manifests.audit.installation import audit_tree, release_entries
from manifests.errors import Damage, IntegrityError, UsageError
from manifests.exitcodes import ExitCode
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader
from tests.support import deltas
from tests.support.simulator import Simulator

BASE = Simulator(name="old", environment=deltas.OLD)
WHOLE = Simulator(name="new", environment=deltas.NEW, model=deltas.NEW_MODEL)


def install(folder, prefix, keep=(), progress=lambda count: None):
    """What `bundlectl install` does, but for preflight and conda-unpack."""
    for name in ("releases", "models", "state/journal", "state/receipts"):
        (prefix / name).mkdir(parents=True, exist_ok=True)
    with contextlib.closing(ArchiveStream(Medium(folder))) as stream:
        reader = BundleReader(stream)
        source = donor.find(prefix, reader.manifest)
        unpack.Unpacker(prefix, reader, progress, donor=source).run(keep)
    whole = reader.whole
    receipt = placement.Receipt(1, whole.release, whole.digest, str(prefix), 0, "test")
    placement.receipt_path(prefix, whole.release).write_bytes(receipt.dump())
    return whole


def snapshot(folder):
    found = {}
    for path, entry in tree.walk(folder):
        kind, status = tree.kind_of(entry), entry.stat(follow_symlinks=False)
        data = (folder / path).read_bytes() if kind == tree.FILE else b""
        target = str((folder / path).readlink()) if kind == tree.LINK else ""
        found[path] = (kind, oct(status.st_mode), status.st_nlink if data else 0, data, target)
    return found


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    """The base, the whole bundle, and the delta between them."""
    root = tmp_path_factory.mktemp("media")
    return (
        BASE.write(root)[0],
        WHOLE.write(root)[0],
        deltas.write(WHOLE, BASE, root / "delta")[0],
    )


@pytest.fixture
def prefix(media, tmp_path):
    """A host with the base."""
    install(media[0], tmp_path / "host")
    return tmp_path / "host"


def test_it_ends_as_the_whole_bundle_does(media, prefix, tmp_path):
    counted = []
    made = install(media[2], prefix, progress=counted.append)
    whole = install(media[1], tmp_path / "other")
    assert made == whole
    for folder in (f"releases/{whole.release}", whole.manifest.model_folder()):
        assert snapshot(prefix / folder) == snapshot(tmp_path / "other" / folder)
    assert [p.name for p in (prefix / "state/journal").iterdir()] == []
    carried = BundleReader((media[2] / f"{media[2].name}.tar").open("rb", buffering=0)).manifest
    assert sum(counted) == sum(m.size for m in carried.members) + donor.size(carried)


def test_a_model_that_is_there_is_not_copied(media, prefix):
    """Two bundles share the folder of a model."""
    model = WHOLE.manifest().model_folder()
    before = snapshot(prefix / model)
    install(media[2], prefix, keep=[model])
    assert snapshot(prefix / model) == before


def test_another_base_is_refused_by_name(media, tmp_path):
    other = Simulator(name="unrelated").write(tmp_path / "media")[0]
    whole = install(other, tmp_path / "host")
    with pytest.raises(UsageError) as caught:
        install(media[2], tmp_path / "host")
    text = caught.value.render()
    assert f"delta on old (manifest {deltas.base_of(BASE).digest})" in text
    assert f"unrelated-{whole.digest[:12]} (manifest {whole.digest})" in text
    assert [p.name for p in (tmp_path / "host/releases").iterdir()] == [whole.release]


DAMAGE = {
    "another byte": lambda path: path.write_bytes(b"m0ves"),
    "cut": lambda path: path.write_bytes(b"mo"),
    "gone": lambda path: path.unlink(),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link to the right bytes": lambda path: (
        path.rename(path.with_name("there")),
        path.symlink_to("there"),
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_base_is_named_and_mending_it_is_enough(media, prefix, damage):
    release = prefix / "releases" / f"old-{deltas.base_of(BASE).digest[:12]}"
    path = release / "env/lib/moved"
    DAMAGE[damage](path)
    with pytest.raises(IntegrityError) as caught:
        install(media[2], prefix)
    assert str(path) in caught.value.what
    assert caught.value.exit_code == ExitCode.INTEGRITY
    assert "repair" in caught.value.mend
    assert "carry the whole bundle" in caught.value.mend
    (begun,) = (prefix / "releases").glob("new*")
    assert begun.name.endswith(".partial")
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink(missing_ok=True)
    path.write_bytes(b"moves")
    made = install(media[2], prefix)
    entries = release_entries(made.manifest, made.digest)
    assert audit_tree(prefix / "releases" / made.release, entries) == []


def test_a_run_that_was_killed_among_the_copies_is_continued(media, prefix, monkeypatch):
    """What it has left: whole copies, one that is cut off, and one with other bytes."""
    copied = []

    def until_killed(file):
        if len(copied) == 3:
            raise KeyboardInterrupt
        copied.append(file)
        copy(file)

    copy = donor.copy
    monkeypatch.setattr(donor, "copy", until_killed)
    monkeypatch.setattr(donor, "workers", lambda: 1)
    with pytest.raises(KeyboardInterrupt):
        install(media[2], prefix)
    monkeypatch.undo()
    whole, cut, other = (file.target for file in copied)
    cut.write_bytes(cut.read_bytes()[:-1])
    other.write_bytes(b"x" * other.stat().st_size)
    stamp = whole.stat().st_mtime_ns
    time.sleep(0.01)
    made = install(media[2], prefix)
    entries = release_entries(made.manifest, made.digest)
    release = prefix / "releases" / made.release
    assert audit_tree(release, entries) == []
    kept = release / whole.relative_to(prefix / "releases" / f"{made.release}.partial")
    assert kept.stat().st_mtime_ns == stamp
    assert not journal_path(prefix, made.digest).exists()


def test_a_whole_bundle_that_was_begun_is_finished_by_its_delta(media, prefix):
    """Both write to the same partial folder, and have a journal each."""
    with contextlib.closing(ArchiveStream(Medium(media[1]))) as stream:
        reader = BundleReader(stream)
        unpacker = unpack.Unpacker(prefix, reader, lambda count: None)
        reader.finish = lambda: (_ for _ in ()).throw(KeyboardInterrupt)  # the last moment
        with pytest.raises(KeyboardInterrupt):
            unpacker.run()
    made = install(media[2], prefix)
    entries = release_entries(made.manifest, made.digest)
    assert audit_tree(prefix / "releases" / made.release, entries) == []


@pytest.mark.parametrize(
    "content",
    [
        {**deltas.NEW, "lib/new": b"other bytes"},
        {**deltas.NEW, "lib/zzz": b"one more"},
        {path: data for path, data in deltas.NEW.items() if path != "lib/new"},
    ],
    ids=["other bytes", "one more", "one less"],
)
def test_an_archive_that_is_not_what_the_manifest_says_is_carried(content, prefix, tmp_path):
    """Packed and digested rightly: only the comparison with the listing can refuse it."""
    folder, _ = deltas.write(WHOLE, BASE, tmp_path, content)
    with pytest.raises(Damage):
        install(folder, prefix)
    (begun,) = (prefix / "releases").glob("new*")
    assert begun.name.endswith(".partial")


def test_copies_share_nothing_with_the_base(media, prefix):
    made = install(media[2], prefix)
    release = prefix / "releases" / made.release / "env/share/moved"
    release.write_bytes(b"altered")
    base = prefix / "releases" / f"old-{deltas.base_of(BASE).digest[:12]}" / "env/lib/moved"
    assert base.read_bytes() == b"moves"


def test_the_installed_manifest_is_the_wholes(media, prefix):
    made = install(media[2], prefix)
    data = (prefix / "releases" / made.release / archive.MANIFEST_NAME).read_bytes()
    assert data == WHOLE.manifest().dump()
