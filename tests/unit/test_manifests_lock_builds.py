"""Builds in a lock: they come back as they went in, and lead out of no folder."""

from dataclasses import replace

import pytest

from manifests import lock
from manifests.errors import UsageError
from manifests.lock import Build, Lock, Model, Patch, Target, Wheel

DIGEST = "a" * 64
WHEEL = Wheel("torch", "2.10.0", "torch-2.10.0.whl", "https://index.example/torch.whl", DIGEST)
BUILD = Build(
    name="flash-attn",
    version="2.8.3.post2",
    label="cu128torch2.10cxx11abitrue.sm80",
    filename="flash_attn-2.8.3.post2.tar.gz",
    url="https://index.example/flash_attn-2.8.3.post2.tar.gz",
    sha256=DIGEST,
    archs=("80",),
    units=73,
    torch="2.10.0",
    cuda="12.8",
    environment=(WHEEL,),
    patches=(Patch("setup.py", "-std=c++17", "-std=c++20", "torch needs it", DIGEST),),
)
LOCK = Lock(
    schema=lock.SCHEMA,
    created=1,
    target=Target(("sm_86",), "2.31", "3.12"),
    stack="a-stack",
    channel="host",
    flavour="plain",
    conda=(),
    runtime_conda=(),
    wheels=(WHEEL,),
    runtime_wheels=(),
    model=Model("a-model", "folder:a-model", "r", ()),
    builds=(BUILD,),
)


def test_a_build_comes_back_as_it_went_in(tmp_path):
    path = tmp_path / "bundle.lock"
    path.write_bytes(LOCK.dump())
    assert lock.load(path) == LOCK


def test_a_lock_without_builds_is_the_same_as_before():
    assert b"builds" not in replace(LOCK, builds=()).dump()


@pytest.mark.parametrize(
    "build",
    [
        replace(BUILD, filename="../flash.tar.gz"),
        replace(BUILD, filename="a/b.tar.gz"),
        replace(BUILD, sha256="short"),
        replace(BUILD, environment=(replace(WHEEL, filename="/etc/passwd"),)),
        replace(BUILD, toolkit=(replace(WHEEL, sha256="A" * 64),)),
        replace(BUILD, patches=(replace(BUILD.patches[0], path="../setup.py"),)),
        replace(BUILD, patches=(replace(BUILD.patches[0], sha256=""),)),
    ],
)
def test_what_would_lead_out_of_its_folder_is_refused(build, tmp_path):
    path = tmp_path / "bundle.lock"
    path.write_bytes(replace(LOCK, builds=(build,)).dump())
    with pytest.raises(UsageError, match="not a lock"):
        lock.load(path)
