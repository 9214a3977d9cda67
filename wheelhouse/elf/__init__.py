"""ELF files: what they need, and whether an environment and a target supply it."""

from wheelhouse.elf.findings import Finding, Judgement, require
from wheelhouse.elf.floors import Floor, floors, is_version
from wheelhouse.elf.inventory import ElfFile, ElfInventory
from wheelhouse.elf.judge import judge
from wheelhouse.elf.report import Report, report
from wheelhouse.elf.scan import scan

__all__ = [
    "ElfFile",
    "ElfInventory",
    "Finding",
    "Floor",
    "Judgement",
    "Report",
    "floors",
    "is_version",
    "judge",
    "report",
    "require",
    "scan",
]
