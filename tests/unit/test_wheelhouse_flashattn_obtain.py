"""Around a build: what is asked before it starts, what is kept, what its environment has to be."""

import subprocess
import sys
from dataclasses import replace

import pytest

from manifests.errors import (
    FilesystemError,
    IntegrityError,
    SourceError,
    TargetError,
    UsageError,
)
from manifests.lock import Build, Target, Wheel
from tests.support import elves
from tests.support.gpucode import container
from tests.support.index import wheel
from wheelhouse import remember
from wheelhouse.flashattn import Builder, Machine, building, environment, finished, obtain
from wheelhouse.sources import Sources
from wheelhouse.store import Store

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TARGET = Target(gpus=("sm_86",), glibc="2.39", python=PYTHON)
LABEL = "cu130torch2.13cxx11abitrue.sm80"
BUILD = Build(
    name="flash-attn",
    version="1.0",
    label=LABEL,
    filename="flash_attn-1.0.tar.gz",
    url="file:flash_attn-1.0.tar.gz",
    sha256="0" * 64,
    archs=("80",),
    units=3,
    torch="2.13.0",
    cuda="13.0",
    environment=(),
    toolkit=(Wheel("nvidia-cuda-nvcc", "13.0.88", "nvcc.whl", "file:nvcc.whl", "2" * 64),),
)


def refuses_to_make(folder):
    raise AssertionError(f"{folder}: an interpreter is made, although the build can't start")


@pytest.fixture
def builder(tmp_path, monkeypatch):
    """One whose disk has room: how much this machine has at the moment is not the question."""
    roomy = building.shutil.disk_usage("/")._replace(free=1 << 50)
    monkeypatch.setattr(building.shutil, "disk_usage", lambda _: roomy)
    return Builder(
        tmp_path / "builds",
        Store(tmp_path / "objects"),
        Sources(""),
        refuses_to_make,
        offline=True,
        machine=Machine(2, 64_000_000_000),
        environment={"PATH": "/usr/bin:/bin"},
    )


def test_memory_is_looked_at_before_anything_is_fetched(builder):
    with pytest.raises(UsageError, match=r"1\.00 GB of memory are free"):
        obtain(BUILD, TARGET, replace(builder, machine=Machine(2, 1_000_000_000)))


def test_without_compilers_it_does_not_start(builder):
    with pytest.raises(SourceError, match=r"needs nvcc 99\.9"):
        obtain(replace(BUILD, cuda="99.9", toolkit=()), TARGET, builder)


def test_a_glibc_that_is_known_not_to_do_is_told_first(builder, monkeypatch):
    monkeypatch.setattr(building, "check_glibc", lambda wanted: building_check(wanted, "2.36"))
    with pytest.raises(TargetError, match=r"GLIBC_2\.32"):
        obtain(BUILD, replace(TARGET, glibc="2.31"), builder)


building_check = building.check_glibc


def test_what_is_not_in_the_cache_is_named_when_offline(builder):
    with pytest.raises(SourceError, match="--offline") as caught:
        obtain(BUILD, TARGET, builder)
    assert "nvcc.whl" in caught.value.findings


def kept(builder, *units, build=BUILD):
    """A wheel as an earlier build would have left it."""
    data = elves.library(["libtorch_cpu.so", "libcudart.so.13"], wants={"libc.so.6": ["GLIBC_2.4"]})
    for unit in units:
        data += bytes(-len(data) % 8) + container(unit)
    tag = f"cp{PYTHON.replace('.', '')}"
    files = {"flash_attn_2_cuda.so": data}
    filename, content = wheel(
        "flash-attn", f"1.0+{LABEL}", f"{tag}-{tag}-linux_x86_64", files=files
    )
    path = builder.root / filename
    builder.root.mkdir(exist_ok=True)
    path.write_bytes(content)
    with path.open("rb", buffering=0) as handle:
        digest = builder.store.adopt(handle)
    compilers = building._compilers(build, builder).identity(build)
    name = finished.key(build, TARGET, compilers, building.compiling.variables(build))
    made = Wheel("flash-attn", f"1.0+{LABEL}", filename, f"derived:{filename}", digest)
    remember.keep(builder.root / "wheels" / f"{name}.json", made)
    return made


