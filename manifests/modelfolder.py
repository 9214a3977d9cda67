"""The files of a model folder, whatever copied it: links followed, leftovers and holes named."""

import os
from collections.abc import Iterator
from pathlib import Path

from manifests.errors import UsageError, from_oserror
from manifests.findings import Finding, refuse

#: What huggingface_hub, our own store and browsers name a download that has not ended.
UNFINISHED = (".incomplete", ".partial", ".crdownload", ".part")


def files_of(folder: Path) -> dict[str, Path]:
    """The regular files below a folder by relative name, hidden ones left out.

    Raises UsageError where there is no such folder; IntegrityError naming every link that leads
    nowhere, every unfinished download and everything that is no file; FilesystemError.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder", mend="name the folder that holds the model")
    found: dict[str, Path] = {}
    findings: list[Finding] = []
    try:
        for relative, path in _walk(folder):
            if relative.endswith(UNFINISHED):
                what = f"{relative}: a download that has not ended (incomplete)"
                findings.append(Finding(what, "finish or repeat the download", damage=True))
            elif path.is_file():
                found[relative] = path
            else:
                findings.append(_no_file(relative, path))
    except OSError as error:
        raise from_oserror(error, "reading the model folder") from error
    refuse(f"{folder}: not a whole model", findings)
    return found


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    def fail(error: OSError) -> None:
        raise error

    # Linked folders are not entered: a loop would not end.
    for base, folders, names in os.walk(folder, onerror=fail):
        links = [name for name in folders if Path(base, name).is_symlink()]
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted([*names, *links]):
            if not name.startswith(".") or name.endswith(UNFINISHED):
                path = Path(base, name)
                yield path.relative_to(folder).as_posix(), path


def _no_file(relative: str, path: Path) -> Finding:
    if path.is_dir():
        return Finding(f"{relative}: a link to a folder", "copy the folder to its place")
    if path.is_symlink():
        return Finding(
            f"{relative}: a link to {path.readlink()}, which is not there (dangling-link)",
            "the folder was copied without what its links point to: copy it again with `cp -rL`",
            damage=True,
        )
    return Finding(f"{relative}: not a regular file", "remove it")
