"""pip's resolver on top of what an isolated host has: from requirements to what is to be carried.

pip leaves an installed distribution alone as long as it fits, and goes on with another version
where it doesn't (`only-if-needed`). So the host's distributions are shown to it as installed.
As existing pins for pip-tools they would be constraints, each of which it drops only after it has
tried all versions of everything else: it took hours.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelhouse import stubs
from wheelhouse.pins import FAST, Unresolved, lines, said, settings
from wheelhouse.sources import Sources
from wheelhouse.stubs import Below
from wheelhouse.toolbox import Toolbox, pip_alone

#: Without `site`, whose packages would count as installed; but with the target's glibc.
_START = "import runpy, sitecustomize; runpy.run_module('pip', run_name='__main__')"
_FLAGS = ("--dry-run", "--verbose", "--no-user", "--break-system-packages")


@dataclass(frozen=True)
class Closure:
    """What has to be carried, by normalised name, and the names of what the host provides."""

    carried: dict[str, Version]
    provided: tuple[str, ...]  # sorted


def compile_above(
    requirements: Sequence[str],
    below: Below,
    toolbox: Toolbox,
    sources: Sources,
    date: str,
    scratch: Path,
    *,
    constraints: Sequence[str] = (),
) -> Closure:
    """The closure of the requirements, of which as much is `below` as pip can leave there.

    Raises Unresolved with pip's essential lines.
    """
    wanted, bounds = scratch / "requirements.in", scratch / "constraints.txt"
    wanted.write_text(lines(requirements), "utf-8")
    bounds.write_text(lines(constraints), "utf-8")
    report = scratch / "report.json"
    alone = pip_alone(Path(mkdtemp(prefix="above-", dir=scratch)), toolbox)
    stubs.pretend_installed(below.distributions, alone.folder)
    command = (
        *("-S", "-c", _START, "install", *_FLAGS, "--report", str(report)),
        *("--requirement", str(wanted), "--constraint", str(bounds)),
    )
    environment = settings(sources, date, scratch)
    done = alone.run(*command, environment=environment | FAST)
    if done.returncode and not said(done.stdout + done.stderr):
        done = alone.run(*command, environment=environment)
    if done.returncode:
        output = done.stdout + done.stderr
        raise Unresolved(
            "pip found no set of wheels for the requirements above the host's environment",
            findings=said(output) or tuple(output.strip().splitlines()[-1:]),
        )
    found = json.loads(report.read_bytes())
    heads = {str(canonicalize_name(item["metadata"]["name"])): item for item in found["install"]}
    carried = {name: Version(item["metadata"]["version"]) for name, item in heads.items()}
    required = {one.name: one.requires for one in below.distributions} | {
        name: tuple(item["metadata"].get("requires_dist", ())) for name, item in heads.items()
    }
    names = closure(requirements, required, found["environment"])
    return Closure(carried, tuple(sorted(names - carried.keys())))


def closure(
    roots: Iterable[str], required: Mapping[str, Sequence[str]], environment: Mapping[str, str]
) -> frozenset[str]:
    """The names that requirements lead to; `required` gives each distribution's own.

    `environment` has PEP 508's markers; a requirement with extras asks for those of its target.
    """
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "") for text in roots]
    while waiting:
        wanted, extra = waiting.pop()
        if wanted.marker is not None and not wanted.marker.evaluate(
            {**environment, "extra": extra}
        ):
            continue
        name = canonicalize_name(wanted.name)
        for asked in {(name, ""), *((name, extra) for extra in wanted.extras)} - seen:
            seen.add(asked)
            waiting += [(Requirement(text), asked[1]) for text in required[name]]
    return frozenset(name for name, _ in seen)
