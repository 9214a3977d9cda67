"""The server's environment: nothing inherited but a short list, everything written kept inside.

Servers and their compilers write to the home folder, to /tmp and to half a dozen caches, look up
the account's name, the host's name and an address on the Internet, and load whatever
LD_LIBRARY_PATH offers. Each table below ends one of these.
"""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from manifests.errors import UsageError, from_oserror

#: Marks the server's processes, so that stop finds each of them and nobody else's.
INSTANCE = "BUNDLECTL_INSTANCE"

#: Below the environment: links to the few libraries that must win over the host's.
SERVER_LIBRARIES = "server-libs"

_INHERITED = re.compile(
    r"TERM|COLORTERM|NO_COLOR|TZ|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|CUDA_MPS_\w+|NVIDIA_\w+"
)

_SYSTEM_PATH = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")

#: Variables that every start sets alike.
_FIXED = {
    # No network: libraries use local files and report nothing.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
    "DO_NOT_TRACK": "1",
    "NO_PROXY": "*",
    "no_proxy": "*",
    # One machine: no probe of an outside address, no look-up of the host's name.
    "VLLM_HOST_IP": "127.0.0.1",
    "MASTER_ADDR": "127.0.0.1",
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
    "TP_SOCKET_IFNAME": "lo",
    # An account without a passwd entry: getpass.getuser() reads these before it asks for one.
    "USER": "vllm",
    "LOGNAME": "vllm",
    # Python: only the bundle's packages, UTF-8 under any locale, a log that is never late.
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONFAULTHANDLER": "1",
    "LC_ALL": "C.UTF-8",
    # setproctitle would otherwise overwrite the memory where INSTANCE is read from.
    "SPT_NOENV": "1",
}

#: Below the cache: bytecode.
BYTECODE = "pycache"

#: Variables that name a folder, and that folder below PREFIX/cache.
_FOLDERS = {
    "HOME": "home",
    "XDG_CACHE_HOME": "home/.cache",
    "XDG_CONFIG_HOME": "home/.config",
    "XDG_DATA_HOME": "home/.local/share",
    "XDG_STATE_HOME": "home/.local/state",
    "XDG_RUNTIME_DIR": "run",
    "HF_HOME": "huggingface",
    "VLLM_CACHE_ROOT": "vllm",
    "VLLM_CONFIG_ROOT": "vllm/config",
    "VLLM_ASSETS_CACHE": "vllm/assets",
    "TRITON_CACHE_DIR": "triton",
    "TORCH_HOME": "torch",
    "TORCH_EXTENSIONS_DIR": "torch/extensions",
    "TORCHINDUCTOR_CACHE_DIR": "torch/inductor",
    "FLASHINFER_WORKSPACE_BASE": "flashinfer",
    "CUDA_CACHE_PATH": "cuda",
    "NUMBA_CACHE_DIR": "numba",
    "MPLCONFIGDIR": "matplotlib",
    # Release trees are immutable and audited, so bytecode goes elsewhere; the folder repeats the
    # sources' full paths, and releases do not meet in it.
    "PYTHONPYCACHEPREFIX": BYTECODE,
}

#: A name in serve.toml's [environment] that would undo one of the above.
_OURS = re.compile(
    r"PATH|LD_\w+|PYTHON\w+|TMPDIR|TMP|TEMP|VLLM_API_KEY|HF_TOKEN|HUGGING_FACE_HUB_TOKEN|"
    r"SSL_CERT_FILE|BUNDLECTL_\w+|\w+_PROXY|\w+_proxy"
)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Bytes. A Unix socket's name has room for 107 (unix(7): sun_path), and vLLM's (a UUID) and
#: multiprocessing's (pymp-XXXXXXXX/listener-XXXXXXXX) take up to 46 after the temporary folder.
_LONGEST_TEMPORARY = 60


def server_environment(
    layout: Layout,
    environment: Path,
    stack: Mapping[str, str],
    config: ServeConfig,
    inherited: Mapping[str, str],
    api_key: str,
) -> dict[str, str]:
    """All variables of the server's process.

    `environment` is the release's conda environment, `stack` what the tested combination sets, in
    which `{environment}` stands for that folder.
    Raises UsageError where serve.toml sets a variable that is not its to set.
    """
    check(config)
    temporary = str(temporary_folder(layout))
    variables = {name: value for name, value in inherited.items() if _INHERITED.fullmatch(name)}
    variables |= _FIXED
    variables |= {name: str(layout.cache / folder) for name, folder in _FOLDERS.items()}
    variables |= {
        name: value.replace("{environment}", str(environment)) for name, value in stack.items()
    }
    variables |= config.environment
    variables |= {
        "PATH": ":".join((str(environment / "bin"), *_SYSTEM_PATH)),
        "LD_LIBRARY_PATH": str(environment / SERVER_LIBRARIES),
        "TMPDIR": temporary,
        "TMP": temporary,
        "TEMP": temporary,
        "VLLM_API_KEY": api_key,
    }
    certificates = environment / "ssl/cacert.pem"
    if certificates.is_file():
        variables["SSL_CERT_FILE"] = str(certificates)
    return variables


def check(config: ServeConfig) -> None:
    """Refuse variables that are not the operator's to set.

    Raises UsageError.
    """
    for name, value in config.environment.items():
        if not _NAME.fullmatch(name) or "\0" in value:
            why = "that is no name and value of an environment variable"
        elif name in _FIXED or name in _FOLDERS or _OURS.fullmatch(name):
            why = "bundlectl sets it, to keep the server offline and inside its own folders"
        else:
            continue
        raise UsageError(
            f"serve.toml may not set {name!r} in [environment]", why=why, mend="remove that line"
        )


def temporary_folder(layout: Layout) -> Path:
    """TMPDIR: on the prefix's file system, and short enough for the names of sockets in it.

    Below a long prefix it is a short link in /tmp that leads to the folder in the cache.
    """
    folder = layout.cache / "tmp"
    if len(os.fsencode(folder)) <= _LONGEST_TEMPORARY:
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path("/tmp") / f"vllm-bundle-{os.geteuid()}-{digest}"  # noqa: S108 - checked in prepare


def prepare(layout: Layout) -> None:
    """Make the folders that `server_environment` names; only their owner can enter.

    Raises FilesystemError; UsageError where somebody else's file is in the place of our link.
    """
    folder = layout.cache / "tmp"
    short = temporary_folder(layout)
    try:
        for place in (folder, *(layout.cache / name for name in _FOLDERS.values())):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if short == folder:
            return
        try:
            short.symlink_to(folder)
        except FileExistsError:
            _check_link(short, folder)
    except OSError as error:
        raise from_oserror(error, "making the server's folders") from error


def _check_link(link: Path, target: Path) -> None:
    # /tmp is everybody's: a link of another account could be led elsewhere at any moment.
    if link.lstat().st_uid != os.geteuid() or not link.is_symlink() or link.readlink() != target:
        raise UsageError(
            f"{link} is not the link that was made here",
            why="the server's temporary folder needs that short name",
            mend="remove it, or install into a shorter prefix",
        )
