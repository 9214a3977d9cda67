"""The facts of a host that preflight judges: read once, kept as plain data.

Each module reads one topic; nothing here judges, and nothing that is missing is an error.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bundlectl import basepython
from bundlectl.basepython import Below
from bundlectl.host import kernellog
from bundlectl.host.accelerator import Accelerator, read_accelerator
from bundlectl.host.account import Account, read_account, told
from bundlectl.host.filesystems import FileSystem as FileSystem
from bundlectl.host.filesystems import Storage, read_storage
from bundlectl.host.filesystems import file_system as file_system
from bundlectl.host.machine import Machine, read_machine
from bundlectl.host.memory import available_memory as available_memory
from bundlectl.host.network import Network, read_network


@dataclass(frozen=True)
class Host:
    """What preflight looks at."""

    storage: Storage
    machine: Machine = field(default_factory=Machine)
    account: Account = field(default_factory=Account)
    network: Network = field(default_factory=Network)
    accelerator: Accelerator = field(default_factory=Accelerator)
    below: Below | None = None  # an overlay; None where there is none
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # names matter only


def probe(
    prefix: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    gpus: bool = False,
    details: bool = True,
    environ: Mapping[str, str] | None = None,
    written: Sequence[Path] = (),
    read: Sequence[Path] = (),
    python: str = "",
) -> Host:
    """Look at this machine; nothing is written.

    `port` 0 leaves the port out. `gpus` asks nvidia-smi and CUDA, with the variables `environ` that
    a server will have (default: this process's); without `details` that takes less than a second.
    `written` and `read`: what this account has to reach (default: it writes the prefix).
    `python`: the interpreter below an overlay, which is asked what its environment holds.

    Raises OSError where the file system of the prefix can't be read.
    """
    variables = os.environ if environ is None else environ
    log = kernellog.lines() if details else []
    return Host(
        storage=read_storage(prefix, written, read),
        machine=read_machine(str(prefix), log),
        account=read_account(variables),
        network=read_network(host, port),
        accelerator=read_accelerator(variables, log, ask=gpus, details=details),
        below=basepython.look(python) if python else None,
        environment={**dict.fromkeys(told(variables), "set"), **variables},
    )
