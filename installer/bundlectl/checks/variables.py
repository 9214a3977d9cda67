"""Checks of the environment's variables, by their names: values may hold passwords."""

from collections.abc import Iterable

from bundlectl.checks.model import INFO, WARN, Check, Needs, Verdict, listed
from bundlectl.host import Host

_LOADER = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
_PYTHON = ("PYTHONPATH", "PYTHONHOME", "CONDA_PREFIX", "VIRTUAL_ENV")
_TOOLKIT = ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT")
_SERVER = ("VLLM_", "HF_", "TRITON_", "TORCH", "NCCL_", "PYTORCH_", "FLASHINFER_")


def _set(host: Host, names: Iterable[str]) -> Verdict:
    present = tuple(name for name in names if host.environment.get(name))
    found = f"{listed(present)} set; the server does not get it"
    return Verdict(not present, found if present else "none")


def _loader(_needs: Needs, host: Host) -> Verdict:
    return _set(host, _LOADER)


def _python(_needs: Needs, host: Host) -> Verdict:
    return _set(host, _PYTHON)


def _toolkit(_needs: Needs, host: Host) -> Verdict:
    return _set(host, _TOOLKIT)


def _proxies(_needs: Needs, host: Host) -> Verdict:
    schemes = ("http_proxy", "https_proxy", "all_proxy")
    return _set(host, (name for low in schemes for name in (low, low.upper())))


def _server(_needs: Needs, host: Host) -> Verdict:
    return _set(host, sorted(name for name in host.environment if name.startswith(_SERVER)))


CHECKS = (
    Check("loader", WARN, "other libraries than the system's (LD_…)", _loader,
          "remove it where it is not needed"),
    Check("python-variables", INFO, "another Python's variables", _python, "nothing to do"),
    Check("toolkit", INFO, "a CUDA toolkit of this machine", _toolkit,
          "nothing to do: the bundle has its own libraries"),
    Check("proxies", INFO, "proxies", _proxies, "nothing to do"),
    Check("server-variables", INFO, "variables of vLLM and its libraries", _server,
          "put what the server should have into [environment] of etc/serve.toml"),
)  # fmt: skip
