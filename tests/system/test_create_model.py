"""Models that can't be taken, and a model that comes from a Hub all the way."""

import json
import shutil

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import damage, refused, rest_of, run
from tests.support.hub import Hub

NAME = "Qwen/Tiny-Qwen3.5"
WEIGHTS = "model.safetensors"


@pytest.fixture
def model(bench, tmp_path):
    return shutil.copytree(bench.place.model, tmp_path / "tiny-qwen3.5")


def _without_config(model):
    (model / "config.json").unlink()


def _cut_off(model):
    weights = next(model.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-100])


def _without_a_shard(model):
    weights = next(model.glob("*.safetensors"))
    weights.rename(model / "model-00001-of-00002.safetensors")
    missing = "model-00002-of-00002.safetensors"
    index = {"metadata": {}, "weight_map": {"model.embed_tokens.weight": missing}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))


def _with_an_odd_name(model):
    (model / "tokenizer\n.json").write_text("{}")


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        (_without_config, ExitCode.USAGE, ("config.json: missing",)),
        (_cut_off, ExitCode.INTEGRITY, (WEIGHTS,)),
        (_without_a_shard, ExitCode.INTEGRITY, ("model-00002-of-00002.safetensors",)),
        (_with_an_odd_name, ExitCode.USAGE, (r"'tokenizer\n.json'", "rename")),
    ],
)
def test_a_folder_that_is_no_whole_model(bench, model, tmp_path, change, code, words):
    change(model)
    done = bench.create(tmp_path / "media", model=str(model))
    refused(done, code, *words)
    assert rest_of(tmp_path / "media", bench.place.cache) == []


def test_a_file_in_the_place_of_a_folder(bench, model, tmp_path):
    done = bench.create(tmp_path / "media", model=str(model / "config.json"))
    refused(done, ExitCode.USAGE, "config.json: a file, not a folder", "name the folder")


@pytest.fixture(scope="module")
def shared_hub(bench, tmp_path_factory):
    root = tmp_path_factory.mktemp("hub")
    shutil.copytree(bench.place.model, root / NAME)
    with Hub(root) as running:
        yield running


@pytest.fixture(scope="module")
def hub_lock(bench, shared_hub, tmp_path_factory):
    lock = tmp_path_factory.mktemp("hub-lock") / "bundle.lock"
    done = run("lock", *bench.words(model=NAME, endpoint=shared_hub.endpoint), "--lock", str(lock))
    assert done.returncode == 0, done.stderr
    assert shared_hub.asked_for(WEIGHTS) == []
    return lock


@pytest.fixture
def hub(shared_hub):
    shared_hub.requests.clear()
    yield shared_hub
    shared_hub.faults.clear()


@pytest.fixture
def from_hub(bench, hub, tmp_path):
    """Create from the Hub with a cache of one's own, in which the weights are not."""
    cache = bench.own_cache(tmp_path / "cache")

    def create(output, *words, launcher=(), **changes):
        settings = {"model": NAME, "cache": str(cache), "endpoint": hub.endpoint} | changes
        done = bench.create(tmp_path / output, *words, launcher=launcher, **settings)
        if done.returncode:
            assert rest_of(tmp_path / output, cache) == []
        return done

    return create


def test_a_model_that_the_hub_does_not_have(from_hub):
    done = from_hub("media", model="Qwen/Tiny-Qwen35")
    refused(done, ExitCode.SOURCE, "Qwen/Tiny-Qwen35: no such model", f"there is {NAME}")


def test_a_revision_that_the_hub_does_not_have(from_hub):
    done = from_hub("media", model=f"{NAME}@v9")
    refused(done, ExitCode.SOURCE, "no revision 'v9'", "leave @REVISION out")


def test_altered_bytes_from_the_hub(from_hub, hub, hub_lock):
    hub.fault(WEIGHTS, "flip")
    done = from_hub("media", "--lock", str(hub_lock))
    refused(done, ExitCode.INTEGRITY, f"{WEIGHTS}: pinned as", "another network")
    hub.fault(WEIGHTS, "html")
    done = from_hub("media", "--lock", str(hub_lock))
    refused(done, ExitCode.SOURCE, f"{WEIGHTS}: what came", "log")


def test_a_model_from_the_hub_all_the_way(bench, from_hub, hub, hub_lock, namespace, tmp_path):
    hub.fault(WEIGHTS, "short", times=1)
    follow = ("--lock", str(hub_lock))
    first = from_hub("first", *follow)
    assert first.returncode == 0, first.stderr
    begun, continued = hub.asked_for(WEIGHTS)
    assert not begun.range
    assert continued.range

    hub.requests.clear()
    second = from_hub("second", *follow)
    assert second.returncode == 0, second.stderr
    assert hub.requests == []
    third = from_hub("third", *follow, "--offline", launcher=(*namespace, "--net"))
    assert third.returncode == 0, third.stderr
    outputs = [tmp_path / name for name in ("first", "second", "third")]
    assert len({next(path.glob("*/SHA256SUMS")).read_bytes() for path in outputs}) == 1

    size = (bench.place.model / WEIGHTS).stat().st_size
    (weights,) = (p for p in tmp_path.glob("cache/objects/*/*") if p.stat().st_size == size)
    damage(weights)
    refused(from_hub("media", *follow), ExitCode.INTEGRITY, WEIGHTS, "again")
    done = from_hub("media", *follow)
    assert done.returncode == 0, done.stderr
