"""A connected machine on which `bundle` is quick, and what every refusal has in common."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from bundler import hostchannel
from manifests import lock
from tests.support.small import STACK, Workplace, environment, workplace

#: Resolutions of a stack with a date are kept, so that only the first run of all asks pip.
_DATE = "2026-11-15T00:00:00Z"
#: The channel's packages are this machine's, and want its glibc.
DATED = STACK.replace('resolution_date = ""', f'resolution_date = "{_DATE}"').replace(
    'glibc = "2.17"', f'glibc = "{hostchannel.host_glibc()}"'
)
COMMAND = (sys.executable, "-c", "from bundler.cli import main; main()")


@dataclass(frozen=True)
class Bench:
    """A workplace whose channel is a folder, with a warm cache and a lock to follow."""

    place: Workplace
    channel: str
    stack: Path
    lock: Path

    def words(self, **changes: str | None) -> list[str]:
        """The flags of a request; None leaves one out."""
        return self.place.flags(**{"channel": self.channel, "stack": str(self.stack)} | changes)

    def create(
        self,
        output: Path,
        *words: str,
        env: Mapping[str, str] | None = None,
        launcher: tuple[str, ...] = (),
        before: Callable[[], None] | None = None,
        cwd: Path | None = None,
        **changes: str | None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `bundle create`, behind `launcher` if there is one; flags as in `words`."""
        command = [*self.words(**changes), "--output", str(output), *words]
        return run("create", *command, env=env, launcher=launcher, before=before, cwd=cwd)

    def follow(self, output: Path, *words: str, **rest: object) -> subprocess.CompletedProcess[str]:
        """`bundle create --lock`: from the warm cache this is mostly the start of Python."""
        return self.create(output, "--lock", str(self.lock), *words, **rest)  # type: ignore[arg-type]  # as create's

    def locked(self) -> lock.Lock:
        return lock.load(self.lock)

    def with_own_cache(self, folder: Path) -> "Bench":
        """The same bench, with a cache that nobody else uses."""
        return replace(self, place=replace(self.place, kept=self.own_cache(folder)))

    def own_cache(self, folder: Path, *, packed: bool = True) -> Path:
        """A copy of the warm cache. Its files are links: replace them, never write into them."""
        left_out = shutil.ignore_patterns("work", "repodata", *([] if packed else ["packed"]))
        shutil.copytree(self.place.cache, folder, ignore=left_out, copy_function=os.link)
        return folder


def prepared(root: Path) -> Bench:
    """A bench with its lock and its first bundle, in `media`; made now unless it is there.

    Several processes may ask at a time, and one of them makes it.
    """
    root.mkdir(exist_ok=True)
    place = Workplace(root / "place", (root / "channel").as_uri())
    made = Bench(place, place.channel, place.stack, root / "bundle.lock")
    with (root / "making").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (root / "made").exists():
            shutil.rmtree(place.root, ignore_errors=True)  # of one that failed
            workplace(place.root, hostchannel.build(root / "channel").as_uri(), DATED)
            done = run("lock", *made.words(), "--lock", str(made.lock))
            assert done.returncode == 0, done.stderr
            done = made.follow(root / "media")
            assert done.returncode == 0, done.stderr
            (root / "made").touch()
    return made


def run(
    *words: str,
    env: Mapping[str, str] | None = None,
    launcher: tuple[str, ...] = (),
    before: Callable[[], None] | None = None,
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `bundle`; `before` runs in the new process, `env` is added to the environment."""
    return subprocess.run(
        [*launcher, *COMMAND, *words],
        env=environment(**(env or {})),
        preexec_fn=before,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    """One clear message: the exit code, what it names, a mend, and no traceback."""
    said = done.stderr
    assert "Traceback" not in said + done.stdout
    assert done.returncode == code, said
    assert said.count("error: ") == 1, said
    assert "  mend: " in said
    for word in words:
        assert word in said, said


def rest_of(output: Path, cache: Path) -> list[str]:
    """What a failed run has left: anything below the output, folders of a step in the cache."""
    folders = [folder for folder in (output, cache / "work") if folder.is_dir()]
    found = [path for folder in folders for path in folder.iterdir()]
    return [str(path) for path in found if path.suffix != ".lock"]


def damage(path: Path) -> None:
    """Change one byte in the middle of a file, whose other links keep theirs."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.unlink()
    path.write_bytes(data)
