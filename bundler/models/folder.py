"""A model in a folder on this machine, a Hub's cache included. It is read in place."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from bundler.models.card import licence_of
from bundler.models.selection import check_names, select
from bundler.models.source import Snapshot, changed, locked_rules, serialised
from manifests import canonical, digests
from manifests.checkpoint import Checkpoint, Rules, inspect
from manifests.errors import BundleError, IntegrityError, UsageError, from_oserror
from manifests.lock import COMPUTED, Model, ModelFile
from manifests.modelfolder import UNFINISHED, files_of
from wheelhouse.store import Progress, silent

#: How huggingface_hub lays out its cache: models--ORG--NAME/{blobs,refs,snapshots/COMMIT}.
_CACHED = re.compile(r"models--(?:.+--)?(?P<name>.+)")
#: A blob is named by what the Hub published: sha256 (LFS) or git blob id.
_SHA256, _GIT_BLOB = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class FolderSource:
    """A folder. Nobody published its digests: they are computed here and say so."""

    folder: Path
    name: str
    rules: Rules

    def reads(self) -> int:
        """Bytes that `lock` reads."""
        return sum(path.stat().st_size for path in self._selected()[0].values())

    def has(self, model: Model) -> bool:
        """Whether it came from a folder: one that was moved or renamed is the same by its bytes."""
        return model.source.startswith("folder:")

    def lock(self, progress: Progress = silent) -> Model:
        """Hash every file that would be packed, after the whole was found fit to serve."""
        files, left_out = self._selected()
        checkpoint = self._inspect(files, self.rules, left_out)
        count = serialised(progress)
        with ThreadPoolExecutor(digests.workers()) as pool:
            jobs = [pool.submit(hash_locked, name, path, count) for name, path in files.items()]
            try:
                locked = tuple(job.result() for job in jobs)
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        listing = canonical.dumps([[file.path, file.size, file.sha256] for file in locked])
        hasher = digests.sha256()
        hasher.update(listing)
        return Model(
            name=self.name,
            source=f"folder:{self.name}",
            revision=hasher.hexdigest(),
            files=locked,
            licence=_licence(files),
            risks=checkpoint.risks,
        )

    def fetch(self, model: Model, progress: Progress = silent) -> Snapshot:
        """Find the locked files; their bytes are compared when they are packed."""
        files = files_of(self.folder)
        for file in model.files:
            if file.path not in files:
                raise changed(file.path, f"sha256 {file.sha256}", "no such file")
            size = files[file.path].stat().st_size
            if size != file.size:
                raise changed(file.path, f"{file.size} bytes", f"{size} bytes")
            progress(size)
        chosen = {file.path: files[file.path] for file in model.files}
        return Snapshot(model, chosen, self._inspect(chosen, locked_rules(self.rules, model)))

    def _selected(self) -> tuple[dict[str, Path], list[str]]:
        found = files_of(self.folder)
        taken, left_out = select(found, self.rules)
        try:
            check_names(taken)
        except IntegrityError as error:
            raise UsageError(
                f"{self.folder}: {error.what}",
                mend="rename that file, or copy the model without it",
            ) from None
        return {name: found[name] for name in taken}, left_out

    def _inspect(
        self, files: Mapping[str, Path], rules: Rules, left_out: Sequence[str] = ()
    ) -> Checkpoint:
        try:
            return inspect(files, rules, where=str(self.folder), left_out=left_out)
        except BundleError as error:
            unfinished = _unfinished(self.folder)
            if not unfinished:
                raise
            raise type(error)(
                error.what,
                why="the download into this cache has not ended",
                mend=error.mend,
                findings=[*error.findings, *unfinished],
            ) from None


def folder_source(path: Path, rules: Rules) -> FolderSource:
    """The source for a folder: a plain one, a snapshot in a Hub's cache, or a model in the cache.

    Raises UsageError where the folder holds several snapshots and none is the current one.
    """
    folder = path.absolute()
    cached = _CACHED.fullmatch(folder.name)
    if cached and (folder / "snapshots").is_dir():
        return FolderSource(_current(folder), plain_name(cached["name"]), rules)
    if folder.parent.name == "snapshots" and (owner := _CACHED.fullmatch(folder.parts[-3])):
        return FolderSource(folder, plain_name(owner["name"]), rules)
    return FolderSource(folder, plain_name(folder.resolve().name), rules)


def _current(cache: Path) -> Path:
    try:
        snapshots = sorted(path for path in (cache / "snapshots").iterdir() if path.is_dir())
        if len(snapshots) == 1:
            return snapshots[0]
        # A copied reference may have gained a newline.
        current = cache / "snapshots" / (cache / "refs" / "main").read_text("ascii").strip()
        if current in snapshots:
            return current
    except (OSError, ValueError):
        snapshots = sorted(cache.glob("snapshots/*/"))
    raise UsageError(
        f"{cache}: {len(snapshots)} snapshots, and refs/main names none of them",
        mend="name one of the folders below snapshots/",
        findings=[str(path) for path in snapshots],
    )


def plain_name(name: str) -> str:
    """A name that may stand in a path, a URL and on a command line."""
    return re.sub(r"[^A-Za-z0-9_.+-]+", "-", name).strip("-.+") or "model"


def _licence(files: dict[str, Path]) -> str:
    card = files.get("README.md")
    return licence_of(card.read_text("utf-8", "replace")) if card else ""


def hash_locked(name: str, path: Path, progress: Progress = silent) -> ModelFile:
    """A file with its digest, which has to be the one that a Hub's cache keeps it under."""
    new, expected = _expected(path)
    try:
        with path.open("rb", buffering=0) as handle:
            size = os.fstat(handle.fileno()).st_size
            hashers = [digests.sha256(), *(make(size) for make in new)]
            count = 0
            for view in digests.chunks(handle):
                for hasher in hashers:
                    hasher.update(view)
                count += len(view)
                progress(len(view))
    except OSError as error:
        raise from_oserror(error, "reading the model", path) from error
    if count != size:
        raise changed(name, f"{size} bytes", f"{count} bytes")
    found = hashers[-1].hexdigest()
    if expected and found != expected:
        raise IntegrityError(
            f"{name}: the cache keeps it as {expected}, its digest is {found}",
            why="these are not the bytes that the Hub published: a bad download, or changed since",
            mend=f"delete {path.resolve()} and download the model again",
        )
    return ModelFile(name, size, hashers[0].hexdigest(), digest_from=COMPUTED)


def _expected(path: Path) -> tuple[Sequence[Callable[[int], digests.Hasher]], str]:
    """Further hashers to run, and the digest by which a Hub's cache keeps the file, if it does.

    The first link counts: blobs may themselves be links into a store with other names.
    """
    if path.is_symlink():
        blob = path.parent / path.readlink()
        if blob.parent.name == "blobs":
            if _SHA256.fullmatch(blob.name):
                return (), blob.name
            if _GIT_BLOB.fullmatch(blob.name):
                return (digests.git_blob,), blob.name
    return (), ""


def _unfinished(folder: Path) -> list[str]:
    if folder.parent.name != "snapshots":
        return []
    blobs = folder.parent.parent / "blobs"
    names = sorted(path.name for path in blobs.glob("*") if path.name.endswith(UNFINISHED))
    return [f"blobs/{name}: a download that has not ended (incomplete)" for name in names]
