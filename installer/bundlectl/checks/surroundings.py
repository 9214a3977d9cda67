"""Checks of the account, its limits, and what surrounds it: security modules, containers, WSL."""

from bundlectl.checks.model import INFO, STOP, WARN, Check, Needs, Verdict
from bundlectl.host import Host
from bundlectl.host.reading import UNLIMITED

#: vLLM raises its own limit to 65535 where it may (vllm/utils: set_ulimit); connections, shards and
#: libraries of one server take some thousands.
_FILES = 8192
#: Threads of one server: two for each processor, in several processes.
_PROCESSES = 2048
#: Bytes, Linux's own default: compilers recurse.
_STACK = 8 << 20
#: Bytes of memory that network cards and drivers lock, for several GPUs.
_LOCKED = 64 << 20
_HOMES = ("/home/", "/root/")


def _limited(limit: int, needed: int, what: str) -> Verdict:
    found = "no limit" if limit == UNLIMITED else f"{limit} {what}"
    return Verdict(limit == UNLIMITED or limit >= needed, found, f"{needed} {what}")


def _open_files(_needs: Needs, host: Host) -> Verdict:
    return _limited(host.account.open_files, _FILES, "open files")


def _processes(_needs: Needs, host: Host) -> Verdict:
    return _limited(host.account.processes, _PROCESSES, "threads and processes")


def _stack(_needs: Needs, host: Host) -> Verdict:
    return _limited(host.account.stack, _STACK, "bytes of stack")


def _locked(needs: Needs, host: Host) -> Verdict:
    if not needs.on_gpu or len(host.accelerator.gpus) < 2:
        return Verdict(True, "matters for several GPUs only")
    return _limited(host.account.locked, _LOCKED, "bytes of locked memory")


def _address_space(needs: Needs, host: Host) -> Verdict:
    limit = host.account.address_space
    if limit == UNLIMITED:
        return Verdict(True, "no limit")
    needed = "no limit: CUDA reserves addresses for all memory" if needs.on_gpu else ""
    return Verdict(
        not needs.on_gpu and limit >= 4 * needs.memory,
        f"{limit} bytes of addresses",
        needed or f"{4 * needs.memory} bytes",
    )


def _file_size(needs: Needs, host: Host) -> Verdict:
    return _limited(host.account.file_size, needs.largest, "bytes in one file")


def _core(_needs: Needs, host: Host) -> Verdict:
    limit, pattern = host.account.core, host.machine.core_pattern
    # A pipe leads to a program that keeps dumps in check, such as systemd-coredump.
    written = limit != 0 and not pattern.startswith("|")
    found = "a server that crashes leaves all of its memory as a file" if written else "none kept"
    return Verdict(not written, found)


def _name(_needs: Needs, host: Host) -> Verdict:
    one = host.account
    found = one.name or f"uid {one.uid} has no entry in the account database"
    return Verdict(bool(one.name), found)


def _root(_needs: Needs, host: Host) -> Verdict:
    root = host.account.uid == 0
    return Verdict(not root, "the server runs as root" if root else f"uid {host.account.uid}")


def _home(_needs: Needs, host: Host) -> Verdict:
    home = host.account.home
    right = home not in ("", "/") and host.account.home_writable
    found = home or "none"
    return Verdict(right, found if right else f"{found}: missing, or it can't be written")


def _umask(_needs: Needs, host: Host) -> Verdict:
    mask = host.account.umask
    return Verdict(mask == 0o022, f"{mask:04o}; files are made with modes of their own")


def _locale(_needs: Needs, host: Host) -> Verdict:
    found = host.account.locale
    right = found.lower().replace("-", "").endswith("utf8")
    return Verdict(right, f"{found or 'none is set'}; the server gets C.UTF-8")


def _logout(_needs: Needs, host: Host) -> Verdict:
    ends = host.account.ends_at_logout
    found = "ends all of this account's processes" if ends else "ends nothing of the server"
    return Verdict(not ends, f"a log-out {found}")