def test_a_finished_wheel_is_taken_again_and_judged_again(builder):
    made = kept(builder, "sm_80", "sm_80")
    units = []
    assert obtain(BUILD, TARGET, builder, compiled=units.append) == made
    assert units == [BUILD.units]
    with pytest.raises(TargetError, match="does not fit"):
        obtain(BUILD, replace(TARGET, gpus=("sm_90",)), builder)


def test_the_result_is_judged_not_the_flags(builder):
    kept(builder, "sm_80", "sm_90")
    with pytest.raises(TargetError) as caught:
        obtain(BUILD, TARGET, builder)
    assert "no code for sm_80 in 1 of 2 units" in caught.value.findings[0]


def test_a_finished_wheel_that_went_bad_is_not_taken(builder):
    made = kept(builder, "sm_80")
    path = builder.store.path(made.sha256)
    path.chmod(0o644)
    path.write_bytes(b"something else")
    with pytest.raises(SourceError, match="--offline"):  # it would be built anew
        obtain(BUILD, TARGET, builder)


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "1" * 64},
        {"archs": ("80", "90")},
        {"environment": (Wheel("torch", "2.13.0", "t.whl", "", "3" * 64),)},
    ],
)
def test_all_that_decides_the_result_is_in_the_key(change):
    def key(build, target=TARGET, compilers=None):
        variables = building.compiling.variables(build)
        return finished.key(build, target, compilers or {"nvcc": "13.0.88"}, variables)

    assert key(BUILD) == key(replace(BUILD, url="https://elsewhere.example/x.tar.gz"))
    assert key(BUILD) != key(replace(BUILD, **change))
    assert key(BUILD) != key(BUILD, compilers={"nvcc": "13.0.90"})
    assert key(BUILD) != key(BUILD, replace(TARGET, python="3.9"))


@pytest.fixture
def python(tmp_path):
    """An interpreter with dummies of everything that a build imports."""
    prefix = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    site = prefix / f"lib/python{PYTHON}/site-packages"
    for name in ("setuptools", "wheel", "packaging", "psutil", "ninja"):
        (site / f"{name}.py").touch()
    (site / "torch.py").write_text(
        "import types\n__version__ = '2.13.0+cu130'\n"
        "version = types.SimpleNamespace(cuda='13.0')\n"
        "def compiled_with_cxx11_abi(): return True\n"
    )
    return prefix / "bin/python", site


def test_an_environment_that_has_everything_is_taken(python):
    program, site = python
    assert environment.look(BUILD, program) == environment.Environment(program, site)


def test_a_missing_tool_is_named_before_any_compile(python):
    program, site = python
    (site / "packaging.py").unlink()
    (site / "torch.py").unlink()
    with pytest.raises(SourceError, match="lacks packaging, torch"):
        environment.look(BUILD, program)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2.13.0+cu130", "2.12.0", r"torch 2\.12\.0"),
        ("cuda='13.0'", "cuda='12.8'", r"with CUDA 12\.8"),
        ("return True", "return False", "old C\\+\\+ ABI"),
    ],
)
def test_another_torch_than_the_recipes_is_refused(python, old, new, words):
    program, site = python
    text = (site / "torch.py").read_text()
    (site / "torch.py").write_text(text.replace(old, new))
    with pytest.raises(IntegrityError, match=words):
        environment.look(BUILD, program)


def test_an_interpreter_without_headers_is_refused(python, tmp_path):
    program, site = python
    (site / "sitecustomize.py").write_text(
        "import sysconfig\nold = sysconfig.get_path\n"
        "sysconfig.get_path = lambda name, *a: '/nowhere' if name == 'include' else old(name, *a)\n"
    )
    with pytest.raises(UsageError, match=r"no Python\.h"):
        environment.look(BUILD, program)


def test_an_interpreter_that_does_not_run_is_refused(tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'error while loading shared libraries' >&2\nexit 127\n")
    broken.chmod(0o755)
    with pytest.raises(UsageError) as caught:
        environment.look(BUILD, broken)
    assert "shared libraries" in caught.value.findings[0]


def test_a_cache_that_can_not_be_written_is_said(builder, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(FilesystemError, match="Not a directory"):
        obtain(BUILD, TARGET, replace(builder, root=tmp_path / "file/builds"))


def test_a_disk_that_is_too_small_is_told_with_both_figures(builder, monkeypatch):
    usage = building.shutil.disk_usage("/")._replace(free=1_000_000_000)
    monkeypatch.setattr(building.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(FilesystemError, match=r"1\.00 GB are free.*12\.00 GB"):
        obtain(BUILD, TARGET, builder)
