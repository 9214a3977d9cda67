"""What a real GPU host printed, and what is made of it: an H200 without any network."""

import json
from pathlib import Path

import pytest

from bundlectl.host.accelerator import driver_release
from bundler.request import Request
from bundler.target import describe
from manifests import choice, hostreport
from manifests.lock import Target

REPORTS = Path(__file__).resolve().parents[1] / "data" / "reports"
MIB = 1 << 20


@pytest.mark.parametrize("name", ["h200.txt", "h200.json"])
def test_the_report_of_an_h200(name):
    report = hostreport.load((REPORTS / name).read_bytes(), name)
    assert report.checked
    target = describe(Request("", "m", Path(), "host", target=REPORTS / name)).target
    assert target == Target(
        ("sm_90",), "2.39", "", driver="580.159.04", gpu_memory=143771 * MIB, gpu_count=1
    )
    fits = {verdict.stack for verdict in choice.choose(target).verdicts if verdict.fits}
    assert fits == {"vllm-0.33.0-cu130", "vllm-0.20.2-cu130", "vllm-0.19.1-cu128"}


def test_its_two_forms_say_the_same():
    text = hostreport.load((REPORTS / "h200.txt").read_bytes(), "text")
    assert text == hostreport.load((REPORTS / "h200.json").read_bytes(), "json")
    lines = (REPORTS / "h200.txt").read_text().splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 72
    assert json.loads((REPORTS / "h200.json").read_text())["gpu"]


def test_the_driver_that_preflight_finds_there():
    version = (
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  "
        "(nixbld@)  \nGCC version:  gcc version 15.3.0 (GCC) \n"
    )
    assert driver_release(version) == "580.159.04"