def _selinux(_needs: Needs, host: Host) -> Verdict:
    enforcing = host.machine.selinux
    at_home = host.storage.prefix.startswith(_HOMES)
    found = "enforcing" if enforcing else "not enforcing"
    prefix = host.storage.prefix
    mend = f"run once it is installed: restorecon -R '{prefix}'; for a system service it may need: "
    mend += f"semanage fcontext -a -t bin_t '{prefix}/releases(/.*)?'"
    if enforcing and at_home:
        found += ", and services may run nothing from home folders"
        mend = "choose a --prefix below /opt or /srv for a system service"
    return Verdict(not enforcing, found, "", mend)


def _apparmor(_needs: Needs, host: Host) -> Verdict:
    profile = host.machine.apparmor
    found = f"the profile {profile} is enforced on this process" if profile else "not confined"
    return Verdict(not profile, found)


def _seccomp(needs: Needs, host: Host) -> Verdict:
    matters = host.machine.seccomp and not needs.on_gpu
    found = "filtered" if host.machine.seccomp else "not filtered"
    return Verdict(not matters, f"system calls are {found}")


def _container(_needs: Needs, host: Host) -> Verdict:
    kind = host.machine.container
    found = f"this is a container ({kind})" if kind else "not in a container"
    return Verdict(not kind, found)


def _wsl(_needs: Needs, host: Host) -> Verdict:
    wsl = host.machine.wsl
    return Verdict(not wsl, "this is Windows' subsystem for Linux" if wsl else "not in WSL")


CHECKS = (
    Check("file-size", STOP, "how large a file may be (ulimit -f)", _file_size,
          "run: ulimit -f unlimited, or ask for a higher limit (limits.conf: fsize)"),
    Check("address-space", STOP, "how much a process may map (ulimit -v)", _address_space,
          "run: ulimit -v unlimited, or ask for a higher limit (limits.conf: as)", at_start=True),
    Check("open-files", WARN, "how many files may be open (ulimit -Hn)", _open_files,
          "raise the hard limit: limits.conf nofile, LimitNOFILE= or --ulimit nofile",
          at_start=True),
    Check("processes", WARN, "how many threads may be started (ulimit -u, cgroup)", _processes,
          "raise the limit: limits.conf nproc, TasksMax= or --pids-limit", at_start=True),
    Check("stack", WARN, "the stack of a process (ulimit -s)", _stack, "run: ulimit -s 8192",
          at_start=True),
    Check("selinux", WARN, "whether SELinux enforces its rules", _selinux),
    Check("logout", WARN, "whether the end of a session ends the server", _logout,
          "run: loginctl enable-linger, or install as root and use a system service"),
    Check("locked", INFO, "memory that may be locked (ulimit -l), for several GPUs", _locked,
          "raise the limit: limits.conf memlock, LimitMEMLOCK= or --ulimit memlock=-1"),
    Check("core", INFO, "whether crashes are written to disk", _core, "run: ulimit -c 0"),
    Check("account", INFO, "whether the account has a name", _name,
          "nothing to do: the server gets a name of its own"),
    Check("root", INFO, "whether this is root", _root,
          "nothing to do; an account of its own, with a --prefix that it owns, is safer"),
    Check("home", INFO, "the home folder", _home,
          "nothing to do: the server gets folders below the prefix"),
    Check("umask", INFO, "the modes that new files get", _umask, "nothing to do"),
    Check("locale", INFO, "the characters that programs expect", _locale, "nothing to do"),
    Check("apparmor", INFO, "whether AppArmor confines this process", _apparmor,
          "where files below the prefix are denied, start the container with "
          "--security-opt apparmor=unconfined"),
    Check("seccomp", INFO, "whether system calls are filtered, for servers on processors",
          _seccomp, "nothing to do; where the log says that set_mempolicy is not permitted: "
          "--cap-add SYS_NICE"),
    Check("container", INFO, "whether this is a container", _container,
          "put the prefix on a volume; for GPUs, start it with --gpus all, and with --shm-size=1g "
          "for several of them"),
    Check("wsl", INFO, "whether this is WSL", _wsl,
          "take the driver from Windows and install none here; keep the prefix off /mnt/c"),
)  # fmt: skip
