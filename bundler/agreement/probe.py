"""Load a model's tokenizer with the server's own transformers, under the server's own Python.

The whole environment is not needed for that: transformers and what it requires are installed from
the lock's wheels, which takes seconds, also where the packed environment comes from the cache.
"""

import email
import hashlib
import json
import os
import subprocess
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bundler import conda
from bundler.models import Snapshot
from bundler.workshop import Workshop
from manifests import canonical, trial
from manifests.digests import hash_file
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.lock import CondaPackage, Wheel
from manifests.records import from_data
from manifests.risks import is_code, is_pickle
from manifests.shards import SUFFIX
from manifests.trial import Answer, Question
from wheelhouse import install, remember
from wheelhouse.flashattn.isolation import isolated

TRANSFORMERS = "transformers"
#: transformers' own requirements, and what its tokenizers and templates import if it is there.
ROOTS = (TRANSFORMERS, "jinja2", "tiktoken", "sentencepiece", "protobuf", "mistral-common")
#: Tokenizers do without; it is large, and its libraries need not load on this machine.
_LEFT_OUT = frozenset({"torch"})
_SCRIPT = Path(trial.__file__)
#: Seconds. Two are usual; a disk may be cold and a machine busy.
_PATIENCE = 300


def wheels_for(wheels: Sequence[Wheel], workshop: Workshop) -> tuple[Wheel, ...]:
    """What transformers requires, and itself, of an environment's wheels.

    None where the environment has no transformers, or where its wheels are not on this machine.
    """
    known = {wheel.name: wheel for wheel in wheels if wheel.name not in _LEFT_OUT}
    if TRANSFORMERS not in known or not all(workshop.store.has(wheel.sha256) for wheel in wheels):
        return ()
    found: dict[str, Wheel] = {}
    waiting = list(ROOTS)
    while waiting:
        name = waiting.pop()
        if name in known and name not in found:
            wheel = found[name] = known[name]
            waiting += _required(workshop.store.verified(wheel.sha256, wheel.filename))
    return tuple(sorted(found.values(), key=lambda wheel: wheel.name))


def ask(
    snapshots: Sequence[Snapshot],
    packages: tuple[CondaPackage, ...],
    wheels: tuple[Wheel, ...],
    workshop: Workshop,
) -> dict[str, Answer]:
    """The answer for each model by its name; what was asked before is remembered.

    Raises what making an environment raises, and FilesystemError.
    """
    places = {
        snapshot.model.name: workshop.agreement / f"{_key(snapshot, packages, wheels)}.json"
        for snapshot in snapshots
    }
    answers: dict[str, Answer] = {}
    for name, place in places.items():
        with suppress(OSError, ValueError, IntegrityError):
            answers[name] = remember.recall(place, Answer)
    missing = [snapshot for snapshot in snapshots if snapshot.model.name not in answers]
    if not missing:
        return answers
    with workshop.scratch("agreement") as scratch:
        prefix = scratch / "prefix"
        conda.create(packages, prefix, workshop.store, scratch / "conda")
        install.install(wheels, prefix=prefix, store=workshop.store, scratch=scratch / "pip")
        for number, snapshot in enumerate(missing):
            folder = _small_files(snapshot, scratch / f"model-{number}")
            answer = _run(prefix / "bin/python", folder, scratch)
            answers[snapshot.model.name] = answer
            if not answer.version:
                continue  # that is about this machine, and may be otherwise next time
            try:
                remember.keep(places[snapshot.model.name], answer)
            except OSError as error:
                raise from_oserror(error, "keeping the answer") from error
    return answers


def _required(wheel: Path) -> Iterator[str]:
    """Names that a wheel requires, extras aside; markers of platforms are left to the lock."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if _is_metadata(n))
        headers = email.message_from_bytes(archive.read(name))
    for line in headers.get_all("Requires-Dist") or ():
        requirement = Requirement(line)
        if "extra" not in str(requirement.marker or ""):
            yield canonicalize_name(requirement.name)


def _is_metadata(name: str) -> bool:
    return name.endswith(".dist-info/METADATA") and name.count("/") == 1


def _key(snapshot: Snapshot, packages: Collection[CondaPackage], wheels: Collection[Wheel]) -> str:
    question = {
        "conda": [[package.url, package.sha256] for package in packages],
        "wheels": [wheel.sha256 for wheel in wheels],
        "script": hash_file(_SCRIPT),
        "files": [[f.path, f.sha256] for f in snapshot.model.files if _is_small(f.path)],
    }
    return hashlib.sha256(canonical.dumps(question)).hexdigest()[:32]


def _is_small(name: str) -> bool:
    """Whether a file is neither weights nor code: nothing of a model's may run on this machine."""
    return not (name.endswith(SUFFIX) or is_code(name) or is_pickle(name))


def _small_files(snapshot: Snapshot, folder: Path) -> Path:
    for name, path in snapshot.files.items():
        if _is_small(name):
            link = folder / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path.absolute())
    return folder


def _run(python: Path, folder: Path, scratch: Path) -> Answer:
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    cut_off: tuple[str, ...] = ()
    with suppress(UsageError):  # the script refuses every connection itself, too
        cut_off = isolated()
    try:
        done = subprocess.run(
            [*cut_off, str(python), "-I", "-B", str(_SCRIPT)],
            env=_environment(home),
            cwd=home,
            input=json.dumps(asdict(Question(folder=str(folder)))),
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(error=f"no answer within {_PATIENCE} seconds")
    except OSError as error:  # a Python that is for another machine
        return Answer(error=str(error))
    try:
        return from_data(Answer, json.loads(done.stdout.splitlines()[-1]), "the tokenizer's answer")
    except (IndexError, ValueError, IntegrityError):
        last = (done.stderr.strip().splitlines() or [f"status {done.returncode}"])[-1]
        return Answer(error=f"Python ended without an answer: {last}")


def _environment(home: Path) -> Mapping[str, str]:
    """Nothing of the caller's: no token, no proxy, no Hub."""
    return {
        "PATH": os.defpath,
        "HOME": str(home),
        "LC_ALL": "C.UTF-8",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
