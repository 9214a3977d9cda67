"""Every fault of a Hub: the file and the cause are named, there is a mend, and one can go on.

The same through the command line is tests/system/test_hub_faults.py.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bundler import tinymodel
from bundler.models import resolve
from bundler.models.hub import HubSource
from manifests.errors import BundleError
from manifests.exitcodes import ExitCode
from manifests.lock import Model
from tests.support.hub import PAUSE, PIECES, Hub
from wheelhouse.store import Store

NAME, NEW_NAME, TOKEN = "Qwen/Qwen3.5-0.1B", "Qwen/Qwen3.5-100M", "hf_" + "x" * 34
FIRST = "model-00001-of-00003.safetensors"
#: Seconds without a byte after which a body counts as stalled: usually, and where each is.
TIMEOUT, STALLED = 0.6, 0.05


@dataclass(frozen=True)
class Row:
    """A fault of one file, and what has to be said of it."""

    name: str
    kind: str
    code: ExitCode
    what: str
    mend: str
    then: str = ""  # a second fault, from the second request on
    kept: bool = False  # whether bytes of the first request stay and are continued


AGAIN, ACCESS, LOCK, MIRROR, LOOK = (
    "run the same command again later: it continues",
    "hf auth login",
    "lock the model again with `bundle lock`",
    "from another network or mirror",
    "open its URL in a browser",
)
DATA, SOURCE = ExitCode.INTEGRITY, ExitCode.SOURCE
ROWS = (
    Row("flipped byte", "flip", DATA, "{file}: pinned as sha256 {sha256}", MIRROR),
    Row("changed after the lock", "replaced", DATA, "{file}: pinned as sha256 {sha256}", LOCK),
    Row("wrong length", "wrong-length", SOURCE, "bytes came of {size}", AGAIN),
    Row("too long", "long", SOURCE, "more than {size} bytes came", AGAIN),
    Row("short, then 503", "short", SOURCE, "{file}: can't be fetched", AGAIN, "error500", True),
    Row("short, then too many", "short", SOURCE, "the Hub answered 429", AGAIN, "busy", True),
    Row("stalled again and again", "stall", SOURCE, "{file}: can't be fetched", AGAIN, "", True),
    Row("5xx", "error500", SOURCE, "{file}: can't be fetched", AGAIN),
    Row("gone", "gone", SOURCE, "{file}: no longer on the Hub at the commit", LOCK),
    Row("login page", "html", SOURCE, "{file}: what came is a web page", LOOK),
    Row("page, no length", "html-unknown-length", SOURCE, "{file}: what came is", LOOK),
    Row("short, then page", "short", SOURCE, "{file}: what came is", LOOK, "html", True),
    Row("gated since", "gated", SOURCE, "{repository}: access refused (403)", ACCESS),
    Row("token refused", "unauthorised", SOURCE, "{repository}: access refused (401)", ACCESS),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "model"
    tinymodel.make(folder, shards=3)
    return folder


@pytest.fixture
def hub(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    shutil.copytree(made, tmp_path / "hub" / NAME)
    with Hub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def source(hub: Hub, store: Store, name: str = NAME) -> HubSource:
    found = resolve(name, store, endpoint=hub.endpoint)
    assert isinstance(found, HubSource)
    return replace(found, pause=0.001, timeout=TIMEOUT)


def there(store: Store, model: Model) -> dict[str, int]:
    """Bytes of each weight file that the store has, whole or in part."""
    found = {}
    for file in model.files:
        if file.path.endswith(".safetensors"):
            whole = store.path(file.sha256)
            part = whole.with_name(f"{whole.name}.partial")
            found[file.path] = next((p.stat().st_size for p in (whole, part) if p.exists()), 0)
    return found


def told(error: BundleError, row: Row, hub: Hub) -> None:
    file = hub.files(NAME)[FIRST]
    words = {"file": FIRST, "size": file.size, "sha256": file.sha256, "repository": NAME}
    assert row.what.format(**words) in error.what
    assert row.kind in ("gated", "unauthorised") or FIRST in error.what
    assert row.mend in error.mend
    assert error.why
    assert error.exit_code == row.code
    assert TOKEN not in error.render()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_fault_is_explained_and_the_next_run_goes_on(hub: Hub, store: Store, row: Row) -> None:
    model = source(hub, store).lock()
    if row.then:
        hub.sequence(FIRST, row.kind, row.then)
    else:
        hub.fault(FIRST, row.kind)
    timeout = STALLED if row.kind == "stall" else TIMEOUT
    with pytest.raises(BundleError) as caught:
        replace(source(hub, store), timeout=timeout).fetch(model)
    told(caught.value, row, hub)

    before = there(store, model)
    assert not store.has(hub.files(NAME)[FIRST].sha256)
    assert (before[FIRST] > 0) == row.kept
    hub.faults.clear()
    hub.sent.clear()
    snapshot = source(hub, store).fetch(model)
    sizes = {file.path: file.size for file in model.files}
    for name, held in before.items():
        assert hub.sent[name] == sizes[name] - held, name
        assert snapshot.files[name].read_bytes() == (hub.root / NAME / name).read_bytes()

    hub.requests.clear()
    source(hub, store).fetch(model)
    assert hub.requests == []


def test_a_slow_body_is_waited_for(hub: Hub, store: Store) -> None:
    assert PIECES * PAUSE > TIMEOUT > PAUSE
    model = source(hub, store).lock()
    hub.fault(FIRST, "slow")
    source(hub, store).fetch(model)
    assert len(hub.asked_for(FIRST)) == 1


def test_another_host_gets_no_token(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    hub.fault(FIRST, "redirect", times=1)
    source(hub, store).fetch(model)
    elsewhere = [request for request in hub.requests if request.host in hub.cdn]
    assert {request.path.rpartition("/")[2] for request in elsewhere} >= {FIRST}
    assert not any(request.token for request in elsewhere)


def test_a_file_that_changed_on_another_host_is_no_less_refused(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    hub.fault(FIRST, "redirect")
    original = hub.take

    def both(name: str, *kinds: str) -> str:
        return "flip" if name == FIRST and "flip" in kinds else original(name, *kinds)

    hub.take = both  # type: ignore[method-assign]  # two faults of one file at a time
    with pytest.raises(BundleError) as caught:
        source(hub, store).fetch(model)
    assert caught.value.exit_code == DATA
    assert "localhost" not in caught.value.render() or TOKEN not in caught.value.render()


def test_a_renamed_repository_answers_under_its_old_name(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    (hub.root / NAME).rename(hub.root / NEW_NAME)
    hub.renamed[NAME] = NEW_NAME
    assert source(hub, store).fetch(model).files
    # And is locked under the new one, which is what lasts.
    again = source(hub, Store(store.root.with_name("other"))).lock()
    assert (again.source, again.revision) == (f"hf:{NEW_NAME}", model.revision)


def test_a_repository_that_is_not_there_any_more(hub: Hub, store: Store) -> None:
    """The Hub answers as for a private one; so nobody is sent to accept conditions alone."""
    model = source(hub, store).lock()
    kept = hub.root / NAME
    kept.rename(hub.root / NEW_NAME)
    with pytest.raises(BundleError) as caught:
        source(hub, store).fetch(model)
    error = caught.value
    assert error.exit_code == SOURCE
    assert ".safetensors: no longer on the Hub" in error.what
    assert "renamed or made private" in error.why
    assert "`bundle lock`" in error.mend
    (hub.root / NEW_NAME).rename(kept)
    assert source(hub, store).fetch(model).files


def test_a_commit_that_is_not_there_any_more(hub: Hub, store: Store) -> None:
    model = source(hub, store).lock()
    (hub.root / NAME / "README.md").write_text("rewritten history")
    with pytest.raises(BundleError) as caught:
        source(hub, store).fetch(model)
    assert "no longer on the Hub at the commit that was pinned" in caught.value.what
    assert "`bundle lock`" in caught.value.mend
    again = source(hub, store).lock()
    assert again.revision != model.revision
    assert source(hub, store).fetch(again).files
