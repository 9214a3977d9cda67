"""The same lock gives the same bytes, whoever builds it, wherever, whenever."""

import os
import stat
import subprocess

import pytest

from tests.support.connected import run
from tests.support.small import bundle


def contents(folder):
    return {
        path.name: (stat.S_IMODE(path.stat().st_mode), path.read_bytes())
        for path in folder.iterdir()
    }


def private():
    os.umask(0o077)


def test_the_same_lock_gives_the_same_bytes(bench, tmp_path):
    first = bench.follow(tmp_path / "here", env={"TZ": "UTC", "LC_ALL": "C.UTF-8"})
    assert first.returncode == 0, first.stderr
    second = bench.follow(
        tmp_path / "far away" / "média",
        cache=str(tmp_path / "other cache"),
        env={"TZ": "Asia/Kathmandu", "LC_ALL": "C", "HOME": str(tmp_path), "PYTHONHASHSEED": "7"},
        before=private,
    )
    assert second.returncode == 0, second.stderr
    assert "build the serving environment" in second.stderr
    (one,) = (tmp_path / "here").iterdir()
    (two,) = (tmp_path / "far away/média").iterdir()
    ours, theirs = contents(one), contents(two)
    assert ours.keys() == theirs.keys()
    for name, content in ours.items():
        assert content == theirs[name], name
    assert bundle("audit", str(two)).returncode == 0


@pytest.mark.e2e
def test_another_account_gives_the_same_bytes(bench, tmp_path):
    """Another uid and gid, which no account database knows, no home folder, one core, no umask."""
    account = ("unshare", "--user", "--map-user=123456", "--map-group=123457")
    done = subprocess.run([*account, "id", "-u"], capture_output=True, text=True, check=False)
    if done.stdout.strip() != "123456":
        pytest.skip("this machine does not let us be somebody else")
    first = bench.follow(tmp_path / "ours")
    assert first.returncode == 0, first.stderr
    second = bench.follow(
        tmp_path / "theirs",
        cache=str(tmp_path / "their cache"),
        env={"HOME": "/nonexistent", "USER": "mallory", "LOGNAME": "mallory", "LANG": "C"},
        launcher=(*account, "taskset", "-c", "0", "sh", "-c", 'umask 0; exec "$@"', "sh"),
    )
    assert second.returncode == 0, second.stderr
    assert "build the serving environment" in second.stderr
    (one,) = (tmp_path / "ours").iterdir()
    (two,) = (tmp_path / "theirs").iterdir()
    assert contents(one) == contents(two)


def test_a_lock_is_followed_without_a_network(bench, namespace, tmp_path):
    lock, cache = tmp_path / "bundle.lock", str(bench.place.cache)
    env = {"SOURCE_DATE_EPOCH": "1760000000"}
    assert run("lock", *bench.words(), "--lock", str(lock), env=env).returncode == 0
    command = ("create", *bench.words(), "--lock", str(lock), "--output")
    done = run(*command, str(tmp_path / "with"))
    assert done.returncode == 0, done.stderr
    done = run(
        *(*command, str(tmp_path / "without"), "--offline", "--cache", cache),
        launcher=(*namespace, "--net"),
    )
    assert done.returncode == 0, done.stderr
    (one,) = (tmp_path / "with").iterdir()
    (two,) = (tmp_path / "without").iterdir()
    assert contents(one) == contents(two)


def test_offline_with_a_cold_cache_says_what_is_missing(bench, tmp_path):
    done = bench.follow(tmp_path / "media", "--offline", cache=str(tmp_path / "cache"))
    assert done.returncode == 3
    assert "--offline, and" in done.stderr
    assert "run once without --offline" in done.stderr
