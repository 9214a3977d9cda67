"""flash-attn from its recipe: the real source, torch and nvcc from wheels, two of its 73 units."""

import subprocess
import sys
from dataclasses import replace
from functools import partial

import pytest

from bundler import conda, hostchannel
from manifests.errors import TargetError
from manifests.lock import Target
from tests.support.flashattn import cut
from tests.support.scratch import scratch
from wheelhouse import elf, kernels
from wheelhouse.fetch import Fetcher
from wheelhouse.flashattn import Builder, Machine, inspect, obtain, recipe
from wheelhouse.lockwheels import lock_requirements
from wheelhouse.sources import from_settings
from wheelhouse.store import Store

pytestmark = pytest.mark.e2e

VERSION, DATE = "2.8.3.post2", "2026-11-15T00:00:00Z"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
#: The CUDA build on PyPI whose closure is small; `===` because a folder may have a +cpu build.
TORCH, CUDA = "2.13.0", "13.0"
UNITS = ("flash_fwd_hdim32_fp16_sm80", "flash_bwd_hdim64_fp16_sm80")
MACHINE = Machine(cores=2, memory=16_000_000_000)


@pytest.fixture(scope="module")
def make_python(tmp_path_factory):
    """Makes an interpreter as `bundle create --channel host` does: of conda packages."""
    with scratch(tmp_path_factory, "channel") as place:
        source = conda.channel("host", lambda: hostchannel.build(place / "channel"))
        target = Target(("cpu",), hostchannel.host_glibc(), PYTHON)
        packages = conda.solve(source, (f"python {PYTHON}.*",), target, place / "repodata")
        store = Store(place / "objects")
        conda.fetch(set(packages), source, Fetcher(from_settings(), store))

        def made(folder):
            conda.create(packages, folder, store, place / f"create-{len(list(place.iterdir()))}")
            return folder / "bin/python"

        yield made


@pytest.fixture(scope="module")
def parts(tmp_path_factory, make_python):
    """Recipe, target and builder of a cut source, with compilers from wheels."""
    with scratch(tmp_path_factory, "flash") as folder:
        target = Target(("sm_86", "sm_89"), hostchannel.host_glibc(), PYTHON)
        sources, store = from_settings(), Store(folder / "objects")
        asked = {"python": make_python(folder / "python"), "target": target, "sources": sources}
        asked |= {"store": store, "date": DATE}
        (folder / "lock").mkdir()
        wheels = lock_requirements((f"torch==={TORCH}", "einops"), scratch=folder / "lock", **asked)
        asked.pop("target")
        build = recipe(VERSION, target, wheels, cuda=CUDA, scratch=folder / "recipe", **asked)
        links = folder / "links"
        links.mkdir()
        small = cut(
            store.verified(build.sha256, "source"), links / build.filename, UNITS,
            ("BACKWARD", "DROPOUT", "ALIBI", "SOFTCAP", "LOCAL"),
        )  # fmt: skip
        with small.open("rb", buffering=0) as handle:
            digest = store.adopt(handle)
        small_build = replace(build, sha256=digest, size=0, units=1 + len(UNITS))
        # No compilers of this machine: those of the wheels are what is tried.
        builder = Builder(
            folder / "builds", store, sources, make_python, machine=MACHINE,
            environment={"PATH": "/usr/bin:/bin"}, toolkits="/nowhere",
        )  # fmt: skip
        yield build, small_build, target, builder


def test_a_recipe_names_everything_by_digest(parts):
    build, _, _, _ = parts
    assert (build.archs, build.units, build.cuda) == (("80",), 73, CUDA)
    assert build.label == "cu130torch2.13cxx11abitrue.sm80"
    names = {wheel.name for wheel in build.environment}
    assert {"torch", "ninja", "setuptools", "wheel", "packaging", "psutil"} <= names
    assert "nvidia-cuda-nvcc" in {wheel.name for wheel in build.toolkit}
    versions = {wheel.name: wheel.version for wheel in build.toolkit}
    assert versions["nvidia-nvvm"].startswith("13.0.")  # of nvcc's release, not the newest


@pytest.fixture(scope="module")
def built(parts):
    _, build, target, builder = parts
    units = []
    return obtain(build, target, builder, compiled=units.append), units


def test_it_is_built_without_a_network_and_checked(parts, built):
    _, build, _, builder = parts
    wheel, units = built
    assert sum(units) == build.units
    assert wheel.filename.startswith(f"flash_attn-{VERSION}+{build.label}-cp")
    path = builder.store.verified(wheel.sha256, wheel.filename)
    held = [c for file in kernels.scan(path).with_code() for c in file.containers]
    assert {str(image) for group in held for image in group.images} == {"sm_80"}
    assert sum(group.count for group in held) == len(UNITS)
    assert "nvcc 13.0" in wheel.derived.changes[0]
    (library,) = elf.scan(path).files
    assert not library.runpath  # no folder of this machine


def test_it_is_taken_again(parts, built):
    _, build, target, builder = parts
    again = obtain(build, target, replace(builder, offline=True))
    assert again == built[0]
    assert [path.name for path in builder.root.iterdir()] == ["wheels"]


#: Lazily, because the units that were cut are missed at the first call of what they hold.
_IMPORT = """
import os, sys, torch
sys.setdlopenflags(os.RTLD_LAZY)
import flash_attn_2_cuda as extension
print(*sorted(dir(extension)))
"""


def test_it_imports_beside_its_torch(parts, built, make_python, tmp_path):
    _, build, _, builder = parts
    wheel = built[0]
    python = make_python(tmp_path / "python")
    links = tmp_path / "links"
    links.mkdir()
    everything = [*build.environment, wheel]
    for one in everything:
        (links / one.filename).symlink_to(builder.store.path(one.sha256))
    subprocess.run(
        [sys.executable, "-m", "pip", "--isolated", "--python", str(python), "install", "--quiet",
         "--no-index", "--no-deps", "--no-compile", *map(str, links.iterdir())],
        check=True,
    )  # fmt: skip
    names = subprocess.run(
        [python, "-c", _IMPORT],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert {"fwd", "varlen_fwd", "fwd_kvcache", "bwd", "varlen_bwd"} <= set(names)


def test_a_wheel_that_is_brought_is_judged_in_the_same_way(parts, built, tmp_path):
    _, build, target, builder = parts
    wheel = built[0]
    brought = tmp_path / wheel.filename
    brought.symlink_to(builder.store.path(wheel.sha256))
    torch = next(one for one in build.environment if one.name == "torch")
    judge = partial(
        inspect, brought, version=VERSION, torch=TORCH, cuda=CUDA, store=builder.store,
        torch_place=builder.store.path(torch.sha256),
    )  # fmt: skip
    assert judge(target).sha256 == wheel.sha256
    with pytest.raises(TargetError) as caught:
        judge(replace(target, gpus=("sm_86", "sm_90"), glibc="2.31"))
    said = " ".join(caught.value.findings)
    assert "sm_90" in said and "GLIBC_2.32" in said
