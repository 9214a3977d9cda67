"""What the processor, libraries and compilers say for or against a rule of doctor."""

from collections.abc import Callable, Mapping

from bundlectl.checks.machine import version
from bundlectl.scene import Scene
from manifests.doctor import Answer

_UNKNOWN = Answer(None)


def _glibc_old(scene: Scene) -> Answer:
    if scene.needs is None or not scene.needs.glibc:
        return _UNKNOWN
    has = scene.host.machine.glibc
    old = version(has) < version(scene.needs.glibc)
    return Answer(old, f"glibc {has or 'is not what this host has'}, needed: {scene.needs.glibc}")


def _machine_mismatch(scene: Scene) -> Answer:
    if scene.needs is None:
        return _UNKNOWN
    has = scene.host.machine.architecture
    return Answer(has != scene.needs.machine, f"{has}, made for {scene.needs.machine}")


def _lacks(flag: str) -> Callable[[Scene], Answer]:
    def answer(scene: Scene) -> Answer:
        flags = scene.host.machine.cpu_flags
        if not flags:
            return _UNKNOWN
        return Answer(flag not in flags, f"{flag} is {'' if flag in flags else 'not '}there")

    return answer


def _without(*tools: str) -> Callable[[Scene], Answer]:
    def answer(scene: Scene) -> Answer:
        there = [tool for tool in tools if tool in scene.tools]
        found = f"found: {', '.join(there)}" if there else f"none of {', '.join(tools)} is found"
        return Answer(not there, found)

    return answer


def _python_header_missing(scene: Scene) -> Answer:
    if scene.installed is None:
        return _UNKNOWN
    there = scene.installed.python_header
    return Answer(not there, f"Python.h is {'' if there else 'not '}in the environment")


def _cuda_mixed(scene: Scene) -> Answer:
    if scene.installed is None:
        return _UNKNOWN
    majors = scene.installed.cuda_majors
    found = f"run-time libraries of CUDA {' and '.join(majors) or 'none'} are in the environment"
    return Answer(len(majors) > 1, found)


def _numa_missing(scene: Scene) -> Answer:
    if scene.installed is None:
        return _UNKNOWN
    there = scene.installed.numa_library
    return Answer(not there, f"libnuma.so.1 is {'' if there else 'not '}in the environment")


def _library_path_set(scene: Scene) -> Answer:
    names = [name for name in ("LD_LIBRARY_PATH", "LD_PRELOAD") if scene.host.environment.get(name)]
    return Answer(bool(names), f"set where this runs: {', '.join(names) or 'neither of them'}")


#: By the names in manifests/doctor/probes.toml.
PROBES: Mapping[str, Callable[[Scene], Answer]] = {
    "glibc-old": _glibc_old,
    "machine-mismatch": _machine_mismatch,
    "no-avx2": _lacks("avx2"),
    "no-avx512": _lacks("avx512f"),
    "compiler-missing": _without("cc", "gcc", "clang"),
    "cxx-missing": _without("c++", "g++", "clang++"),
    "nvcc-missing": _without("nvcc"),
    "ninja-missing": _without("ninja"),
    "python-header-missing": _python_header_missing,
    "cuda-mixed": _cuda_mixed,
    "numa-missing": _numa_missing,
    "library-path-set": _library_path_set,
}
