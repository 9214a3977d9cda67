"""What a check is: a line of the table, what it compares, and what it says."""

from collections.abc import Callable
from dataclasses import dataclass, field

from bundlectl.config import ServeConfig
from bundlectl.host import Host
from manifests import gpu
from manifests.errors import BundleError, TargetError
from manifests.fit import Shape
from manifests.overlay import Base, Overlay
from manifests.stack import Server

#: How bad it is where a check does not pass: nothing works; something will; worth knowing.
STOP, WARN, INFO = "stop", "warn", "info"
LEVELS = (STOP, WARN, INFO)


@dataclass(frozen=True)
class Needs:
    """What a bundle, or the start of a server, asks of a host."""

    disk: int = 0  # bytes on the prefix's file system, whole blocks
    inodes: int = 0
    largest: int = 0  # bytes of the largest file that is written
    machine: str = "x86_64"
    glibc: str = ""  # lowest version, "2.28"
    cpu_flags: tuple[str, ...] = ()  # one of them is enough
    memory: int = 0  # bytes
    freed: int = 0  # bytes that our own server gives back before the one that is asked for starts
    host: str = "127.0.0.1"
    port: int = 0  # 0 where no server is to be started
    gpus: tuple[str, ...] = (gpu.CPU,)
    served: tuple[str, ...] = ()  # capabilities that every needed library has code for; empty: any
    driver: str = ""  # lowest NVIDIA driver, "525.60.13"
    shape: Shape | None = None  # of the model that is served; None where its class is not known
    server: Server = field(default_factory=lambda: Server(""))
    settings: ServeConfig = field(default_factory=ServeConfig)
    environment: str = ""  # folder of the conda environment below the prefix
    longest_path: str = ""  # below the prefix
    created: int = 0  # seconds since the epoch
    overlay: Overlay | None = None  # of an environment that the host has; None: it brings its own
    base: Base | None = None  # what the release was put on; None where it is not installed yet

    @property
    def on_gpu(self) -> bool:
        """Whether the server wants a GPU."""
        return self.gpus != (gpu.CPU,)


@dataclass(frozen=True)
class Verdict:
    """What a check's function returns; `mend` only where the table's own does not do."""

    passed: bool
    found: str
    needed: str = ""
    mend: str = ""


@dataclass(frozen=True)
class Check:
    """One line of the table. `level` is how bad it is where the check does not pass."""

    name: str
    level: str
    about: str  # what it looks at
    judge: Callable[[Needs, Host], Verdict]
    mend: str = ""
    error: type[BundleError] = TargetError
    can_be_ignored: bool = True
    at_start: bool = False  # repeated before every start of the server


def listed(items: tuple[str, ...], most: int = 6) -> str:
    """A list for one line, which says how many it leaves out."""
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more
