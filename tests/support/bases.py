"""Python environments as an isolated host has them, and tiny overlays that go on top of them."""

import dataclasses
import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bundlectl import basepython
from manifests import bundle
from manifests.overlay import Overlay, Provided
from tests.support.simulator import Content, Simulator, entries

MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = f"lib/python{MINOR}/site-packages"
#: What the bundle carries: a package of its own, and one that shadows the host's.
CARRIED: Content = {
    "bin": None,
    "bin/tool": b"#!/bin/sh\n",
    "lib": None,
    f"lib/python{MINOR}": None,
    PACKAGES: None,
    f"{PACKAGES}/carried.py": b"import given\n",
    f"{PACKAGES}/shadowed.py": b"whose = 'the bundle'\n",
}


def base(folder: Path) -> Path:
    """A virtual environment with the distributions given 1.0 and shadowed 0.9; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    put(folder, "given", "1.0", {"given.py": "whose = 'the host'\n"})
    put(folder, "shadowed", "0.9", {"shadowed.py": "whose = 'the host'\n"})
    return folder / "bin/python"


def put(folder: Path, name: str, version: str, files: Mapping[str, str]) -> None:
    """Have a distribution in an environment, in the place of any other version of it."""
    packages = folder / PACKAGES
    for old in packages.glob(f"{name}-*.dist-info/*"):
        old.unlink()
    for old in packages.glob(f"{name}-*.dist-info"):
        old.rmdir()
    info = packages / f"{name}-{version}.dist-info"
    info.mkdir()
    lines = []
    for path, text in files.items():
        (packages / path).write_text(text)
        lines.append(f"{path},sha256={hashlib.sha256(text.encode()).hexdigest()},{len(text)}\n")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("".join(lines))


def overlay(python: Path, *names: str) -> Overlay:
    """What a bundle for that environment says of it."""
    found = basepython.take(python)
    there = found.by_name()
    return Overlay(
        found.interpreter.version,
        found.interpreter.soabi,
        tuple(Provided(n, there[n].version, there[n].record_sha256) for n in sorted(names)),
    )


def bundle_on(output: Path, python: Path, carried: Content | None = None) -> tuple[Path, str]:
    """A tiny overlay for that environment, which has `given`; its folder and manifest's sha256."""
    simulator = Simulator(name="tiny+overlay", environment=carried or CARRIED)
    return simulator.write(output, manifest_of(simulator, python))


def manifest_of(simulator: Simulator, python: Path) -> bundle.Manifest:
    """The manifest of a tiny overlay."""
    environment = entries(simulator.environment or CARRIED)
    wanted = overlay(python, "given")
    return dataclasses.replace(simulator.manifest(), environment=environment, overlay=wanted)


def digest(folder: Path) -> str:
    """Of everything in a folder: names, kinds, links, bytes, modes and times of change."""
    hasher = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        told = path.lstat()
        content = b""
        if path.is_symlink():
            content = str(path.readlink()).encode()
        elif path.is_file():
            content = path.read_bytes()
        line = f"{path}\0{told.st_mode}\0{told.st_mtime_ns}\0{hashlib.sha256(content).hexdigest()}"
        hasher.update(line.encode())
    return hasher.hexdigest()
