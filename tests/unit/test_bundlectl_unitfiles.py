import dataclasses
import itertools

import pytest

from bundlectl import systemd, unitfiles
from bundlectl.layout import Layout
from bundlectl.unitfiles import CHANGED, OURS, STALE, Record
from bundlectl.units import Unit, Wish
from manifests import canonical
from manifests.errors import IntegrityError, UsageError
from manifests.records import to_data

SERVER = Unit("vllm-bundle.service", "[Service]\nExecStart=/bin/true\n", "multi-user.target")
TIMER = Unit("vllm-bundle-audit.timer", "[Timer]\nOnCalendar=daily\n", "timers.target")


@pytest.fixture
def layout(tmp_path) -> Layout:
    made = Layout(tmp_path / "p")
    made.create()
    return made


@pytest.fixture
def folder(tmp_path, monkeypatch):
    made = tmp_path / "etc/systemd/system"
    monkeypatch.setattr(systemd, "_UNITS", made)
    return made


def there(folder) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if not p.is_dir())


def states(layout) -> set[str]:
    return {unitfiles.state_of(made) for made in unitfiles.load(layout).files}


def test_what_is_installed_is_removed_and_nothing_else(layout, folder):
    folder.mkdir(parents=True)
    (folder / "other.service").write_text("not ours")
    unitfiles.install(layout, Wish(), (SERVER, TIMER), folder)
    assert there(folder) == [
        "multi-user.target.wants/vllm-bundle.service",
        "other.service",
        "timers.target.wants/vllm-bundle-audit.timer",
        "vllm-bundle-audit.timer",
        "vllm-bundle.service",
    ]
    link = folder / "multi-user.target.wants/vllm-bundle.service"
    assert link.resolve() == folder / SERVER.name
    assert len(unitfiles.remove(layout)) == 4
    assert there(folder) == ["other.service"]
    assert not unitfiles.record_path(layout).exists()
    assert unitfiles.remove(layout) == ()


def test_a_second_time_changes_nothing(layout, folder):
    assert unitfiles.install(layout, Wish(), (SERVER,), folder)
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    assert unitfiles.install(layout, Wish(), (SERVER,), folder) == ()
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == before


def test_another_wish_takes_away_what_is_no_longer_wanted(layout, folder):
    unitfiles.install(layout, Wish(audit="daily"), (SERVER, TIMER), folder)
    later = Unit(SERVER.name, SERVER.text + "# more\n")  # and not at boot
    assert not unitfiles.is_current(unitfiles.load(layout), (later,), folder)
    unitfiles.install(layout, Wish(boot=False), (later,), folder)
    assert there(folder) == ["vllm-bundle.service"]
    assert (folder / SERVER.name).read_text() == later.text
    assert unitfiles.load(layout).wish == Wish(boot=False)
    assert unitfiles.is_current(unitfiles.load(layout), (later,), folder)
    assert states(layout) == {OURS}


@pytest.mark.parametrize("again", ["install", "remove"])
def test_an_operators_own_lines_are_not_lost(layout, folder, again):
    unitfiles.install(layout, Wish(), (SERVER,), folder)
    (folder / SERVER.name).write_text("my own")
    assert CHANGED in states(layout)
    with pytest.raises(UsageError) as caught:
        if again == "install":
            unitfiles.install(layout, Wish(), (SERVER,), folder)
        else:
            unitfiles.remove(layout)
    assert caught.value.findings == (str(folder / SERVER.name),)
    assert (folder / SERVER.name).read_text() == "my own"
    if again == "install":
        unitfiles.install(layout, Wish(), (SERVER,), folder, force=True)
        assert (folder / SERVER.name).read_text() == SERVER.text
    else:
        unitfiles.remove(layout, force=True)
        assert there(folder) == []


def test_another_installations_unit_is_not_taken_over(layout, folder, tmp_path):
    other = Layout(tmp_path / "q")
    other.create()
    unitfiles.install(other, Wish(), (Unit(SERVER.name, "[Service]\n# of q\n"),), folder)
    with pytest.raises(UsageError, match="did not make"):
        unitfiles.install(layout, Wish(), (SERVER,), folder)
    assert not unitfiles.record_path(layout).exists()
    assert states(other) == {OURS}


def test_a_unit_that_was_removed_by_hand_is_made_again(layout, folder):
    unitfiles.install(layout, Wish(), (SERVER,), folder)
    (folder / SERVER.name).unlink()
    assert unitfiles.install(layout, Wish(), (SERVER,), folder) == (folder / SERVER.name,)
    (folder / SERVER.name).unlink()
    unitfiles.remove(layout)
    assert there(folder) == []


