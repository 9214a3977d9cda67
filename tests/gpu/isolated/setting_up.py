"""Steps up to a complete installation: medium, host, models, what the GPU has code for."""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from tests.gpu.isolated import outbound
from tests.gpu.isolated.bare import clean_environment
from tests.gpu.isolated.bench import Bench, Record, made_name
from tests.gpu.isolated.coldstart import chosen
from tests.gpu.isolated.commands import Done, Failed, need, run
from tests.gpu.isolated.installed import ROOT


def surroundings(bench: Bench) -> Record:
    smi = (
        "nvidia-smi --query-gpu=name,memory.total,compute_cap,driver_version --format=csv,noheader"
    )
    asked = run(smi.split(), 30, clean_environment()).out.strip() if bench.gpu else ""
    return {
        "gpu": asked,
        "kernel": " ".join(os.uname()),
        "processors": os.cpu_count(),
        "memory": Path("/proc/meminfo").read_text().splitlines()[0],
        "python": sys.version,
        "namespace": bench.bare,
    }


def control(bench: Bench) -> Record:
    """The positive control: deliberate attempts have to be counted, each of them."""
    found = outbound.control()
    silent = [name for name, counted in found.items() if not counted["attempts"]]
    if silent:
        raise Failed(f"not counted: {', '.join(silent)}", found)
    return found


def medium(bench: Bench) -> Record:
    """The medium's own audit, by coreutils and by its install.sh."""
    names = [path.name for path in bench.media.iterdir()]
    listed = run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"],
        bench.clock.left(),
        clean_environment(),
        bench.media,
    )
    need(listed, "sha256sum --check")
    own = need(installer(bench, "audit"), "install.sh audit")
    size = sum((bench.media / name).stat().st_size for name in names)
    return {"files": len(names), "bytes": size, "sha256sum": listed.seconds, "own": own.record()}


def installer(bench: Bench, *words: str) -> Done:
    command = ["sh", bench.media / "install.sh", *words, "--prefix", bench.site.prefix, "--json"]
    return run(command, bench.clock.left(), clean_environment())


def into_python(bench: Bench) -> list[str]:
    return ["--into-python", str(bench.into_python)] if bench.into_python else []


def preflight(bench: Bench) -> Record:
    words = ["preflight", "--all", "--port", str(bench.site.port), *into_python(bench)]
    return need(installer(bench, *words), "install.sh preflight").record()


def install(bench: Bench) -> Record:
    """Verify and unpack; nothing is started."""
    note = bench.work / "base.json"
    if bench.into_python and not note.exists():
        note.write_text(json.dumps(fingerprint(bench.into_python)))
    words = ["install", "--no-start", "--port", str(bench.site.port), *into_python(bench)]
    done = need(installer(bench, *words), "install.sh")
    return {**done.record(), "caches": bench.site.caches(), **base_unchanged(bench)}


def fingerprint(python: Path) -> Record:
    """Names, sizes and times of all files of a Python environment, as one digest."""
    hasher, count = hashlib.sha256(), 0
    for folder, folders, files in os.walk(python.parent.parent):
        folders.sort()
        for name in sorted(files):
            status = os.lstat(os.path.join(folder, name))  # noqa: PTH118 - a hundred thousand times
            hasher.update(f"{folder}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
            count += 1
    return {"files": count, "sha256": hasher.hexdigest()}


def base_unchanged(bench: Bench) -> Record:
    """Whether the environment below the overlay is as it was before the installation."""
    note = bench.work / "base.json"
    if bench.into_python is None or not note.exists():
        return {}
    same = json.loads(note.read_text()) == fingerprint(bench.into_python)
    if not same:
        raise Failed(f"something was written into the environment of {bench.into_python}")
    return {"base_unchanged": same}


def audit(bench: Bench) -> Record:
    done = need(bench.site.control("audit", limit=240), "bundlectl audit")
    return {**done.record(), **base_unchanged(bench)}


def model(bench: Bench) -> Record:
    """Make the larger model, put it on a medium of its own, and install it from there."""
    site, folder = bench.site, bench.work / made_name(bench.parameters)
    shutil.rmtree(folder, ignore_errors=True)
    environment = {**site.environment(), "PYTHONPATH": str(ROOT)}
    words: list[object] = [
        site.python,
        "-s",
        "-B",
        "-m",
        "tests.gpu.isolated.model",
        folder,
        str(bench.parameters),
    ]
    made = need(run(words, bench.clock.left(), environment, ROOT), "making the model")
    addition = bench.work / "addition"
    shutil.rmtree(addition, ignore_errors=True)
    own = {**clean_environment(), "PYTHONPATH": f"{ROOT}:{ROOT / 'installer'}"}
    words = [sys.executable, "-B", "-m", "tests.gpu.isolated.addition", bench.media]
    written = need(
        run([*words, site.folder / "bundle.lock", folder, addition], bench.clock.left(), own, ROOT),
        "writing its medium",
    )
    place = written.answer["medium"]
    command = ["sh", f"{place}/install.sh", "--prefix", site.prefix, "--json"]
    added = need(run(command, bench.clock.left(), clean_environment()), "its install.sh")
    for used in (folder, addition):
        shutil.rmtree(used)
    return {
        "made": json.loads(made.out.splitlines()[-1]),
        "make": made.seconds,
        "write": written.seconds,
        "install": added.seconds,
        "added": added.answer,
    }


def kernels(bench: Bench) -> Record:
    """The verdict about the GPU's kernels, to be held against what then runs."""
    site, (capability, driver) = bench.site, capability_of()
    folders = [site.folder / "env"]
    if bench.into_python is not None:
        root = bench.into_python.parent.parent
        folders += sorted(root.glob("lib/python3*/site-packages/torch"))
    own = {**clean_environment(), "PYTHONPATH": f"{ROOT}:{ROOT / 'installer'}"}
    words = [site.runtime, "-s", "-B", "-m", "tests.gpu.isolated.kernels", capability, driver]
    done = run([*words, site.manifest.stack, *folders], bench.clock.left(), own, ROOT)
    record = need(done, "reading the kernels").record()
    logs = sorted((bench.work / "logs").glob("*.log"))
    record["ran"] = {path.stem: chosen(path.read_text()) for path in logs}
    errors = [error for one in record["answer"]["folders"] for error in one["errors"]]
    if errors:
        raise Failed("the gate would have stopped this bundle", record)
    return record


def capability_of() -> tuple[str, str]:
    """The first GPU's compute capability, as sm_90, and the driver."""
    query = "nvidia-smi --query-gpu=compute_cap,driver_version --format=csv,noheader"
    line = need(run(query.split(), 30, clean_environment()), "nvidia-smi").out.splitlines()[0]
    capability, driver = (cell.strip() for cell in line.split(","))
    return f"sm_{capability.replace('.', '')}", driver


def loopback_down(bench: Bench) -> Record:
    """A namespace in which not even the loopback interface is up: what is said, and how soon."""
    command = ["unshare", "--net", bench.site.prefix / "bin/bundlectl"]
    found = {}
    start = ["use", bench.tiny, "--release", bench.site.release]
    for name, words in {"preflight": ["preflight", "--all"], "start": start}.items():
        done = run([*command, *words, "--json"], bench.clock.left(90), clean_environment())
        found[name] = done.record()
        if name == "start":
            found["status"] = bench.site.control("status", limit=20).record()
    bench.site.stop()
    if found["start"]["code"] is None:
        raise Failed("a start without loopback does not end", found)
    return found
