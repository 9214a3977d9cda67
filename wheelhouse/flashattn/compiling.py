"""Compiling: the source's own build hook, in a clean environment, without a network.

The hook of PEP 517 is called without an installer in between, so nothing is there that could look
for a package; the environment is complete or the build fails (`--no-build-isolation` and
`--no-index` of pip, without pip).

No two builds give the same bytes, though time stamps and paths are kept out of them: nvcc derives
names of internal symbols from its process id (`--frandom-seed` would need another seed for each
unit, and units have one command line). So a lock pins what a build is made from, not its result.
"""

import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from manifests.errors import IntegrityError
from manifests.lock import Build
from wheelhouse.flashattn import objects, output
from wheelhouse.flashattn.architectures import device
from wheelhouse.flashattn.isolation import dies_with_us, isolated
from wheelhouse.flashattn.workspace import Workspace

#: setuptools has a hook for sources that only have a setup.py.
_HOOK = """
import sys
from setuptools.build_meta import __legacy__
__legacy__.build_wheel(sys.argv[1])
"""
_TAIL = 400  # lines that are kept for the error
#: 1980-01-01, the earliest that a zip archive can hold: the wheel's members get no other time.
_EPOCH = "315532800"


@dataclass(frozen=True)
class Compiled:
    """A wheel that came out of a build."""

    wheel: Path
    units: int  # compiled in this run; the others were there


def variables(build: Build) -> dict[str, str]:
    """What decides the result, besides the compilers: the project's own switches.

    TORCH_CUDA_ARCH_LIST does not count here (Dao-AILab/flash-attention#1038), but without it torch
    would ask for a GPU of this machine.
    """
    return {
        "FLASH_ATTENTION_FORCE_BUILD": "TRUE",  # or setup.py downloads a wheel, unchecked
        "FLASH_ATTN_CUDA_ARCHS": ";".join(build.archs),
        "FLASH_ATTN_LOCAL_VERSION": build.label,
        "BUILD_TARGET": "cuda",
        "NVCC_THREADS": "1",
        "TORCH_CUDA_ARCH_LIST": ";".join(_dotted(arch) for arch in build.archs),
        "SOURCE_DATE_EPOCH": _EPOCH,
        # Python's own way of linking may name folders of the machine that Python was built on.
        # Stripped (-s): local symbols name nvcc's temporary files.
        "LDSHARED": "cc -shared -s",
        "LDCXXSHARED": "c++ -shared -s",
    }


def _without_paths(root: Path) -> dict[str, str]:
    """Flags that keep the workspace's path, which assertions quote, out of the result."""
    flag = f"-ffile-prefix-map={root}=."
    # CFLAGS takes the place of the interpreter's own, of which these two change what code does.
    return {"CFLAGS": f"-DNDEBUG -fwrapv {flag}", "NVCC_APPEND_FLAGS": f"-Xcompiler={flag}"}


def build_wheel(
    build: Build,
    workspace: Workspace,
    *,
    python: Path,
    jobs: int,
    environment: Mapping[str, str],
    progress: Callable[[int], None],
) -> Compiled:
    """Build, or continue to build, in a workspace whose source and CUDA_HOME are laid out.

    `python` runs the build and has torch and the tools; of `environment` only PATH is passed on.
    `progress` hears of translation units. Whatever interrupts it, the next call continues.

    Raises UsageError, FilesystemError or SourceError, with the compiler's own words and the log's
    path; see `output.KNOWN`.
    """
    objects.drop_broken(workspace.source)
    out = workspace.emptied("out")
    scratch = workspace.emptied("tmp")
    units = output.Units(build.units, progress)
    status, tail = _run(
        (*isolated(), str(python), "-c", _HOOK, str(out)),
        workspace,
        units,
        {
            **variables(build),
            **_without_paths(workspace.root),
            "PATH": f"{python.parent}:{environment.get('PATH', os.defpath)}",
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            "LC_ALL": "C.UTF-8",
            "CUDA_HOME": str(workspace.cuda),
            "MAX_JOBS": str(jobs),
            "NINJA_STATUS": output.NINJA_STATUS,
            "PYTHONNOUSERSITE": "1",
            "PYTHONUNBUFFERED": "1",
        },
    )
    if status:
        raise output.failure(tail, status, workspace.log)
    wheels = sorted(out.glob("*.whl"))
    if len(wheels) != 1:
        raise IntegrityError(f"the build of {build.filename} made {len(wheels)} wheels")
    units.finish()
    return Compiled(wheels[0], units.compiled)


def _run(
    command: Sequence[str], workspace: Workspace, units: output.Units, variables: Mapping[str, str]
) -> tuple[int, str]:
    """Exit status and the last lines of what was said; all of it goes to the log."""
    tail: deque[str] = deque(maxlen=_TAIL)
    with (
        workspace.log.open("ab", buffering=0) as kept,
        subprocess.Popen(
            command,
            cwd=workspace.source,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,  # Ctrl-C comes to us; we end the build
            preexec_fn=dies_with_us,
            pass_fds=[workspace.lock] if workspace.lock >= 0 else [],
        ) as process,
    ):
        try:
            assert process.stdout is not None
            for line in process.stdout:
                with suppress(OSError):  # a full disk must not hide what the compiler says of it
                    kept.write(line.encode())
                tail.append(line)
                units.take(line)
            return process.wait(), "".join(tail)
        except BaseException:
            process.kill()
            raise


def _dotted(arch: str) -> str:
    digits = device(arch).removeprefix("sm_")
    return f"{digits[:-1]}.{digits[-1]}"
