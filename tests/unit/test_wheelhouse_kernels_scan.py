"""Scanning of files, folders, wheels and bundles."""

import zipfile

import pytest

from manifests.errors import IntegrityError, UsageError
from manifests.kernels.images import CUBIN
from tests.support import gpucode
from tests.support.simulator import Simulator
from wheelhouse import kernels, members
from wheelhouse.members import size_of

LIBRARY = gpucode.library(("sm_80", "compute_80"), ("sm_90a",))
FILES = {
    "pkg/_C.abi3.so": LIBRARY,
    "pkg/ops.py": b"import triton\n\n@triton.jit\ndef kernel(): ...\n",
    "pkg/deep/more.py": b"@triton.jit\ndef other(): ...\n",
    "pkg/plain.py": b"print('hello, world')\n",
    "pkg/cubins/one.cubin": gpucode.cubin(0x600640C, 8),
    "pkg/cubins/two.cubin": gpucode.cubin(0x600640C, 8),
    "pkg/libjit.so": gpucode.elf({".dynstr": b"\0nvrtcCompileProgram\0"}),
    "pkg/notes.md": b"\x7fELF\x02\x01\x01, as text",
    "pkg/empty": b"",
}
EXPECTED = [
    ("pkg/**/*.py", 0, ("triton",)),
    ("pkg/_C.abi3.so", 2, ()),
    ("pkg/cubins/*.cubin", 2, ()),
    ("pkg/libjit.so", 0, ("nvrtc",)),
]


def told(inventory):
    return [(file.path, file.count, file.made_on_target) for file in inventory.files]


@pytest.fixture
def folder(tmp_path):
    for path, data in FILES.items():
        (tmp_path / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tree" / path).write_bytes(data)
    (tmp_path / "tree/pkg/link.so").symlink_to("_C.abi3.so")
    return tmp_path / "tree"


@pytest.fixture
def wheel(tmp_path):
    with zipfile.ZipFile(tmp_path / "pkg-1.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in FILES.items():
            archive.writestr(path, data)
    return tmp_path / "pkg-1.whl"


@pytest.mark.parametrize("workers", [1, 4])
def test_a_folder_and_a_wheel_hold_the_same(folder, wheel, workers):
    assert told(kernels.scan(folder, workers=workers)) == EXPECTED
    assert kernels.scan(wheel, workers=workers) == kernels.scan(folder)


def test_large_members_of_a_wheel_go_through_a_file(wheel, monkeypatch):
    monkeypatch.setattr(members, "_IN_MEMORY", 100)
    assert told(kernels.scan(wheel)) == EXPECTED


def test_a_bundle_is_read_on_the_way(tmp_path):
    base = "lib/python3.11/site-packages"
    content = {
        "bin": None,
        "bin/conda-unpack": b"#!/bin/sh\n",
        "bin/python": b"#!/bin/sh\nexit 0\n",
        **{f"{base}/{path}": data for path, data in FILES.items()},
        f"{base}/pkg/link.so": "_C.abi3.so",
    }
    parents = {path.rpartition("/")[0] for path in content if path.count("/") > 1}
    folders = {"/".join(p.split("/")[:n]) for p in parents for n in range(1, p.count("/") + 2)}
    tree = {**dict.fromkeys(sorted(folders)), **content}
    bundle, _ = Simulator(environment=tree).write(tmp_path)
    counted = []
    found = kernels.scan(bundle, counted.append)
    assert told(found) == [(f"{base}/{path}", *rest) for path, *rest in EXPECTED]
    assert sum(counted) == size_of(bundle)
    (archive,) = bundle.glob("*.tar")
    data = bytearray(archive.read_bytes())
    data[data.index(b"\x28\xb5\x2f\xfd") + 40] ^= 1  # in the packed environment
    archive.write_bytes(data)
    with pytest.raises(IntegrityError):
        kernels.scan(bundle)


def test_the_cubin_carrier_is_named(folder):
    (file,) = [file for file in kernels.scan(folder).files if file.path.endswith("*.cubin")]
    assert [group.carrier for group in file.containers] == [CUBIN]


def test_progress_counts_what_was_opened(folder):
    counted = []
    kernels.scan(folder, counted.append)
    assert 0 < sum(counted) <= size_of(folder)


def test_a_single_file_of_each_kind(folder, tmp_path):
    (tmp_path / "x.fatbin").write_bytes(gpucode.container("sm_86"))
    assert told(kernels.scan(tmp_path / "x.fatbin")) == [("x.fatbin", 1, ())]
    assert told(kernels.scan(folder / "pkg/_C.abi3.so")) == [("_C.abi3.so", 2, ())]
    assert told(kernels.scan(folder / "pkg/cubins/one.cubin")) == [("one.cubin", 1, ())]
    assert told(kernels.scan(folder / "pkg/notes.md")) == []
    assert told(kernels.scan(folder / "pkg/empty")) == []


def test_damage_names_file_and_offset(folder):
    broken = folder / "pkg/_C.abi3.so"
    broken.write_bytes(LIBRARY[:-200])
    with pytest.raises(
        IntegrityError, match=r"^pkg/_C\.abi3\.so: at offset 0x[0-9a-f]+: .*cut off"
    ):
        kernels.scan(folder)


def test_a_damaged_wheel_is_told(wheel):
    data = bytearray(wheel.read_bytes())
    data[70] ^= 0xFF  # in the first member's compressed bytes
    wheel.write_bytes(data)
    with pytest.raises(IntegrityError, match="damaged"):
        kernels.scan(wheel)
    wheel.write_bytes(data[:-30])
    with pytest.raises(IntegrityError, match="damaged"):
        kernels.scan(wheel)


def test_nothing_there_is_a_mistake(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        kernels.scan(tmp_path / "missing")


def test_an_encrypted_member_is_told(wheel):
    data = bytearray(wheel.read_bytes())
    data[6] |= 1  # the first member's flags, here and in the directory at the end
    data[data.index(b"PK\x01\x02") + 8] |= 1
    wheel.write_bytes(data)
    with pytest.raises(IntegrityError, match="encrypted"):
        kernels.scan(wheel)
