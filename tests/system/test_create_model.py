"""Models that can't be taken, and a model that comes from a Hub all the way."""

import json
import shutil

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import damage, refused, rest_of, run
from tests.support.hub import Hub
from tests.support.small import control, install
from tests.support.variants import manifest_of
from tests.system.test_create_secrets import readings

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


@pytest.fixture
def with_code(model):
    """The model with code of its own."""
    (model / "modeling_x.py").write_text("class X: ...")
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"auto_map": {"A": "modeling_x.X"}}))
    return model


RISKS = [
    "tiny-qwen3.5: modeling_x.py: code that comes with the model (remote-code)",
    "tiny-qwen3.5: config.json: `auto_map` loads code (auto-map)",
]


@pytest.mark.e2e
def test_code_of_a_model_is_taken_by_flag_alone_and_listed_everywhere(
    bench, with_code, prefix, tmp_path
):
    refused(
        bench.create(tmp_path / "media", model=str(with_code)),
        ExitCode.USAGE,
        "config.json: `auto_map` loads code",
        "--allow-remote-code",
    )
    words, lock = bench.words(model=str(with_code)), str(tmp_path / "bundle.lock")
    locked = run("lock", *words, "--lock", lock, "--allow-remote-code")
    assert locked.returncode == 0, locked.stderr
    planned = bench.create(tmp_path / "media", "--dry-run", "--lock", lock, model=str(with_code))
    # A lock says what was allowed: to follow it is to get the same.
    made = bench.create(tmp_path / "media", "--lock", lock, model=str(with_code))
    assert made.returncode == 0, made.stderr
    (folder,) = (tmp_path / "media").iterdir()
    assert [
        f"{m.name}: {r.text()}" for m in manifest_of(folder)[0].models for r in m.risks
    ] == RISKS
    audited = run("audit", str(folder), "--json")
    assert json.loads(audited.stdout)["risks"] == RISKS
    host = install(folder, "--prefix", str(prefix), "--no-start")
    assert host.returncode == 0, host.stderr
    audit_there = control(prefix, "audit")
    inspected = run("inspect", str(folder))
    for said in (locked.stdout, planned.stdout, made.stdout, inspected.stdout, audit_there.stdout):
        for risk in RISKS:
            assert f"can run code: {risk}" in " ".join(said.split()), said


def test_patterns_choose_the_files_and_a_lock_keeps_the_choice(bench, model, tmp_path):
    (model / "notes.pdf").write_bytes(b"notes")
    flags = ("--include", "*.pdf", "--exclude", "README*")
    made = bench.create(tmp_path / "media", *flags, model=str(model))
    assert made.returncode == 0, made.stderr
    (folder,) = (tmp_path / "media").iterdir()
    paths = {member.path for member in manifest_of(folder)[0].members}
    assert "model/notes.pdf" in paths
    assert "model/README.md" not in paths
    follow = ("--lock", str(bench.lock))
    refused(
        bench.create(tmp_path / "again", *follow, *flags, model=str(bench.place.model)),
        ExitCode.USAGE,
        "holds no file of the model for --include *.pdf",
        "`bundle lock` and the flag",
    )
    refused(
        bench.create(tmp_path / "again", "--exclude", "*.gguf", model=str(model)),
        ExitCode.USAGE,
        "--exclude *.gguf: the model has no such file",
    )


def test_the_file_says_what_is_taken_too(bench, with_code, tmp_path):
    (tmp_path / "bundle.toml").write_text('allow_remote_code = true\nexclude = ["README*"]\n')
    lock = tmp_path / "bundle.lock"
    done = run(
        "lock", *bench.words(model=str(with_code)), "--lock", str(lock), "--json", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["risks"] == RISKS
    assert b"README" not in lock.read_bytes()


@pytest.fixture(scope="module")
def shared_hub(bench, tmp_path_factory):
    root = tmp_path_factory.mktemp("hub")
    shutil.copytree(bench.place.model, root / NAME)
    with Hub(root) as running:
        yield running


@pytest.fixture(scope="module")
def hub_lock(bench, shared_hub, tmp_path_factory):
    lock = tmp_path_factory.mktemp("hub-lock") / "bundle.lock"
    shared_hub.requests.clear()
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


def test_the_sizes_that_fit_are_named_beside(hub, tmp_path):
    gpu = ("--gpu", "a10", "--driver", "550.54", "--cache", str(tmp_path / "cache"))
    words = ("--model", "Qwen/Tiny-Qwen35", "--endpoint", hub.endpoint)
    done = run("create", *gpu, *words, "--dry-run", cwd=tmp_path)
    refused(done, ExitCode.SOURCE, f"there is {NAME}", "Qwen3.5-4B (9.32 GB), Qwen3.5-2B")


def test_a_revision_that_the_hub_does_not_have(from_hub):
    done = from_hub("media", model=f"{NAME}@v9")
    refused(done, ExitCode.SOURCE, "no revision 'v9'", "leave @REVISION out")


TOKEN = "hf_t0kens3cret"


def test_the_token_is_used_and_kept_nowhere(bench, from_hub, hub, tmp_path):
    hub.fault(WEIGHTS, "redirect")
    (tmp_path / "token").write_text(TOKEN)
    env = {"HF_TOKEN_PATH": str(tmp_path / "token"), "HF_HUB_DISABLE_IMPLICIT_TOKEN": "0"}
    lock = tmp_path / "kept/bundle.lock"
    source = {"model": NAME, "endpoint": hub.endpoint, "cache": str(tmp_path / "cache")}
    done = [run("lock", *bench.words(**source), "--lock", str(lock), env=env)]
    done.append(from_hub("media", "--lock", str(lock), env=env))
    done.append(from_hub("media", "--lock", str(lock), "--dry-run", env=env))
    hub.fault(WEIGHTS, "gated")
    done.append(from_hub("none", model=f"{NAME}@v9", env=env))
    assert [one.returncode for one in done] == [0, 0, 0, ExitCode.SOURCE]
    at_home = [request for request in hub.requests if request.host in hub.endpoint]
    assert at_home
    assert all(request.token for request in at_home)
    assert not any(request.token for request in hub.requests if request.host in hub.cdn)
    assert TOKEN not in "".join(one.stdout + one.stderr for one in done)
    kept = [path for place in ("cache", "media", "kept") for path in readings(tmp_path / place)]
    assert len(kept) > 100
    assert [path for path, data in kept if TOKEN.encode() in data] == []


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
    done = from_hub("media", *follow)
    assert done.returncode == 0, done.stderr
    assert f"{WEIGHTS} went bad" in done.stderr
    assert hub.asked_for(WEIGHTS)
