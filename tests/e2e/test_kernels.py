"""Our reader of GPU code against NVIDIA's cuobjdump, on libraries of seven years."""

import re
import subprocess
import sys
import zipfile
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pytest

from manifests.kernels import FileKernels
from manifests.kernels.images import LTO, RELOCATABLE, SECTION
from wheelhouse import kernels

pytestmark = pytest.mark.e2e

#: cuobjdump of CUDA 13.5 refuses what has code for GPUs before sm_50, and fails on what CUDA 12.0
#: to 12.2 made; that of CUDA 12.4, which Triton carried, reads both.
TOOLS = (
    ("nvidia-cuda-cuobjdump==13.5.37", "3.12", "*/bin/cuobjdump"),
    ("triton==3.0.0", "3.10", "*/bin/cuobjdump"),
)
#: Requirement, Python, and which of its files are compared. About 400 MB with the tools.
LIBRARIES = (
    ("torchvision==0.5.0", "3.7", "*/_C.so"),  # January 2020, CUDA 10.1
    ("faiss-gpu==1.6.3", "3.7", "*.so"),
    ("torchvision==0.8.2", "3.7", "*.so*"),
    ("torchvision==0.11.3", "3.8", "*.so*"),
    ("nvidia-nvjpeg-cu11==11.9.0.86", "3.10", "*.so*"),
    ("nvidia-cuda-runtime-cu11==11.7.99", "3.10", "*.a"),
    ("torchaudio==0.13.1", "3.10", "*.so"),
    ("torchvision==0.15.2", "3.10", "*.so*"),
    ("nvidia-cuda-runtime-cu12==12.1.105", "3.10", "*.a"),
    ("auto-gptq==0.4.2", "3.10", "*.so"),
    ("torchaudio==2.1.2", "3.10", "*.so"),
    ("torchvision==0.20.1", "3.10", "*.so*"),
    ("nvidia-nvjpeg-cu12==12.4.0.76", "3.10", "*.so*"),
    ("nvidia-cuda-runtime-cu12==12.9.79", "3.10", "*.a"),  # device code that is not yet linked
    ("bitsandbytes==0.45.5", "3.10", "*.so"),  # device-linked, with the originals beside it
    ("nvidia-cuda-runtime==13.0.96", "3.12", "*.a"),
    ("nvidia-nvjpeg==13.3.2.43", "3.12", "*.so*"),
    ("torchvision==0.25.0", "3.12", "*.so*"),
    ("torchaudio==2.10.0", "3.12", "*.so"),
    ("xformers==0.0.35", "3.9", "*.so"),  # code for sm_90a
    ("torchvision==0.28.0", "3.12", "*.so*"),  # 2026, CUDA 13
)
PLATFORMS = ("manylinux1", "manylinux2010", "manylinux2014", "manylinux_2_17", "manylinux_2_24",
             "manylinux_2_27", "manylinux_2_28")  # fmt: skip
LINE = re.compile(r"^(ELF|PTX) file +\d+: .*\.sm_(\d+)([af]?)\.(?:cubin|ptx)$", re.MULTILINE)
#: sm_90a is the first arch-specific target; cuobjdump 12.4 prints some older cubins as "sm_61a".
FIRST_SPECIFIC = 90


@dataclass(frozen=True)
class Fetched:
    """A library on the disk."""

    name: str
    path: Path


def fetch(folder: Path, requirement: str, python: str, pattern: str) -> list[Fetched]:
    """The files of a wheel that match, unpacked."""
    wheels = folder / requirement
    number = python.replace(".", "")
    abis = (f"cp{number}", f"cp{number}m", "abi3", "none")
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"),
            *("--only-binary=:all:", "--python-version", python, "--implementation", "cp"),
            *(word for abi in abis for word in ("--abi", abi)),
            *(word for name in PLATFORMS for word in ("--platform", f"{name}_x86_64")),
            *("--dest", wheels, requirement),
        ],
        check=True,
    )
    (wheel,) = wheels.iterdir()
    found = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if fnmatch(name, pattern):
                path = Path(archive.extract(name, wheels / "files"))
                found.append(Fetched(f"{requirement}: {name}", path))
    wheel.unlink()
    return found


def theirs(tools: list[Path], library: Path) -> Counter[str] | None:
    """What the newest cuobjdump that reads a library lists; None where all refuse."""
    for tool in tools:
        found: Counter[str] = Counter()
        for option in ("--list-elf", "--list-ptx"):
            done = subprocess.run([tool, option, library], capture_output=True, text=True)
            if done.returncode or "fatal" in done.stderr:
                break
            for kind, arch, variant in LINE.findall(done.stdout):
                found[spelled(kind, arch, variant)] += 1
        else:
            return found
    return None


def spelled(kind: str, arch: str, variant: str) -> str:
    """One way to write it: cuobjdump prints sm_100f as sm_100."""
    dropped = kind == "ELF" and (variant == "f" or int(arch) < FIRST_SPECIFIC)
    return f"{kind} {arch}{'' if dropped else variant}"


def ours(file: FileKernels) -> Counter[str]:
    """The same from our reader: cuobjdump sees no code among data, no LTO-IR, and the originals of
    a device link only where nothing was linked."""
    carriers = {group.carrier for group in file.containers}
    seen = SECTION if SECTION in carriers else RELOCATABLE
    found: Counter[str] = Counter()
    for group in file.containers:
        for image in group.images:
            if group.carrier == seen and image.kind != LTO:
                kind = "PTX" if image.kind == "ptx" else "ELF"
                found[spelled(kind, image.arch, image.variant)] += group.count
    return found


def test_agrees_with_cuobjdump_on_libraries_of_seven_years(tmp_path):
    tools = [fetch(tmp_path, *tool)[0].path for tool in TOOLS]
    for tool in tools:
        tool.chmod(0o755)
    agreed, images, differing, refused = [], 0, {}, []
    for wanted in LIBRARIES:
        for library in fetch(tmp_path, *wanted):
            files = list(kernels.scan(library.path).with_code())
            mine = ours(files[0]) if files else Counter()
            if not mine:
                continue
            listed = theirs(tools, library.path)
            if listed is None:
                refused.append(library.name)
            elif listed == mine:
                agreed.append(library.name)
                images += listed.total()
            else:
                differing[library.name] = (listed - mine, mine - listed)
            library.path.unlink()
    print(f"{len(agreed)} libraries agree, {images} images; cuobjdump refuses {refused}")
    assert differing == {}
    assert len(agreed) >= 20
    assert len({name.partition("==")[0] for name in agreed}) >= 8
