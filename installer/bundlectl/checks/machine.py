"""Checks of the machine, its kernel and its memory."""

import re
from datetime import UTC, datetime

from bundlectl.checks.model import INFO, STOP, WARN, Check, Needs, Verdict, listed
from bundlectl.host import Host
from bundlectl.host.reading import UNLIMITED
from manifests.console import size

GIB = 1 << 30
#: Of Enterprise Linux 8, the oldest distribution whose glibc (2.28) any bundle takes.
_KERNEL = (4, 18)
#: Processes that work at a time in a server: the front, the engine, its workers.
_PROCESSORS = 2
#: The kernel's own default (sysctl vm.max_map_count).
_MAPS = 65530
#: Bytes. Processes of several GPUs talk through /dev/shm (NCCL's manual asks containers for 1 GiB).
_SHM = GIB
#: A bundle is not installed a generation after it was made: rather, the clock is wrong.
_LIFETIME = 20 * 366 * 86400


def version(text: str) -> tuple[int, ...]:
    """The numbers of a version, for comparing: "2.28" → (2, 28)."""
    return tuple(int(part) for part in text.split(".") if re.fullmatch("[0-9]{1,9}", part))


def _machine(needs: Needs, host: Host) -> Verdict:
    found = host.machine.architecture
    mend = f"create a bundle for {found}, or use a {needs.machine} host"
    return Verdict(found == needs.machine, found, needs.machine, mend)


def _kernel(_needs: Needs, host: Host) -> Verdict:
    release = host.machine.kernel
    found = version(re.split("[^0-9.]", release)[0])
    needed = ".".join(map(str, _KERNEL))
    return Verdict(not found or found >= _KERNEL, f"Linux {release}", f"Linux {needed} or newer")


def _glibc(needs: Needs, host: Host) -> Verdict:
    has = host.machine.glibc
    return Verdict(
        not needs.glibc or version(has) >= version(needs.glibc),
        f"glibc {has}" if has else "a C library other than glibc",
        f"glibc {needs.glibc} or newer" if needs.glibc else "",
    )


def _cpu(needs: Needs, host: Host) -> Verdict:
    if not needs.cpu_flags:
        return Verdict(True, "any will do")
    present = [flag for flag in needs.cpu_flags if flag in host.machine.cpu_flags]
    return Verdict(
        bool(present),
        f"the processor has {', '.join(present) or 'none of them'}",
        f"one of: {', '.join(needs.cpu_flags)}",
    )


def _processors(_needs: Needs, host: Host) -> Verdict:
    count = host.machine.processors
    return Verdict(
        count == 0 or count >= _PROCESSORS,
        f"{count or 'an unknown number of'} processors can be used",
        str(_PROCESSORS),
    )


def _load(_needs: Needs, host: Host) -> Verdict:
    load, count = host.machine.load, host.machine.processors
    return Verdict(
        not count or load <= count, f"{load} processes at work for {count or '?'} processors"
    )


def _memory(needs: Needs, host: Host) -> Verdict:
    has = host.machine.memory
    found = f"{has} bytes of memory available"
    if needs.freed:
        found += f", and {needs.freed} that our own server gives back"
    return Verdict(has + needs.freed >= needs.memory, found, f"{needs.memory} bytes")


def _memory_limit(_needs: Needs, host: Host) -> Verdict:
    limit, total = host.machine.memory_limit, host.machine.memory_total
    if limit == UNLIMITED or not total or limit >= total:
        return Verdict(True, "none below the machine's memory")
    return Verdict(False, f"these processes may have {size(limit)} of {size(total)}")


def _swap(needs: Needs, host: Host) -> Verdict:
    one = host.machine
    tight = needs.memory > 0 and one.memory + needs.freed < needs.memory * 5 // 4
    used = one.swap_total - one.swap_free
    found = f"{size(used)} of {size(one.swap_total)} in use" if one.swap_total else "none"
    return Verdict(
        not tight or one.swap_free > 0,
        found,
        "some, where memory is within a quarter of what is needed" if tight else "",
    )


def _overcommit(needs: Needs, host: Host) -> Verdict:
    room = host.machine.commit_room
    if room == UNLIMITED:
        return Verdict(True, "address space is not rationed")
    # CUDA reserves addresses for the memory of machine and GPUs together.
    needed = sum(one.memory for one in host.accelerator.gpus) + host.machine.memory_total
    needed = max(needs.memory, needed if needs.on_gpu else 0)
    return Verdict(
        room >= needed,
        f"vm.overcommit_memory = 2 leaves {size(room)} of address space",
        size(needed),
    )


def _huge_pages(_needs: Needs, host: Host) -> Verdict:
    held, total = host.machine.huge_pages, host.machine.memory_total
    found = f"{size(held)} are set aside as huge pages that no server asks for"
    return Verdict(not held or held * 10 < total, found if held else "none set aside")


def _maps(_needs: Needs, host: Host) -> Verdict:
    count = host.machine.maps
    found = f"vm.max_map_count = {count}" if count != UNLIMITED else "not known"
    return Verdict(count == UNLIMITED or count >= _MAPS, found, str(_MAPS))


