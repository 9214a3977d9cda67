"""A Hub that fails while `bundle` runs: what is said, what is left, and how it goes on.

The whole table of faults is tests/unit/test_bundler_model_hub_faults.py; these are those that end
soon enough for a command, which waits seconds before it tries again.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler import tinymodel
from manifests import lock as locks
from manifests.exitcodes import ExitCode
from tests.support.connected import Bench, refused, rest_of, run
from tests.support.hub import Hub

NAME, TOKEN = "Qwen/Tiny-Qwen3.5", "hf_" + "s" * 34
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
SECRET = {"HF_TOKEN": TOKEN}


@pytest.fixture(scope="module")
def shared_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    root = tmp_path_factory.mktemp("hub")
    tinymodel.make(root / NAME, shards=2)
    with Hub(root) as running:
        yield running


@pytest.fixture(scope="module")
def hub_lock(bench: Bench, shared_hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lock") / "bundle.lock"
    words = bench.words(model=NAME, endpoint=shared_hub.endpoint)
    done = run("lock", *words, "--lock", str(path), env=SECRET)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture
def hub(shared_hub: Hub) -> Iterator[Hub]:
    yield shared_hub
    shared_hub.faults.clear()
    shared_hub.renamed.clear()


class Machine:
    """A connected machine with a cache of its own, that follows the lock."""

    def __init__(self, bench: Bench, hub: Hub, lock: Path, folder: Path) -> None:
        self.bench, self.hub, self.lock, self.folder = bench, hub, lock, folder
        self.cache = bench.own_cache(folder / "cache")

    def create(self):
        """Run `bundle create`; nothing that it says, sends or leaves holds the token."""
        self.hub.requests.clear()
        self.hub.sent.clear()
        done = self.bench.create(
            self.folder / "media",
            *("--lock", str(self.lock)),
            env=SECRET,
            model=NAME,
            endpoint=self.hub.endpoint,
            cache=str(self.cache),
        )
        assert TOKEN not in done.stdout + done.stderr
        strangers = [request for request in self.hub.requests if request.host in self.hub.cdn]
        assert not any(request.token for request in strangers)
        for path in [self.lock, *self.folder.rglob("*")]:
            assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path
        return done

    def held(self) -> dict[str, int]:
        """Bytes of each weight file that the cache has, whole or in part."""
        found = {}
        for file in locks.load(self.lock).model.files:
            if file.path in (FIRST, SECOND):
                whole = self.cache / "objects" / file.sha256[:2] / file.sha256
                part = whole.with_name(f"{whole.name}.partial")
                found[file.path] = next((p.stat().st_size for p in (whole, part) if p.exists()), 0)
        return found


@pytest.fixture
def machine(bench: Bench, hub: Hub, hub_lock: Path, tmp_path: Path) -> Machine:
    return Machine(bench, hub, hub_lock, tmp_path)


@pytest.mark.parametrize(
    ("first", "then", "code", "words"),
    [
        ("flip", "", ExitCode.INTEGRITY, (f"{FIRST}: pinned as sha256", "another network")),
        ("replaced", "", ExitCode.INTEGRITY, (f"{FIRST}: pinned as sha256", "bundle lock")),
        ("gone", "", ExitCode.SOURCE, (f"{FIRST}: no longer on the Hub", "bundle lock")),
        ("html", "", ExitCode.SOURCE, (f"{FIRST}: what came is a web page", "in a browser")),
        ("short", "html", ExitCode.SOURCE, (f"{FIRST}: what came is a web page", "in a browser")),
        ("short", "gone", ExitCode.SOURCE, (f"{FIRST}: no longer on the Hub", "removed")),
        ("short", "busy", ExitCode.SOURCE, (f"{FIRST}: can't be fetched", "continues")),
        ("gated", "", ExitCode.SOURCE, (f"{NAME}: access refused (403)", "hf auth login")),
    ],
)
def test_a_fault_is_told_and_the_next_run_goes_on(machine, hub, first, then, code, words):
    if then:
        hub.sequence(FIRST, first, then)
    else:
        hub.fault(FIRST, first)
    refused(machine.create(), code, *words)
    held = machine.held()
    assert (held[FIRST] > 0) == bool(then)
    assert rest_of(machine.folder / "media", machine.cache) == []

    hub.faults.clear()
    done = machine.create()
    assert done.returncode == 0, done.stderr
    for name, size in held.items():
        assert hub.sent[name] == (hub.root / NAME / name).stat().st_size - size


@pytest.mark.parametrize("kind", ["short", "error500", "wrong-length", "redirect", "slow"])
def test_what_passes_ends_in_a_bundle(machine, hub, kind):
    hub.fault(FIRST, kind, times=1)
    done = machine.create()
    assert done.returncode == 0, done.stderr
    assert (machine.folder / "media").is_dir()


def test_a_repository_that_was_renamed(machine, hub, bench, tmp_path):
    new = "Qwen/Tiny-Qwen3.5-Base"
    (hub.root / NAME).rename(hub.root / new)
    try:
        # Removed, or made private: the Hub does not say which.
        refused(machine.create(), ExitCode.SOURCE, ".safetensors: no longer on the Hub", "renamed")
        hub.renamed[NAME] = new
        done = machine.create()
        assert done.returncode == 0, done.stderr
        lock = tmp_path / "new.lock"
        words = bench.words(model=NAME, endpoint=hub.endpoint)
        done = run("lock", *words, "--lock", str(lock), env=SECRET)
        assert done.returncode == 0, done.stderr
        assert locks.load(lock).model.source == f"hf:{new}"
    finally:
        (hub.root / new).rename(hub.root / NAME)


def test_a_commit_that_was_rewritten(machine, hub):
    card = hub.root / NAME / "README.md"
    text = card.read_text()
    card.write_text(f"{text}\nrewritten\n")
    try:
        refused(machine.create(), ExitCode.SOURCE, "no longer on the Hub at the commit", "lock")
    finally:
        card.write_text(text)
    assert machine.create().returncode == 0


@pytest.mark.parametrize("kind", ["html", "unauthorised"])
def test_a_lock_from_a_hub_that_answers_something_else(bench, hub, tmp_path, kind):
    hub.fault("api", kind)
    lock = tmp_path / "bundle.lock"
    words = bench.words(model=NAME, endpoint=hub.endpoint, cache=str(tmp_path / "cache"))
    done = run("lock", *words, "--lock", str(lock), env=SECRET)
    refused(done, ExitCode.SOURCE)
    assert TOKEN not in done.stdout + done.stderr
    assert not lock.exists()
