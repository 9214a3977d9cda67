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
        (_without_config, ExitCode.INTEGRITY, ("config.json",)),
        (_cut_off, ExitCode.INTEGRITY, (WEIGHTS,)),
        (_without_a_shard, ExitCode.INTEGRITY, ("model-00002-of-00002.safetensors",)),
        (_with_an_odd_name, ExitCode.INTEGRITY, (r"'tokenizer\n.json'", "rename")),
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


@pytest.fixture
def hub(bench, tmp_path):
    shutil.copytree(bench.place.model, tmp_path / "hub" / NAME)
    with Hub(tmp_path / "hub") as running:
        yield running


@pytest.fixture
def from_hub(bench, hub, tmp_path):
    """Create from the Hub with a cache of one's own."""
    cache = bench.own_cache(tmp_path / "cache")

    def create(output, *words, **changes):
        settings = {"model": NAME, "cache": str(cache), "endpoint": hub.endpoint} | changes
        done = bench.create(tmp_path / output, *words, **settings)
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


def test_a_hub_that_can_t_be_reached(bench, tmp_path, monkeypatch):
    done = bench.create(tmp_path / "media", model=NAME, endpoint="http://127.0.0.1:9", cache=None)
    refused(done, ExitCode.SOURCE, "the Hub at http://127.0.0.1:9 can't be used", "HF_ENDPOINT")


def test_altered_bytes_from_the_hub(from_hub, hub):
    hub.fault(WEIGHTS, "flip")
    refused(from_hub("media"), ExitCode.INTEGRITY, f"{WEIGHTS}: pinned as", "another network")
    hub.fault(WEIGHTS, "html")
    refused(from_hub("media"), ExitCode.SOURCE, f"{WEIGHTS}: what came", "log")
    hub.faults.clear()
    assert from_hub("media").returncode == 0


def test_a_model_from_the_hub_all_the_way(bench, from_hub, hub, namespace, tmp_path):
    hub.fault(WEIGHTS, "short", times=1)
    lock = tmp_path / "bundle.lock"
    words = bench.words(model=NAME, cache=str(tmp_path / "cache"), endpoint=hub.endpoint)
    assert run("lock", *words, "--lock", str(lock)).returncode == 0
    first = from_hub("first", "--lock", str(lock))
    assert first.returncode == 0, first.stderr
    assert len(hub.asked_for(WEIGHTS)) == 2  # the second continued the first
    assert hub.asked_for(WEIGHTS)[1].range

    hub.requests.clear()
    second = from_hub("second", "--lock", str(lock))
    assert second.returncode == 0, second.stderr
    assert hub.requests == []
    cut_off = run(
        *("create", *words, "--output", str(tmp_path / "third"), "--lock", str(lock)),
        "--offline",
        launcher=(*namespace, "--net"),
    )
    assert cut_off.returncode == 0, cut_off.stderr
    sums = {
        path.read_bytes()
        for output in ("first", "second", "third")
        for path in (tmp_path / output).glob("*/SHA256SUMS")
    }
    assert len(sums) == 1

    weights = next(
        path
        for path in (tmp_path / "cache/objects").glob("*/*")
        if path.stat().st_size == (bench.place.model / WEIGHTS).stat().st_size
    )
    damage(weights)
    refused(from_hub("media", "--lock", str(lock)), ExitCode.INTEGRITY, WEIGHTS, "again")
    assert from_hub("media", "--lock", str(lock)).returncode == 0
