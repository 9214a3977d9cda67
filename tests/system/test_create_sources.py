"""Channels and indexes that can't be reached or give other bytes than they published."""

import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import damage, refused, rest_of, run
from tests.support.index import Index, serving

#: The port "discard": nobody listens there.
NOBODY = "http://127.0.0.1:9"


def test_a_channel_that_can_t_be_reached(bench, tmp_path):
    cache = tmp_path / "cache"
    for channel in (f"{NOBODY}/conda", f"file://{tmp_path}/none"):
        done = bench.create(tmp_path / "media", channel=channel, cache=str(cache))
        refused(done, ExitCode.SOURCE, channel, "--channel URL", "--channel host")
    assert rest_of(tmp_path / "media", cache) == []
    assert not (cache / "objects").exists()


def test_a_channel_that_can_t_be_reached_although_there_is_a_lock(bench, tmp_path):
    cache = str(tmp_path / "cache")
    done = bench.follow(tmp_path / "media", channel=f"file://{tmp_path}/none", cache=cache)
    refused(done, ExitCode.SOURCE, "--channel")
    assert rest_of(tmp_path / "media", tmp_path / "cache") == []


def test_a_package_that_differs_from_its_channel_s_index(bench, tmp_path):
    channel = tmp_path / "channel"
    shutil.copytree(urlsplit(bench.channel).path, channel)
    package = next(channel.glob("linux-64/libgcc-*.conda"))
    damage(package)
    cache = tmp_path / "cache"
    done = bench.create(tmp_path / "media", channel=channel.as_uri(), cache=str(cache))
    refused(done, ExitCode.INTEGRITY, package.name, "again")
    assert rest_of(tmp_path / "media", cache) == []


@pytest.fixture
def index(bench):
    """An index that has all wheels of the small bundle."""
    index = Index()
    locked = bench.locked()
    store = bench.place.cache / "objects"
    for wheel in {*locked.wheels, *locked.runtime_wheels}:
        index.add((wheel.filename, (store / wheel.sha256[:2] / wheel.sha256).read_bytes()))
    with serving(index):
        yield index


@pytest.fixture
def without_wheels(bench, tmp_path) -> Path:
    """A cache in which no wheel is and nothing was resolved."""
    cache = bench.own_cache(tmp_path / "cache")
    locked = bench.locked()
    for wheel in {*locked.wheels, *locked.runtime_wheels}:
        (cache / "objects" / wheel.sha256[:2] / wheel.sha256).unlink()
    shutil.rmtree(cache / "resolutions")
    return cache


def test_an_index_that_can_t_be_reached(bench, without_wheels, tmp_path):
    done = bench.create(tmp_path / "media", index_url=f"{NOBODY}/simple", cache=str(without_wheels))
    refused(done, ExitCode.SOURCE, "127.0.0.1:9 can't be reached", "--index-url", "--find-links")
    assert rest_of(tmp_path / "media", without_wheels) == []


def test_an_index_that_serves_other_bytes_than_it_published(bench, index, without_wheels, tmp_path):
    lock = tmp_path / "bundle.lock"
    words = bench.words(index_url=index.simple, cache=str(without_wheels))
    done = run("lock", *words, "--lock", str(lock))
    assert done.returncode == 0, done.stderr
    urls = [wheel["url"] for wheel in json.loads(lock.read_bytes())["runtime_wheels"]]
    assert all(url.startswith(f"{index.url}/files/") for url in urls)

    tqdm = next(file for file in index.files if file.filename.startswith("tqdm"))
    honest = tqdm.data
    tqdm.data = honest[:-1] + bytes([honest[-1] ^ 1])
    command = ("create", *words, "--output", str(tmp_path / "media"), "--lock", str(lock))
    done = run(*command)
    refused(done, ExitCode.INTEGRITY, tqdm.filename, "if it repeats, the source was altered")
    assert rest_of(tmp_path / "media", without_wheels) == []

    tqdm.data = honest
    done = run(*command)
    assert done.returncode == 0, done.stderr


def test_an_index_without_a_wheel_that_is_needed(bench, index, without_wheels, tmp_path):
    index.files = [file for file in index.files if not file.filename.startswith("tqdm")]
    done = bench.create(tmp_path / "media", index_url=index.simple, cache=str(without_wheels))
    refused(done, ExitCode.SOURCE, "no source has tqdm", "--index-url", "--find-links")
    assert rest_of(tmp_path / "media", without_wheels) == []
