"""Ask the server's own Python about its arguments and a model's tokenizer, and remember the answer.

The first question of a release takes as long as its imports, half a minute; the release never
changes, so that its options, and what its parser has accepted, are kept below PREFIX/cache.
"""

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bundlectl.serverlog import redact
from manifests import canonical, synced, trial
from manifests.errors import IntegrityError, ServerError, from_oserror
from manifests.records import from_data, to_data
from manifests.shards import SUFFIX
from manifests.trial import Answer, Question

_SCRIPT = Path(trial.__file__)
#: Seconds. Half a minute is usual with a cold disk; a busy machine takes longer.
PATIENCE = 600
_LINES, _LONGEST = 5, 300  # of a crash: the last lines, and characters of each


@dataclass(frozen=True)
class Memory:
    """Answers on disk, each under the digest of what was asked."""

    folder: Path
    about: tuple[str, ...]  # what every question depends on: the release

    def recall(self, *question: str) -> Answer | None:
        """An earlier answer; None where there is none, or it can't be read."""
        try:
            data = canonical.unsealed(self._path(question).read_bytes())
            return from_data(Answer, data, "an answer")
        except (OSError, ValueError, IntegrityError):
            return None

    def keep(self, answer: Answer, *question: str) -> None:
        """Keep an answer; FilesystemError where that fails."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            synced.replace(self._path(question), canonical.sealed(to_data(answer)), 0o600)
        except OSError as error:
            raise from_oserror(error, "keeping what the server's parser said") from error

    def _path(self, question: tuple[str, ...]) -> Path:
        # Another script may ask in another way.
        script = hashlib.sha256(_SCRIPT.read_bytes()).hexdigest()
        text = canonical.dumps([script, *self.about, *question])
        return self.folder / f"{hashlib.sha256(text).hexdigest()[:32]}.json"


def identity(folder: Path) -> str:
    """A text that changes when a file of a model does, weights aside, by size or time of change.

    Raises FilesystemError.
    """
    try:
        found: list[Any] = []
        for path in sorted(folder.rglob("*")):
            if path.suffix == SUFFIX or not path.is_file():
                continue
            told = path.stat()
            found.append([str(path.relative_to(folder)), told.st_size, told.st_mtime_ns])
    except OSError as error:
        raise from_oserror(error, "looking at the model's files") from error
    return hashlib.sha256(canonical.dumps([str(folder), found])).hexdigest()


def ask(question: Question, python: Path, variables: Mapping[str, str], folder: Path) -> Answer:
    """What the server's Python says; `variables` are the server's, `folder` is where it runs.

    Raises ServerError with its last words where it ends without an answer.
    """
    try:
        done = subprocess.run(
            # -P: the script's folder holds modules of ours, which are none of the server's.
            [str(python), "-s", "-P", str(_SCRIPT)],
            input=json.dumps(asdict(question)),
            env=dict(variables),
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
            check=False,
            umask=0o077,
        )
        return from_data(Answer, json.loads(done.stdout.splitlines()[-1]), "its answer")
    except OSError as error:
        raise _failed(f"it can't be started: {error.strerror}", ()) from None
    except subprocess.TimeoutExpired:
        raise _failed(f"no answer within {PATIENCE} seconds", ()) from None
    except (IndexError, ValueError, IntegrityError):
        lines = [redact(line)[:_LONGEST] for line in done.stderr.splitlines() if line.strip()]
        raise _failed(f"it ended with status {done.returncode}", tuple(lines[-_LINES:])) from None


def _failed(why: str, lines: tuple[str, ...]) -> ServerError:
    return ServerError(
        "the server's Python could not check the arguments and the model",
        why=why,
        findings=lines,
        mend="run: bundlectl audit, to see what is missing or altered",
    )
