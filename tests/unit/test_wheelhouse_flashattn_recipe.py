"""A recipe made from a loopback index by the real pip-tools; nothing of the source is run."""

import io
import sys
import tarfile
from dataclasses import replace

import pytest

from manifests import canonical
from manifests.errors import IntegrityError, SourceError, TargetError, UsageError
from manifests.lock import PUBLISHED, Build, Target, Wheel
from manifests.records import from_data, to_data
from tests.support.index import Index, serving, wheel
from wheelhouse.flashattn import recipe
from wheelhouse.sources import Sources
from wheelhouse.store import Store

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
TARGET = Target(gpus=("sm_86", "sm_89"), glibc="2.28", python=PYTHON)
VERSION, DATE = "2.8.3.post2", "2026-11-01T00:00:00Z"
TOOLS = ("ninja", "packaging", "psutil", "setuptools", "wheel", "helper", "einops")


def source(folder, text):
    """A source archive whose setup.py must not be run."""
    data = f"open({str(folder / 'RAN')!r}, 'w')\n{text}".encode()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in (("flash_attn", None), ("flash_attn/setup.py", data)):
            member = tarfile.TarInfo(name.replace("flash_attn", f"flash_attn-{VERSION}", 1))
            member.type = tarfile.REGTYPE if content else tarfile.DIRTYPE
            member.size = len(content or b"")
            archive.addfile(member, io.BytesIO(content or b""))
    return f"flash_attn-{VERSION}.tar.gz", buffer.getvalue()


@pytest.fixture
def index(tmp_path):
    with serving(Index()) as index:
        for name in TOOLS:
            index.add(wheel(name, "1.0"))
        for torch in ("2.10.0", "2.13.0", "2.14.1", "2.6.0"):
            index.add(wheel("torch", torch, requires=["helper"]))
        index.add(
            wheel(
                "cuda-toolkit",
                "13.0.3",
                # More headers: `wheel` has no word for the extras that a project has.
                requires_python=">=3.8\nProvides-Extra: nvcc\nProvides-Extra: cccl",
                requires=[
                    "nvidia-cuda-nvcc==13.0.88; extra == 'nvcc'",
                    "nvidia-cuda-cccl==13.0.85; extra == 'cccl'",
                ],
            )
        )
        for name, versions in (("nvcc", ("13.0.88", "13.5.37")), ("cccl", ("13.0.85", "13.5.1"))):
            for version in versions:
                index.add(wheel(f"nvidia-cuda-{name}", version))
        index.add(source(tmp_path, "flags = '-std=c++17', '-std=c++17'\n"))
        yield index


@pytest.fixture
def make(index, tmp_path):
    counter = iter(range(99))

    def made(torch="2.10.0", cuda="12.8", names=("torch", "einops"), target=TARGET, **changes):
        wheels = tuple(
            Wheel(name, torch if name == "torch" else "1.0", f"{name}.whl", "", "0" * 64)
            for name in names
        )
        arguments = {"version": VERSION, "sources": Sources(index.simple)} | changes
        return recipe(
            arguments.pop("version"), target, wheels, cuda=cuda, date=DATE,
            python=sys.executable, store=Store(tmp_path / "cache/objects"),
            scratch=tmp_path / f"scratch{next(counter)}", **arguments,
        )  # fmt: skip

    return made


def test_a_recipe_pins_source_environment_and_flags(make, index, tmp_path):
    build = make()
    assert build.archs == ("80",)
    assert build.label == "cu128torch2.10cxx11abitrue.sm80"
    assert build.digest_from == PUBLISHED
    assert build.url.startswith(index.url)
    assert (build.units, build.torch, build.cuda) == (73, "2.10.0", "12.8")
    names = {wheel.name for wheel in build.environment}
    assert names == {"torch", "helper", "ninja", "packaging", "psutil", "setuptools", "wheel"}
    assert build.toolkit == ()  # PyPI has no nvcc 12
    assert build.patches == ()
    assert not (tmp_path / "RAN").exists()


def test_it_is_built_against_the_very_wheels_that_serve(make):
    torch = next(wheel for wheel in make().environment if wheel.name == "torch")
    assert torch.sha256 == "0" * 64  # the lock's, not the index's


def test_compilers_are_pinned_to_torchs_release_of_cuda(make):
    build = make(torch="2.13.0", cuda="13.0")
    assert {wheel.name: wheel.version for wheel in build.toolkit} == {
        "cuda-toolkit": "13.0.3",
        "nvidia-cuda-nvcc": "13.0.88",
        "nvidia-cuda-cccl": "13.0.85",
    }
    assert build.patches == ()  # 2.13 still takes the source as it is


def test_torch_2_14_gets_a_source_for_its_language_and_the_lock_keeps_it(make):
    build = make(torch="2.14.1", cuda="13.0")
    (patch,) = build.patches
    assert (patch.path, patch.old, patch.new) == ("setup.py", "-std=c++17", "-std=c++20")
    assert from_data(Build, canonical.loads(canonical.dumps(to_data(build)))) == build


def test_what_can_not_be_built_is_refused_before_anything_is_asked(make, index):
    asked = len(index.requests)
    with pytest.raises(TargetError, match="no kernels for sm_75"):
        make(target=replace(TARGET, gpus=("sm_75",)))
    with pytest.raises(TargetError, match=r"CUDA 12\.6.*sm_120"):
        make(target=replace(TARGET, gpus=("sm_120",)), cuda="12.6")
    with pytest.raises(UsageError, match=r"9\.9 is not known"):
        make(version="9.9")
    with pytest.raises(UsageError, match="no torch"):
        make(names=("einops",))
    with pytest.raises(UsageError, match="requires einops"):
        make(names=("torch",))
    with pytest.raises(UsageError, match=r"torch 2\.6\.0 has the old C\+\+ ABI"):
        make(torch="2.6.0")
    assert len(index.requests) == asked


def test_a_source_that_nobody_has_is_said(make, index):
    index.files = [file for file in index.files if "flash" not in file.filename]
    with pytest.raises(SourceError, match=r"no source offers flash-attn 2\.8\.3\.post2"):
        make()


def test_other_bytes_than_published_are_refused(make, index):
    next(file for file in index.files if "flash" in file.filename).sha256 = "1" * 64
    with pytest.raises(IntegrityError, match="sha256"):
        make()


def test_a_patch_that_does_not_apply_is_refused(make, index, tmp_path):
    index.files = [file for file in index.files if "flash" not in file.filename]
    index.add(source(tmp_path, "flags = '-std=c++23'\n"))
    with pytest.raises(IntegrityError, match=r"setup.py has no '-std=c\+\+17'"):
        make(torch="2.14.1", cuda="13.0")


def test_a_folder_is_a_source_too_and_is_said_to_be_unvouched(make, index, tmp_path):
    links = tmp_path / "links"
    links.mkdir()
    published = next(file for file in index.files if "flash" in file.filename)
    index.files.remove(published)
    (links / published.filename).write_bytes(published.data)
    build = make(sources=Sources(index.simple, find_links=(str(links),)))
    assert build.url == f"file:{published.filename}"
    assert build.digest_from == "computed here"
