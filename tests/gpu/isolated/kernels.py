"""Which libraries have code for a GPU: `python -m tests.gpu.isolated.kernels GPU DRIVER STACK DIR…`

Runs under the release's small runtime, which has what the reader needs.
"""

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from manifests import stack
from manifests.kernels import coverage, gate
from manifests.stack import Component
from wheelhouse import kernels


def verdict(
    folder: Path, gpu: str, driver: str, components: tuple[Component, ...]
) -> dict[str, Any]:
    """What the gate says of a folder, and each library that serving needs."""
    begun = time.monotonic()
    inventory = kernels.scan(folder)
    if folder.name == "torch":  # patterns are of paths in a wheel
        files = tuple(replace(file, path=f"torch/{file.path}") for file in inventory.files)
        inventory = replace(inventory, files=files)
    answer = coverage(inventory, (gpu,), driver)
    findings = gate(answer, components)
    rows = [row.as_record() for row in answer.rows]
    return {
        "folder": str(folder),
        "seconds": round(time.monotonic() - begun, 1),
        "libraries": len(rows),
        "errors": [str(one) for one in findings if one.error],
        "notes": len([one for one in findings if not one.error]),
        "rows": [row for row in rows if _told(row)],
    }


def _told(row: dict[str, Any]) -> bool:
    """Libraries of vLLM and torch themselves; the record stays small."""
    return any(
        name in row["path"] for name in ("vllm/", "libtorch_cuda.so", "flash_attn", "flashinfer")
    )


def main() -> None:
    gpu, driver, name, *folders = sys.argv[1:]
    components = stack.named(name).components
    found = [verdict(Path(folder), gpu, driver, components) for folder in folders]
    print(json.dumps({"gpu": gpu, "driver": driver, "folders": found}))


if __name__ == "__main__":
    main()
