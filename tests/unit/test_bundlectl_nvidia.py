import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl import nvidia
from bundlectl.nvidia import MIB, Gpu, alike, gpus, parse, visible

#: As nvidia-smi prints the fields that are asked for.
TWO = (
    "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6, NVIDIA H200, 143771, 143180, Disabled, 9.0\n"
    "GPU-11111111-d72c-4106-c12f-20bd9faed9f6, NVIDIA L4, 23034, 200, [N/A], 8.9\n"
)
H200, L4 = parse(TWO)


def tool(folder, script):
    """A program in the place of nvidia-smi; gives the environment in which it is found."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return {"PATH": f"{folder}:{os.defpath}"}


def test_what_it_prints():
    assert Gpu(H200.uuid, "NVIDIA H200", 143771 * MIB, 143180 * MIB, "9.0") == H200
    assert (L4.memory, L4.free, L4.capability) == (23034 * MIB, 200 * MIB, "8.9")
    assert (H200.index, L4.index) == (0, 1)


@pytest.mark.parametrize(
    ("line", "memory", "capability"),
    [
        ("GPU-1, NVIDIA A100, 81920, 81000, Enabled, 8.0", 0, "8.0"),  # slices are what is used
        ("GPU-1, NVIDIA GB10, [N/A], [N/A], [N/A], 12.1", 0, "12.1"),  # memory of the processor
        ("GPU-1, Tesla V100, 16160, 16000, [N/A]", 16160 * MIB, ""),
        ("GPU-1, Tesla V100, 16160, 16000", 16160 * MIB, ""),
        ("GPU-1, NVIDIA X, 16160, [N/A], [N/A], 8.0", 0, "8.0"),  # not known is not "none free"
        ("GPU-1, NVIDIA X, 16160, 16000, [N/A], [Not Supported]", 16160 * MIB, ""),
    ],
)
def test_other_gpus(line, memory, capability):
    (found,) = parse(line)
    assert (found.memory, found.capability) == (memory, capability)


@given(st.text())
def test_any_other_text_is_no_gpu(text):
    assert all(one.uuid.startswith("GPU-") and one.memory >= 0 for one in parse(text))


def test_a_driver_that_does_not_know_a_field_is_asked_for_fewer(tmp_path):
    script = """case "$1" in
      *compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
      *) echo "GPU-1, Tesla V100, 16160, 16000, [N/A]" ;;
    esac"""
    (found,) = gpus(tool(tmp_path, script))
    assert (found.name, found.capability) == ("Tesla V100", "")


@pytest.mark.parametrize(
    "script",
    [
        'echo "NVIDIA-SMI has failed because it couldn\'t communicate with the driver"; exit 9',
        'echo "No devices were found"; exit 6',
        "exit 0",
        "kill -9 $$",
    ],
)
def test_a_tool_that_fails_names_none(tmp_path, script):
    assert gpus(tool(tmp_path, script)) == ()


def test_a_tool_that_hangs_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(nvidia, "_PATIENCE", 0.2)
    begun = time.monotonic()
    assert gpus(tool(tmp_path, "exec sleep 60")) == ()
    assert time.monotonic() - begun < 5


def test_memory_that_is_being_given_back_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(nvidia, "_PAUSE", 0.01)
    script = f"""n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/n
      [ "$n" -lt 3 ] && free=$((n * 100)) || free=20000
      echo "GPU-1, NVIDIA L4, 23034, $free, [N/A], 8.9" """
    environ = tool(tmp_path, script)
    (found,) = nvidia.settled(environ, lambda one: one.free > 10000 * MIB)
    assert (found.free, (tmp_path / "n").read_text().strip()) == (20000 * MIB, "4")


def test_memory_that_stays_taken_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(nvidia, "_PAUSE", 0.01)
    environ = tool(tmp_path, f"echo x >> {tmp_path}/asked; printf '{TWO}'")
    assert nvidia.settled(environ, lambda one: one.free > 1000 * MIB) == (H200, L4)
    assert (tmp_path / "asked").read_text().count("x") == 5


def test_figures_that_never_stand_still_are_not_waited_for(tmp_path, monkeypatch):
    """A desktop draws on the card."""
    monkeypatch.setattr(nvidia, "_PAUSE", 0.01)
    script = f"""n=$(cat {tmp_path}/n 2>/dev/null || echo 0); echo $((n + 1)) > {tmp_path}/n
      [ "$n" -lt 30 ] && free=$((100 + n % 2)) || free=20000
      echo "GPU-1, NVIDIA L4, 23034, $free, [N/A], 8.9" """
    (found,) = nvidia.settled(tool(tmp_path, script), lambda one: one.free > 10000 * MIB)
    assert found.free < 200 * MIB
    assert (tmp_path / "n").read_text().strip() == "6"  # two looks, and four with no more


def test_no_tool(tmp_path, monkeypatch):
    monkeypatch.setattr(nvidia, "_PLACES", ())
    assert gpus({"PATH": str(tmp_path)}) == ()
    (tmp_path / "nvidia-smi").write_text("no program")
    (tmp_path / "nvidia-smi").chmod(0o755)
    assert gpus({"PATH": str(tmp_path)}) == ()


def test_a_tool_outside_path(tmp_path, monkeypatch):
    tool(tmp_path, f"printf '{TWO}'")
    monkeypatch.setattr(nvidia, "_PLACES", (str(tmp_path / "nvidia-smi"),))
    assert gpus({"PATH": "/nowhere"}) == (H200, L4)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (None, (H200, L4)),
        ("", ()),
        ("1", (L4,)),
        ("1,0", (L4, H200)),
        ("0,-1,1", (H200,)),
        ("2", ()),
        ("GPU-1111", (L4,)),
        ("GPU-8932f937, 1", (H200, L4)),
        ("MIG-abc", ()),
        ("NoDevFiles", ()),
        ("0,0", (H200,)),
    ],
)
def test_what_cuda_visible_devices_leaves(tmp_path, chosen, expected):
    assert visible((H200, L4), chosen) == expected
    environ = tool(tmp_path, f"printf '{TWO}'")
    if chosen is not None:
        environ["CUDA_VISIBLE_DEVICES"] = chosen
    assert gpus(environ) == expected


def test_gpus_that_one_server_can_share():
    two = [Gpu(f"GPU-{n}", "NVIDIA L4", 23034 * MIB) for n in range(2)]
    screen = Gpu("GPU-9", "NVIDIA T400", 4096 * MIB)
    assert alike([screen, *two]) == tuple(two)
    assert alike([*two, H200]) == (H200,)
    assert alike([]) == ()
    sliced = Gpu("GPU-8", "NVIDIA A100", 0)
    assert alike([screen, sliced]) == (screen, sliced)
