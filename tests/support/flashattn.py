"""Sources that are built in tests: flash-attn with fewer units, and a little one of our own."""

import io
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

_UNIT = re.compile(r'^ +"csrc/flash_attn/src/(\w+)\.cu",\n', re.MULTILINE)
_FLAGS = 'compiler_c17_flag=["-O3", "-std=c++17"'


def cut(source: Path, result: Path, units: Sequence[str], without: Sequence[str]) -> Path:
    """A copy of flash-attn's source archive that compiles flash_api.cpp and `units` alone.

    `without` names parts that its setup.py offers to leave out ("BACKWARD"): a unit then takes
    seconds instead of minutes. Nothing that is compiled is changed.
    """
    defines = [f"-DFLASHATTENTION_DISABLE_{part}" for part in without]
    with tarfile.open(source) as old, tarfile.open(result, "w:gz", compresslevel=1) as new:
        for member in old:
            if "composable_kernel" in member.name:  # for AMD's GPUs
                continue
            data = old.extractfile(member).read() if member.isfile() else b""
            if member.name.count("/") == 1 and member.name.endswith("/setup.py"):
                text = _UNIT.sub(lambda line: line[0] if line[1] in units else "", data.decode())
                for define in defines:
                    text = text.replace(f'# "{define}",', f'"{define}",', 1)
                flags = "".join(f', "{define}"' for define in defines)
                data = text.replace(_FLAGS, _FLAGS + flags, 1).encode()
                member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    return result


#: A source whose units the stand-in for nvcc compiles through ninja, as torch's extensions are.
_SETUP = """
import os, pathlib, subprocess, setuptools
from setuptools.command.build_ext import build_ext

UNITS = [f"unit{i}" for i in range(%d)]

class Ninja(build_ext):
    def build_extension(self, extension):
        folder = pathlib.Path(self.build_temp).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        nvcc = os.path.join(os.environ["CUDA_HOME"], "bin/nvcc")
        rules = ["rule cc", f"  command = {nvcc} -MMD -MF $out.d -fPIC -c $in -o $out",
                 "  depfile = $out.d", "  deps = gcc"]
        here = pathlib.Path(__file__).parent.absolute()
        rules += [f"build {folder}/{unit}.o: cc {here}/{unit}.c" for unit in UNITS]
        (folder / "build.ninja").write_text("\\n".join(rules) + "\\n")
        subprocess.run(["ninja", "-v", "-j", os.environ["MAX_JOBS"]], cwd=folder, check=True)
        target = pathlib.Path(self.get_ext_fullpath(extension.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        objects = [str(folder / f"{unit}.o") for unit in UNITS]
        subprocess.run(["cc", "-shared", "-o", str(target), *objects], check=True)

version = "1.0+" + os.environ["FLASH_ATTN_LOCAL_VERSION"]
setuptools.setup(name="flash_attn", version=version, py_modules=[],
                 ext_modules=[setuptools.Extension("flash_attn_2_cuda", [])],
                 cmdclass={"build_ext": Ninja})
"""


def little(folder: Path, units: int) -> Path:
    """A source archive flash_attn-1.0.tar.gz of so many C units."""
    path = folder / "flash_attn-1.0.tar.gz"
    files = {"setup.py": _SETUP % units}
    files |= {f"unit{i}.c": f"int number{i}(void) {{ return {i}; }}\n" for i in range(units)}
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"flash_attn-1.0/{name}")
            member.size, member.mtime = len(text), 1_700_000_000
            archive.addfile(member, io.BytesIO(text.encode()))
    return path
