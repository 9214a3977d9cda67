"""`bundle kernels` as a person and a script see it."""

import json

import pytest
from click.testing import CliRunner

from bundler.commands.kernels import command
from manifests.errors import BundleError, UsageError
from tests.support import gpucode


@pytest.fixture
def place(tmp_path):
    library = gpucode.library(*[("sm_75", "sm_80", "compute_80")] * 40)
    (tmp_path / "libthing.so").write_bytes(library)
    return tmp_path


def run(*words):
    result = CliRunner().invoke(command, list(map(str, words)), standalone_mode=False)
    if isinstance(result.exception, BundleError):
        raise result.exception
    return result


def test_without_a_gpu_the_architectures_are_listed(place):
    result = run(place)
    assert result.return_value == 0
    assert "libthing.so  40     sm_75 sm_80 compute_80 (PTX 8.8)" in result.stdout
    (file,) = json.loads(run(place, "--json").stdout)["files"]
    assert file["units"] == 40
    assert file["containers"][0]["count"] == 40


def test_with_gpus_there_is_a_verdict_for_each(place):
    result = run(place, "--gpu", "a10,h100", "--driver", "580.65.06", "--json")
    assert result.return_value == 0
    answer = json.loads(result.stdout)
    assert [(row["gpu"], row["worst"]) for row in answer["files"]] == [
        ("sm_86", "compatible"),
        ("sm_90", "jit"),
    ]
    assert answer["files"][1]["ptx_driver"] == "575.51.03"
    assert answer["errors"] == []


def test_a_gap_is_exit_code_5(place):
    result = run(place, "--gpu", "sm_70")
    assert result.return_value == 5
    assert "error: libthing.so: sm_70 has no code in its 40 units" in result.stdout
    assert run(place, "--gpu", "sm_90", "--driver", "535.104").return_value == 5


@pytest.mark.parametrize(
    "words", [["--gpu", "cpu"], ["--gpu", "sm_86", "--driver", "new"], ["--gpu", "sm_1"]]
)
def test_mistakes_are_told(place, words):
    with pytest.raises(UsageError):
        run(place, *words)
