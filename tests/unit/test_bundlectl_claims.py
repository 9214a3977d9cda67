"""Ports and GPUs that two servers of one machine can't share."""

import pytest

from bundlectl.claims import Claim, clashes
from bundlectl.nvidia import Gpu

FOUND = tuple(Gpu(f"GPU-{n}{n}{n}{n}-a", "A10", 24 << 30, index=n) for n in range(4))


def told(mine, other, found=FOUND):
    return [(clash.certain, clash.text) for clash in clashes(mine, [other], found)]


def test_a_port_is_one_servers():
    ((certain, text),) = told(Claim("b", 8000, on_gpu=False), Claim("default", 8000, on_gpu=False))
    assert certain
    assert "8000" in text
    assert "default" in text


@pytest.mark.parametrize(
    ("mine", "theirs", "certain"),
    [
        ("0,1", "2,3", []),
        ("0,1", "1,2", [True]),
        ("0", "GPU-0000", [True]),
        ("GPU-1111-a", "GPU-1111", [True]),
        ("1", "GPU-0000-a", []),
        ("", "0", [False]),
        ("0", "", [False]),
        ("0", "MIG-12345678-1", [False]),
        ("MIG-12345678-1", "MIG-12345678-1", [True]),
        ("MIG-12345678-1", "MIG-12345678-2", []),
        ("9", "9", [True]),
    ],
)
def test_gpus(mine, theirs, certain):
    assert [was for was, _ in told(Claim("b", 1, mine), Claim("default", 2, theirs))] == certain


def test_without_nvidia_smi_numbers_are_compared_with_numbers_only():
    assert told(Claim("b", 1, "0"), Claim("default", 2, "1"), ()) == []
    ((certain, text),) = told(Claim("b", 1, "0,1"), Claim("default", 2, "1"), ())
    assert certain
    assert "GPU 1" in text
    ((certain, _),) = told(Claim("b", 1, "0"), Claim("default", 2, "GPU-1111"), ())
    assert not certain


def test_servers_without_gpus_share_them():
    assert told(Claim("b", 1, on_gpu=False), Claim("default", 2)) == []