def _numa(needs: Needs, host: Host) -> Verdict:
    nodes = host.machine.numa_nodes
    matters = nodes > 1 and not needs.on_gpu and needs.memory > 0
    found = f"{nodes} memory nodes"
    if matters:
        found += ", and a server on processors is fastest within one of them"
    return Verdict(not matters, found)


def _proc(_needs: Needs, host: Host) -> Verdict:
    return Verdict(
        host.machine.proc, "/proc is mounted" if host.machine.proc else "/proc is not mounted"
    )


def _sys(_needs: Needs, host: Host) -> Verdict:
    return Verdict(
        host.machine.sys, "/sys is mounted" if host.machine.sys else "/sys is not mounted"
    )


def _shm(_needs: Needs, host: Host) -> Verdict:
    there = host.storage.shm is not None
    found = "can be written" if there else "missing, or it can't be written"
    return Verdict(there, f"the folder /dev/shm: {found}")


def _shm_size(needs: Needs, host: Host) -> Verdict:
    place, count = host.storage.shm, len(host.accelerator.gpus)
    if place is None or not needs.on_gpu or count < 2:
        return Verdict(True, "matters for several GPUs only")
    return Verdict(
        place.free >= _SHM,
        f"{size(place.free)} of {size(place.size)} are free in /dev/shm",
        f"{size(_SHM)} for {count} GPUs",
    )


def _clock(needs: Needs, host: Host) -> Verdict:
    def date(seconds: int) -> str:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")

    latest = needs.created + _LIFETIME
    now = host.machine.now
    needed = f"not before the bundle was made, {date(needs.created)}"
    if needs.created and now > latest:
        needed = f"not {(now - needs.created) // (365 * 86400)} years after the bundle was made"
    right = now >= needs.created and (not needs.created or now <= latest)
    return Verdict(right, f"this host's clock says {date(now)}", needed)


def _other_servers(_needs: Needs, host: Host) -> Verdict:
    found = host.machine.servers
    return Verdict(not found, f"vLLM runs already: {listed(found)}" if found else "none")


def _killed(_needs: Needs, host: Host) -> Verdict:
    found = host.machine.killed
    told = f"memory ran out since boot; the kernel ended {listed(found)}" if found else "none"
    return Verdict(not found, told)


CHECKS = (
    Check("proc", STOP, "/proc, which Python and the server read", _proc,
          "run: mount -t proc proc /proc", at_start=True),
    Check("machine", STOP, "the processor's architecture", _machine, can_be_ignored=False),
    Check("glibc", STOP, "the C library's version", _glibc,
          "use a newer distribution; glibc itself can't be upgraded alone"),
    Check("cpu", STOP, "instructions that the server needs", _cpu,
          "use a newer processor; in a virtual machine, pass the host's processor model through"),
    Check("memory", STOP, "memory that a program can take, containers considered", _memory,
          "end other programs, raise the container's limit, or serve a smaller model"),
    Check("shm", STOP, "shared memory (/dev/shm), through which a server's processes talk", _shm,
          "run: mount -t tmpfs -o mode=1777 shm /dev/shm", at_start=True),
    Check("kernel", WARN, "the kernel's version", _kernel, "use a newer kernel"),
    Check("processors", WARN, "processors that may be used, by affinity and quota", _processors,
          "raise the container's or the service's limit"),
    Check("sys", WARN, "/sys, where libraries read how the machine is built", _sys,
          "run: mount -t sysfs sysfs /sys"),
    Check("shm-size", WARN, "room in /dev/shm, for servers on several GPUs", _shm_size,
          "start the container with --shm-size=1g or --ipc=host; or remove what dead programs left "
          "there (nccl-*, psm_*); or: mount -o remount,size=4g /dev/shm", at_start=True),
    Check("overcommit", WARN, "address space, where the kernel rations it", _overcommit,
          "run: sysctl vm.overcommit_memory=0", at_start=True),
    Check("maps", WARN, "how many pieces of memory a process may map", _maps,
          f"run: sysctl vm.max_map_count={_MAPS}"),
    Check("clock", WARN, "the clock, against the day when the bundle was made", _clock,
          "set the clock: certificates and logs go by it"),
    Check("other-servers", WARN, "other vLLM servers on this machine", _other_servers,
          "end them where they use the same GPUs or memory"),
    Check("killed", WARN, "processes that the kernel has ended for want of memory", _killed,
          "give the machine or the container more memory, or serve a smaller model"),
    Check("swap", INFO, "swap space, where memory is scarce", _swap,
          "add some: without it, a short peak ends the server"),
    Check("memory-limit", INFO, "a limit of memory below the machine's", _memory_limit,
          "raise the container's or the service's limit where it is too low"),
    Check("huge-pages", INFO, "memory that is set aside for huge pages", _huge_pages,
          "run: sysctl vm.nr_hugepages=0, where nothing else needs them"),
    Check("numa", INFO, "memory nodes, for servers on processors", _numa,
          "nothing to do; or start the server under: numactl --cpunodebind=0 --membind=0"),
    Check("load", INFO, "how busy the processors are", _load,
          "raise start_timeout in etc/serve.toml where a start takes too long"),
)  # fmt: skip
