"""Read what provenance is about: a finished bundle on its media. Nothing but papers is read."""

from collections.abc import Sequence
from pathlib import Path

from bundler import inspecting
from bundler.inspecting.subject import MEDIA
from bundler.papers.provenance import Finished
from manifests import bundle, regular, sums
from manifests.errors import SourceError, UsageError, from_oserror

#: Bytes. A statement has some 500 for each input, half as much again in base64.
_LARGEST = 64 << 20


def look(place: Path, volumes_in: Sequence[Path] = ()) -> tuple[Finished, Path]:
    """A bundle, and its folder.

    Raises UsageError where it is installed already, or its lock is another release's; SourceError
    where the volume with the lock is out of reach; and what `inspecting.find` raises.
    """
    found = inspecting.find(place, volumes_in)
    if found.kind != MEDIA or found.manifest is None:
        raise UsageError(
            f"{place}: not a bundle on its media, which is what provenance is about",
            mend="name the folder that `bundle create` wrote",
        )
    if found.lock is None:
        what = f"{found.path}: the lock can't be read, and it names every input"
        why = "; ".join(found.notes)
        if found.raw_lock:
            raise UsageError(what, why=why, mend="use the `bundle` that made it")
        mend = "name the folder of the missing volume with --volumes-in DIR"
        raise SourceError(what, why=why, mend=mend)
    listed = read(found.path / sums.FILE_NAME, "the list")
    made = Finished(
        found.manifest, found.digest, found.lock, sums.parse(listed), bundle.digest_of(listed)
    )
    return made, found.path


def read(path: Path, what: str) -> bytes:
    """The bytes of a file; `what` says what it is to be.

    Raises UsageError where there is none, FilesystemError where it can't be read.
    """
    try:
        return regular.read(path, _LARGEST)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{path}: no such file", mend=f"name {what} that there is") from None
    except OSError as error:
        raise from_oserror(error, f"reading {what}", path) from None
