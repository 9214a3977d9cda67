"""The details of each GPU in `nvidia-smi -q -x`: what the short query can't say on all drivers.

The document's fields are those of NVIDIA's nvsmi_device_v*.dtd; older drivers lack some of them.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from xml.etree import ElementTree

_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Holder:
    """A process that holds memory of a GPU."""

    pid: int
    name: str
    memory: int  # bytes; 0 where it is not said (MIG, WSL)


@dataclass(frozen=True)
class Details:
    """One GPU as `nvidia-smi -q` sees it."""

    uuid: str
    name: str
    uncorrected: int = 0  # errors of its memory since the driver was loaded
    remapping: str = ""  # "pending" or "failed", of its memory's rows
    sliced: bool = False  # MIG mode
    slices: int = 0  # MIG devices
    persistent: bool = True
    compute_mode: str = "Default"
    link_width: int = 0  # PCIe lanes in use
    link_most: int = 0
    slowed: tuple[str, ...] = ()  # "thermal", "power brake"
    fabric: str = ""  # state of NVSwitch's fabric: "Completed", …; empty without one
    unlicensed: bool = False  # a virtual GPU without a licence
    holders: tuple[Holder, ...] = ()


def parse(document: str) -> tuple[Details, ...]:
    """Read the document; nothing where it is not one."""
    try:
        log = ElementTree.fromstring(document)  # noqa: S314 - the driver's own tool wrote it
    except (ElementTree.ParseError, ValueError):
        return ()
    return tuple(map(_details, log.iter("gpu")))


def _details(node: ElementTree.Element) -> Details:
    def said(path: str) -> str:
        return (node.findtext(path) or "").strip()

    fabric = said("fabric/state")
    return Details(
        uuid=said("uuid"),
        name=said("product_name") or "a GPU",
        uncorrected=sum(_uncorrected(node.find("ecc_errors/volatile"))),
        remapping=_remapping(said),
        sliced=said("mig_mode/current_mig") == "Enabled",
        slices=len(node.findall("mig_devices/mig_device")),
        persistent=said("persistence_mode") != "Disabled",
        compute_mode=said("compute_mode") or "Default",
        link_width=_number(said("pci/pci_gpu_link_info/link_widths/current_link_width")),
        link_most=_number(said("pci/pci_gpu_link_info/link_widths/max_link_width")),
        slowed=tuple(_slowed(node)),
        fabric="" if fabric == "N/A" else fabric,
        unlicensed=said("vgpu_software_licensed_product/license_status").startswith("Unlicensed"),
        holders=tuple(_holders(node)),
    )


def _remapping(said: Callable[[str], str]) -> str:
    if said("remapped_rows/remapped_row_failure") == "Yes":
        return "failed"
    waiting = (
        "remapped_rows/remapped_row_pending",
        "retired_pages/pending_retirement",  # before Ampere
        "retired_pages/pending_blacklist",
    )
    return "pending" if any(said(path) == "Yes" for path in waiting) else ""


def _uncorrected(counters: ElementTree.Element | None) -> Iterator[int]:
    """By drivers: double_bit/total, sram_uncorrectable, …_parity, …_secded, dram_uncorrectable."""
    if counters is None:
        return
    for item in counters.iter():
        if "uncorrectable" in item.tag:
            yield _number(item.text or "")
    yield _number(counters.findtext("double_bit/total") or "")


def _slowed(node: ElementTree.Element) -> Iterator[str]:
    """Called clocks_throttle_reasons before driver 535."""
    reasons = {"hw_thermal_slowdown": "thermal", "hw_power_brake_slowdown": "power brake"}
    for group in ("clocks_event_reasons/clocks_event", "clocks_throttle_reasons/clocks_throttle"):
        for name, word in reasons.items():
            if (node.findtext(f"{group}_reason_{name}") or "").strip() == "Active":
                yield word


def _holders(node: ElementTree.Element) -> Iterator[Holder]:
    for item in node.findall("processes/process_info"):
        pid, name = _number(item.findtext("pid") or ""), (item.findtext("process_name") or "")
        mib = _number(item.findtext("used_memory") or "")
        yield Holder(pid, name.strip().rpartition("/")[2], mib << 20)


def _number(text: str) -> int:
    """The number in "512 MiB", "16x", "0"; 0 in "N/A"."""
    found = _NUMBER.search(text)
    return int(found[0]) if found else 0
