"""GPU code: what files hold, which GPUs run it, and whether that is enough for a stack.

Pure: `wheelhouse.kernels` reads the files.
"""

from manifests.kernels.coverage import Coverage, Row, coverage
from manifests.kernels.gate import Finding, absent, gate
from manifests.kernels.images import Containers, FileKernels, Image, Inventory
from manifests.kernels.rules import Level, Verdict, runs
from manifests.kernels.table import coverage_text, inventory_text

__all__ = [
    "Containers",
    "Coverage",
    "FileKernels",
    "Finding",
    "Image",
    "Inventory",
    "Level",
    "Row",
    "Verdict",
    "absent",
    "coverage",
    "coverage_text",
    "gate",
    "inventory_text",
    "runs",
]
