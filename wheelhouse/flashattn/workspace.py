"""The folder in which one recipe is built, kept until its wheel is done.

```
lock                       held by whoever builds, compilers included
python/, env/              the target's interpreter; the environment that the build runs in
source/                    the patched source, and in build/ the objects that ninja reuses
cuda/                      CUDA_HOME; its path stands in every command line, so it never moves
tmp/, out/, build.log
```
ninja compiles again what was compiled by another command line, or is older than a header. So all
of it lies at one place and is made once.
"""

import fcntl
import re
import shutil
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from manifests.digests import hash_file
from manifests.errors import IntegrityError, UsageError, from_oserror
from manifests.lock import Build
from manifests.names import check_path
from wheelhouse.store import Store

#: What ends or changes a word for a shell, for ninja or in nvcc's lists.
_UNQUOTED = re.compile(r"""[\s'"\\$,;&|<>()*?]""")


@dataclass(frozen=True)
class Workspace:
    """One recipe's folder."""

    root: Path
    lock: int = -1  # an open file that the build inherits

    @property
    def source(self) -> Path:
        """The patched source."""
        return self.root / "source"

    @property
    def python(self) -> Path:
        """The interpreter that the environment is made from."""
        return self.root / "python"

    @property
    def env(self) -> Path:
        """The environment of the build."""
        return self.root / "env"

    @property
    def cuda(self) -> Path:
        """CUDA_HOME."""
        return self.root / "cuda"

    @property
    def log(self) -> Path:
        """All that the last attempts said."""
        return self.root / "build.log"

    def emptied(self, name: str) -> Path:
        """A folder for what need not survive."""
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


@contextmanager
def opened(root: Path) -> Iterator[Workspace]:
    """The folder, ours alone; it stays.

    Raises UsageError where another run builds there, or where its path would fall apart on a
    compiler's command line, FilesystemError.
    """
    if _UNQUOTED.search(str(root)):
        raise UsageError(
            f"{root}: compilers can't work in a folder of this name",
            why="its path stands unquoted in their command lines",
            mend="choose a --cache without spaces, quotes and such in its path",
        )
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UsageError(
                    f"{root}: another `bundle` is building this flash-attn",
                    mend="wait until it has ended, then run the same command again",
                ) from None
            yield Workspace(root, lock.fileno())
    except OSError as error:
        raise from_oserror(error, "building flash-attn") from error


def lay_source(build: Build, store: Store, workspace: Workspace) -> None:
    """Unpack the source and patch it, once; a folder that is there was made completely.

    Raises IntegrityError where the archive is not the locked one, holds what does not belong into
    a source, or a patch does not apply.
    """
    if workspace.source.is_dir():
        return
    growing = workspace.emptied("source.partial")
    archive = store.verified(build.sha256, build.filename)
    top = unpack(archive, build.filename, growing)
    for patch in build.patches:
        path = top / check_path(patch.path)
        path.write_bytes(replaced(path.read_bytes(), patch.old, patch.new, patch.path))
        if hash_file(path) != patch.sha256:
            raise IntegrityError(
                f"{build.filename}: {patch.path} is not what the lock says after patching",
                mend="make the lock again with `bundle lock`",
            )
    top.rename(workspace.source)


def unpack(archive: Path, name: str, folder: Path) -> Path:
    """Unpack a source archive called `name`; its one top folder.

    Raises IntegrityError for anything but plain files and folders below one folder.
    """
    try:
        with tarfile.open(archive) as tar:
            members = tar.getmembers()
            for member in members:
                check_path(member.name)
                if not (member.isfile() or member.isdir()):
                    raise IntegrityError(f"{name}: {member.name} is neither a file nor a folder")
            tops = {PurePosixPath(member.name).parts[0] for member in members}
            if len(tops) != 1:
                raise IntegrityError(f"{name}: {len(tops)} folders at its top, a source has one")
            tar.extractall(folder, members, filter="data")
    except (tarfile.TarError, EOFError) as error:
        raise IntegrityError(f"{name}: not a source archive ({error})") from None
    return folder / tops.pop()


def replaced(data: bytes, old: str, new: str, path: str) -> bytes:
    """The bytes with every `old` replaced.

    Raises IntegrityError where there is none.
    """
    if old.encode() not in data:
        raise IntegrityError(f"{path} has no {old!r}, which is to be replaced")
    return data.replace(old.encode(), new.encode())
