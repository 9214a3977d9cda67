"""What a run says: JSON for machines, the result alone with --quiet, a plan without traces."""

import json
import os

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import run
from tests.support.hub import Hub


def listing(folder):
    return sorted((str(path), os.lstat(path).st_mtime_ns) for path in folder.rglob("*"))


def test_json_for_success(bench, tmp_path):
    done = bench.follow(tmp_path, "--json")
    assert done.returncode == 0
    assert done.stderr == ""
    result = json.loads(done.stdout)
    folder = tmp_path / "tiny-qwen3.5+small+cpu"
    assert result["bundle"] == str(folder)
    assert result["size"] < sum(path.stat().st_size for path in folder.iterdir())
    assert len(result["manifest_sha256"]) == 64


@pytest.mark.parametrize("words", [["--gpu", "sm_868"], ["--no-such-flag"], ["--gpu"], []])
def test_json_for_errors(words):
    done = run("create", "--model", "x/y", *words, "--json")
    assert done.returncode == ExitCode.USAGE
    assert done.stderr == ""
    result = json.loads(done.stdout)
    assert result["exit_code"] == ExitCode.USAGE
    assert result["error"]
    assert result["mend"]


def test_quiet_prints_the_result_alone(bench, tmp_path):
    done = bench.follow(tmp_path, "--quiet")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "on the isolated host: sh tiny-qwen3.5+small+cpu/install.sh" in done.stdout


def test_a_dry_run_leaves_no_trace(bench, tmp_path):
    cache, output = tmp_path / "cache", tmp_path / "media"
    done = bench.create(output, "--dry-run", cache=str(cache))
    assert done.returncode == 0, done.stderr
    assert "nothing was downloaded or written" in done.stdout
    assert "vllm" not in done.stderr
    assert not cache.exists()
    assert not output.exists()


def test_a_dry_run_with_a_hub_fetches_small_files_at_most(bench, tmp_path):
    name = "Qwen/Tiny-Qwen3.5"
    (tmp_path / "hub/Qwen").mkdir(parents=True)
    (tmp_path / "hub" / name).symlink_to(bench.place.model)
    with Hub(tmp_path / "hub") as hub:
        done = bench.create(
            *(tmp_path / "media", "--dry-run", "--json"),
            model=name,
            endpoint=hub.endpoint,
            cache=str(tmp_path / "cache"),
        )
        assert done.returncode == 0, done.stdout
        assert hub.asked_for("model.safetensors") == []
    plan = json.loads(done.stdout)
    assert plan["model"].startswith("Tiny-Qwen3.5 from hf:Qwen/Tiny-Qwen3.5")
    assert plan["model_bytes"] > (bench.place.model / "model.safetensors").stat().st_size
    assert not (tmp_path / "media").exists()
