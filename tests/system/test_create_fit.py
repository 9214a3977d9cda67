"""Models that the target's GPUs can't hold: refused before anything is resolved or fetched."""

import json

import pytest

from bundler import tinymodel
from manifests.exitcodes import ExitCode
from tests.support.connected import refused, rest_of, run

STACK = "vllm-0.19.1-cu128"


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny-vl"
    tinymodel.make(folder, architecture="conditional")
    return folder


@pytest.fixture
def words(model, tmp_path):
    """The flags of a request for a host with GPUs of so many MiB."""

    def give(mib, count=1):
        report = tmp_path / f"host-{mib}.txt"
        report.write_text(
            "vllm-bundle-report: 1\narch: x86_64\nos: ubuntu 24.04\nkernel: 6.8.0\n"
            f"libc: glibc 2.39\ndriver: 580.65\ngpu: {count} x NVIDIA L4, 8.9, {mib} MiB\n"
            "cpu: 8, avx2\nmemory: 64000 MiB\ndisk: /opt, 812345 MiB\n"
        )
        return [
            *("--target", str(report), "--stack", STACK, "--model", str(model)),
            *("--channel", "host", "--cache", str(tmp_path / "cache")),
        ]

    return give


@pytest.mark.parametrize("command", ["lock", "create"])
def test_a_model_that_can_t_fit(words, tmp_path, command):
    where = ("--output", str(tmp_path / "media"))
    if command == "lock":
        where = ("--lock", str(tmp_path / "bundle.lock"))
    done = run(command, *words(900), *where)
    refused(
        done,
        ExitCode.TARGET,
        "tiny-vl does not fit the GPU memory of the target",
        "of 943.7 MB",
        "are missing",
    )
    assert not (tmp_path / "bundle.lock").exists()
    assert rest_of(tmp_path / "media", tmp_path / "cache") == []
    for step in ("solve the conda", "resolve the wheels", "fetch"):
        assert step not in done.stderr


def test_the_plan_says_the_same(words):
    # A real plan resolves the stack's wheels; a dry run says the same of the model.
    done = run("create", *words(900), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    fit = json.loads(done.stdout)["fit"]
    assert fit["fits"] is False
    assert "are missing" in fit["sentence"]
