"""Requests that can't be fulfilled: each is refused before anything is fetched or written."""

import shutil
import sys

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import refused, rest_of, run

USAGE, TARGET = ExitCode.USAGE, ExitCode.TARGET
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"gpu": "sm_868"}, USAGE, ("unknown GPU 'sm_868'", "sm_86", "did you mean")),
        ({"gpu": "sm_70", "stack": None}, TARGET, ("no stack of this release fits sm_70", "vllm-")),
        ({"gpu": None}, USAGE, ("the isolated host is not described", "--gpu", "--target")),
        ({"python": "3.9"}, USAGE, ("Python 3.9", "3.11 or 3.12 or 3.13", "choose --python 3.11")),
        ({"glibc": "2.5"}, TARGET, ("glibc 2.5", "needs 2.", "another --stack")),
        ({"channel": "conda-forge"}, USAGE, ("'conda-forge' is not a URL", "file:///", "host")),
        ({"model": "./not-there"}, USAGE, ("'./not-there': no such folder", "ORG/NAME")),
        ({"name": "my bundle"}, USAGE, ("'my bundle'", "letters, digits")),
    ],
)
def test_a_request_that_can_t_be_fulfilled(bench, tmp_path, changes, code, words):
    output = tmp_path / "media"
    refused(bench.create(output, **changes), code, *words)
    assert not output.exists()


def test_a_python_that_the_host_channel_can_t_give(bench, tmp_path):
    other = next(new for new in ("3.11", "3.12") if new != RUNNING)
    done = bench.create(tmp_path / "media", channel="host", python=other)
    refused(done, USAGE, f"made from this Python {RUNNING}", "use --channel with")


@pytest.mark.parametrize("epoch", ["yesterday", "99999999999"])
def test_a_source_date_epoch_that_is_no_number(bench, tmp_path, epoch):
    done = bench.create(tmp_path / "media", env={"SOURCE_DATE_EPOCH": epoch})
    refused(done, USAGE, f"SOURCE_DATE_EPOCH is '{epoch}'", "seconds since the epoch")
    assert rest_of(tmp_path / "media", bench.place.cache) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('modle = "x"', ("bundle.toml: unknown key 'modle'", "did you mean model?")),
        ("gpu = 86", ("bundle.toml: gpu is 86", "a text in quotes")),
        ("gpu = ", ("bundle.toml: can't be read", "correct that file")),
    ],
)
def test_a_settings_file_with_a_mistake(tmp_path, text, words):
    (tmp_path / "bundle.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(run("create", cwd=tmp_path), USAGE, *words)


def test_flags_win_over_the_settings_file(bench, tmp_path):
    (tmp_path / "bundle.toml").write_text('gpu = "sm_868"\nthinking = false\n')
    done = bench.create(tmp_path / "media", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "media").exists()


def test_a_bundle_of_that_name_exists(bench, tmp_path):
    done = bench.follow(tmp_path, "--name", "twice")
    assert done.returncode == 0, done.stderr
    before = (tmp_path / "twice/SHA256SUMS").read_bytes()

    refused(bench.follow(tmp_path, "--name", "twice"), USAGE, "twice: exists already", "--force")
    assert (tmp_path / "twice/SHA256SUMS").read_bytes() == before

    done = bench.follow(tmp_path, "--name", "twice", "--force", "--thinking", "off")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "twice/SHA256SUMS").read_bytes() != before
    assert [path.name for path in tmp_path.iterdir()] == ["twice"]


def test_force_replaces_nothing_but_a_bundle(bench, tmp_path):
    precious = tmp_path / "thesis" / "chapter1.txt"
    precious.parent.mkdir()
    precious.write_text("years of work")
    done = bench.follow(tmp_path, "--name", "thesis", "--force")
    refused(done, USAGE, "thesis: is not a bundle", "remove it yourself")
    assert precious.read_text() == "years of work"


def test_a_model_whose_name_is_too_long_for_a_bundle(bench, tmp_path):
    folder = tmp_path / ("long" * 50)
    shutil.copytree(bench.place.model, folder)
    done = bench.create(tmp_path / "media", model=str(folder))
    refused(done, USAGE, "can't be the name of a bundle", "give a --name")
    assert rest_of(tmp_path / "media", bench.place.cache) == []