@pytest.mark.parametrize("interrupted", ["install", "remove"])
def test_a_run_that_was_killed_anywhere_is_continued(layout, folder, monkeypatch, interrupted):
    """Every removal, and every write of a file, is where a kill may come."""
    later = Unit(SERVER.name, "[Service]\n# later\n")

    def run(limit: int) -> bool:
        calls = itertools.count()

        def killing(real):
            def call(*words, **named):
                if next(calls) == limit:
                    raise KeyboardInterrupt
                return real(*words, **named)

            return call

        with monkeypatch.context() as patch:
            for name in ("write_whole", "_unlink", "_write"):
                patch.setattr(unitfiles, name, killing(getattr(unitfiles, name)))
            try:
                if interrupted == "install":
                    unitfiles.install(layout, Wish(), (later,), folder)
                else:
                    unitfiles.remove(layout)
            except KeyboardInterrupt:
                return False
        return True

    for limit in range(20):
        unitfiles.install(layout, Wish(audit="daily"), (SERVER, TIMER), folder)
        ended = run(limit)
        assert CHANGED not in states(layout)
        unitfiles.install(layout, Wish(), (later,), folder)
        assert there(folder) == ["vllm-bundle.service"]
        unitfiles.remove(layout)
        assert there(folder) == []
        if ended:
            break
    assert ended
    assert limit >= 3


def test_a_replacement_that_was_cut_off_is_told(layout, folder):
    made = unitfiles.Made(str(folder / "x.service"), ("0" * 64,))
    assert unitfiles.state_of(made) == unitfiles.ABSENT
    unitfiles.install(layout, Wish(), (SERVER,), folder)
    (server, _link) = unitfiles.load(layout).files
    assert unitfiles.state_of(unitfiles.Made(server.path, (*server.sha256, "0" * 64))) == STALE


def test_a_damaged_record_is_told(layout):
    unitfiles.record_path(layout).write_text("{")
    with pytest.raises(IntegrityError, match=r"service\.json: damaged"):
        unitfiles.load(layout)


@pytest.mark.parametrize(
    "path",
    [
        "{folder}/../elsewhere",
        "{elsewhere}",
        "{folder}/other.service",
        "{folder}/sshd.service.wants/vllm-bundle.service",
        "{folder}/../system/vllm-bundle.service",
        "{folder}/deeper/vllm-bundle.service",
        "{folder}/vllm-bundle@other.service",
        "{folder}/vllm-bundle.service\n",
        "vllm-bundle.service",
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_record_that_names_anything_else_removes_nothing(layout, folder, tmp_path, path, force):
    """The server's account may write it, and root removes what it names.

    Every path lies in the test's own folder: where the refusal is missing, `force` removes it.
    """
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("untouched")
    unitfiles.install(layout, Wish(), (SERVER,), folder)
    known = unitfiles.load(layout)
    named = path.format(folder=folder, elsewhere=elsewhere)
    strange = unitfiles.Made(named, ("0" * 64,))
    record = dataclasses.replace(known, files=(*known.files, strange))
    unitfiles.record_path(layout).write_bytes(canonical.dumps(to_data(record)))
    before = there(folder)
    for run in (
        lambda: unitfiles.remove(layout, force=force),
        lambda: unitfiles.install(layout, Wish(), (TIMER,), folder, force=force),
    ):
        with pytest.raises(IntegrityError, match="no unit of this instance") as caught:
            run()
        assert caught.value.findings == (strange.path,)
    assert there(folder) == before
    assert elsewhere.read_text() == "untouched"


def test_a_record_without_digests_is_none(layout, folder):
    record = Record(1, Wish(), (unitfiles.Made(f"{folder}/{SERVER.name}", ()),))
    unitfiles.record_path(layout).write_bytes(canonical.dumps(to_data(record)))
    with pytest.raises(IntegrityError):
        unitfiles.remove(layout)


def test_instances_have_records_of_their_own(layout, folder):
    two = Layout(layout.prefix, "two")
    two.create()
    unitfiles.install(layout, Wish(), (SERVER,), folder)
    unitfiles.install(two, Wish(), (Unit("vllm-bundle@two.service", "x"),), folder)
    unitfiles.remove(layout)
    assert there(folder) == ["vllm-bundle@two.service"]
