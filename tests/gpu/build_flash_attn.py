"""Build flash-attn with this project's own builder and the host's nvcc and torch (see README.md).

For a host on which nothing can be fetched: its own Python takes the place of the environment that
`bundle create` makes from the lock. All else is what `bundle create` does. Run it again after an
interruption: it continues.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

import torch

from manifests.errors import BundleError
from manifests.lock import COMPUTED, Build
from wheelhouse.flashattn import compiling, resources, toolkit, workspace
from wheelhouse.flashattn.tables import tables
from wheelhouse.store import Store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sdist", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--arch", action="append", required=True, help="80, 90, 100 or 120")
    parser.add_argument("--memory", type=int, default=0, help="bytes; what is free otherwise")
    arguments = parser.parse_args()
    store = Store(arguments.work / "objects")
    with arguments.sdist.open("rb", buffering=0) as handle:
        digest = store.adopt(handle)
    version = arguments.sdist.name.removesuffix(".tar.gz").rpartition("-")[2]
    minor = ".".join(torch.__version__.split(".")[:2])
    label = f"cu{torch.version.cuda.replace('.', '')}torch{minor}cxx11abitrue"
    build = Build(
        name="flash-attn",
        version=version,
        label=f"{label}.{'.'.join(f'sm{arch}' for arch in arguments.arch)}",
        filename=arguments.sdist.name,
        url=f"file:{arguments.sdist.name}",
        sha256=digest,
        archs=tuple(arguments.arch),
        units=tables().release(version).units,
        torch=torch.__version__.partition("+")[0],
        cuda=torch.version.cuda,
        environment=(),
        digest_from=COMPUTED,
    )
    machine = resources.this_machine()
    if arguments.memory:
        machine = resources.Machine(machine.cores, arguments.memory)
    started, done = time.monotonic(), 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        print(f"{done}/{build.units} units, {time.monotonic() - started:.0f} s", flush=True)

    with workspace.opened(arguments.work / "build") as space:
        workspace.lay_source(build, store, space)
        compiler, said = toolkit.on_machine(build.cuda, os.environ)
        if compiler is None:
            raise toolkit.missing(build.cuda, said)
        print(
            said,
            "and c++",
            toolkit.check_host_compiler(tables().toolkit(build.cuda), os.environ["PATH"]),
            flush=True,
        )
        if not space.cuda.exists():
            toolkit.lay_out(space.cuda, compiler, Path(torch.__file__).parents[1])
        made = compiling.build_wheel(
            build,
            space,
            python=Path(sys.executable),
            jobs=resources.jobs(machine),
            environment=os.environ,
            progress=progress,
        )
    record = {
        "wheel": str(made.wheel),
        "bytes": made.wheel.stat().st_size,
        "jobs": resources.jobs(machine),
        "seconds": round(time.monotonic() - started),
        "units compiled in this run": made.units,
    }
    print(json.dumps(record), flush=True)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BundleError as error:
        print(error.render())
        sys.exit(int(error.exit_code))
