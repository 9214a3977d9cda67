"""`bundle plan`, and what `bundle create --dry-run` knows without a download."""

import json
import stat

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import refused, run
from tests.support.variants import manifest_of

EVERYTHING = "resolved for this target"


def planned(done) -> dict:
    assert done.returncode == 0, done.stderr
    plan: dict = json.loads(done.stdout)
    return plan


def packages(plan: dict) -> set[str]:
    return {item["name"] for item in plan["items"] if item["group"] != "weights"}


def test_a_plan_resolves_and_says_everything(bench, tmp_path):
    html = tmp_path / "plan.html"
    words = (*bench.words(), "--output", str(tmp_path / "media"), "--html", str(html))
    plan = planned(run("plan", *words, "--json"))
    assert plan["resolution"] == EVERYTHING
    locked = bench.locked()
    wanted = {part.name for part in (*locked.wheels, *locked.runtime_wheels, *locked.conda)}
    assert packages(plan) == wanted
    assert plan["disk_total"]["isolated"]["bytes"] > plan["model_bytes"]
    assert plan["kernels"]["libraries"] == []
    assert "stub-vllm" in html.read_text("utf-8")
    assert stat.S_IMODE(html.stat().st_mode) & 0o444
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]


def test_a_plan_on_a_screen(bench, tmp_path):
    done = run("plan", *bench.words(), "--lock", str(bench.lock), "--output", str(tmp_path))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100
    for name in ("target", "stack", "why", "packages", "kernels", "fit", "volumes", "disk"):
        assert any(line.startswith(f"{name:>8}  ") for line in lines), name
    assert f"from {bench.lock}" in " ".join(done.stdout.split())
    assert list(tmp_path.iterdir()) == []


def test_sizes_are_exact_where_it_was_built_before(bench, tmp_path):
    plan = planned(run("plan", *bench.words(), "--lock", str(bench.lock), "--json"))
    (folder,) = (bench.lock.parent / "media").iterdir()
    manifest, _ = manifest_of(folder)
    installed = sum(entry.size for entry in (*manifest.environment, *manifest.runtime))
    needs = {need["what"]: need["amount"] for need in plan["disk"]}
    assert needs["environment and runtime"] == {"bytes": installed, "exact": True}
    assert "the serving environment, packed" not in needs
    real = sum(path.stat().st_size for path in folder.glob("*.tar*"))
    assert plan["volumes"]["total"]["bytes"] == pytest.approx(real, abs=8_000_000)


def test_a_dry_run_says_that_nothing_was_resolved(bench, tmp_path):
    cache = tmp_path / "cache"
    plan = planned(bench.create(tmp_path / "media", "--dry-run", "--json", cache=str(cache)))
    assert "`bundle plan` resolves them" in plan["resolution"]
    assert packages(plan) == set()
    assert plan["volumes"] is None
    assert plan["promise"].startswith("nothing was downloaded or written")
    assert not cache.exists()


def test_a_dry_run_recalls_what_was_resolved_before(bench, tmp_path):
    plan = planned(bench.create(tmp_path / "media", "--dry-run", "--json"))
    assert plan["resolution"].startswith("as resolved before")
    assert packages(plan) == {wheel.name for wheel in bench.locked().wheels}
    assert not (tmp_path / "media").exists()


def test_a_dry_run_reads_a_lock(bench, tmp_path):
    cache = tmp_path / "cache"
    done = bench.follow(tmp_path / "media", "--dry-run", "--json", cache=str(cache))
    plan = planned(done)
    assert plan["resolution"] == f"from {bench.lock}"
    assert {part.name for part in bench.locked().conda} <= packages(plan)
    assert not cache.exists() and not (tmp_path / "media").exists()


def test_a_lock_that_is_not_there(bench, tmp_path):
    done = bench.create(tmp_path, "--dry-run", "--lock", str(tmp_path / "no.lock"))
    refused(done, ExitCode.USAGE, "no.lock", "lock")


def test_a_page_that_can_t_be_written_leaves_nothing(bench, tmp_path):
    (tmp_path / "plan.html").mkdir()
    words = (*bench.words(), "--lock", str(bench.lock), "--html", str(tmp_path / "plan.html"))
    refused(run("plan", *words), ExitCode.FILESYSTEM, "plan.html", "writing the page")
    assert [path.name for path in tmp_path.iterdir()] == ["plan.html"]


def test_volumes_are_counted(bench, tmp_path):
    words = (*bench.words(), "--lock", str(bench.lock), "--volume-size", "40M", "--json")
    plan = planned(run("plan", *words))
    volumes = plan["volumes"]
    assert volumes["size"] == 40_000_000
    assert volumes["count"] == -(-volumes["total"]["bytes"] // (40_000_000 - 512))
