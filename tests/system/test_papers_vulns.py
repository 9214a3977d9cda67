"""`bundle vulns` and `bundlectl vulns` on a bundle that `bundle create` made."""

import json
from pathlib import Path

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import bundle, control

DATA = Path(__file__).parents[1] / "data/vulns/osv"
TODAY = ("--today", "2026-12-01")


@pytest.fixture(scope="module")
def database(small_bundle, tmp_path_factory):
    """Made for the small bundle, two packages of which get what is said of others."""
    records = tmp_path_factory.mktemp("records") / "records"
    records.mkdir()
    for name in ("PYSEC-2025-41", "GHSA-53q9-r3pm-6pq6", "PYSEC-2026-4344"):
        text = (DATA / f"{name}.json").read_text()
        for real, ours in (("vllm", "stub-vllm"), ("torch", "zstandard")):
            text = text.replace(f'"name": "{real}"', f'"name": "{ours}"')
        (records / f"{name}.json").write_text(text.replace('"0.32.0"', '"1.1"'))
    made = records.with_name("osv.json")
    done = bundle("vulns-database", str(made), "--from", str(records), "--for", str(small_bundle))
    assert done.returncode == 0, done.stderr
    return made


def test_the_bundle_its_lock_and_its_installation(small_bundle, host, database, tmp_path):
    words = ("--database", str(database), *TODAY, "--json", "--fail-on", "critical")
    lock = tmp_path / "bundle.lock"
    lock.write_text(bundle("inspect", str(small_bundle), "--raw", "lock").stdout)
    done = [bundle("vulns", str(place), *words) for place in (small_bundle, lock)]
    done.append(control(host, "vulns", *words))
    assert [one.returncode for one in done] == [ExitCode.USAGE] * 3, [one.stderr for one in done]
    media, locked, isolated = (json.loads(one.stdout) for one in done)
    (worst,) = (one for one in media["findings"] if one["level"] == "critical")
    assert (worst["name"], worst["version"]) == ("zstandard", "0.25.0")
    assert worst["places"] == ["runtime"]
    assert {one["name"] for one in media["findings"]} == {"stub-vllm", "zstandard"}
    assert "python" in {one["name"] for one in media["unseen"] if one["kind"] == "conda"}
    assert media["pickles"] == []
    for other, why in ((locked, "lock"), (isolated, "here")):
        assert other.pop("unscanned") == why
        assert {**other, "name": ""} == {**media, "name": ""}
    assert isolated["name"] == media["name"]


def test_a_screen_on_the_isolated_side(host, database):
    done = control(host, "vulns", "--database", str(database), *TODAY, "--lang", "zh")
    assert done.returncode == 0, done.stderr
    assert "stub-vllm 1.0" in done.stdout
    assert "未检查的内容" in done.stdout


def test_what_is_wrong_is_told(small_bundle, host, tmp_path):
    for done in (
        bundle("vulns", str(small_bundle), "--database", str(tmp_path / "none")),
        control(host, "vulns", "--database", str(tmp_path / "none")),
    ):
        assert done.returncode == ExitCode.USAGE
        assert "mend:" in done.stderr
        assert "Traceback" not in done.stderr
