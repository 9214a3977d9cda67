"""LoRA adapters and where they come from: a folder, or a Hub. Few files, all of them small."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bundler.models.folder import hash_locked, plain_name
from bundler.models.hub import HubSource
from bundler.models.resolve import expanded, hub_reference
from bundler.models.selection import PAPERS, check_names
from bundler.models.source import changed
from manifests import adapter, canonical, digests
from manifests.checkpoint import Rules
from manifests.errors import IntegrityError, UsageError
from manifests.lock import Adapter, Model
from manifests.modelfolder import files_of
from manifests.names import MEDIA_NAME
from wheelhouse.store import Progress, Store, silent

_NAMED = re.compile(r"(?P<place>.+)=(?P<name>[^=/]+)")


class AdapterSource(Protocol):
    """One place that has one adapter."""

    @property
    def name(self) -> str:
        """What requests are to call it."""
        ...

    def has(self, locked: Adapter) -> bool:
        """Whether a locked adapter can be this one, as far as the names tell; reads nothing."""
        ...

    def lock(self, base: str) -> tuple[Adapter, str]:
        """Pin it, for the model called `base`; and a note where it was trained on another.

        Raises as `ModelSource.lock` does.
        """
        ...

    def fetch(self, locked: Adapter, progress: Progress = silent) -> Mapping[str, Path]:
        """Get what was locked, by relative name; raises as `ModelSource.fetch` does."""
        ...


@dataclass(frozen=True)
class FolderAdapter:
    """An adapter in a folder. Nobody published its digests: they are computed here."""

    folder: Path
    name: str

    def has(self, locked: Adapter) -> bool:
        """Whether it came from a folder."""
        return locked.source.startswith("folder:") and locked.name == self.name

    def lock(self, base: str) -> tuple[Adapter, str]:
        """Hash every file that would be packed, after the whole was found fit to serve."""
        files, left_out = self._selected()
        config = adapter.inspect(files, str(self.folder), left_out)
        locked = tuple(hash_locked(name, path) for name, path in files.items())
        hasher = digests.sha256()
        hasher.update(canonical.dumps([[file.path, file.size, file.sha256] for file in locked]))
        revision = hasher.hexdigest()
        source = f"folder:{plain_name(self.folder.resolve().name)}"
        made = Adapter(self.name, source, revision, base, config.rank, locked)
        return made, _other_base(self.name, config.base, base)

    def fetch(self, locked: Adapter, progress: Progress = silent) -> Mapping[str, Path]:
        """Find the locked files; their bytes are compared when they are packed."""
        files, left_out = self._selected()
        adapter.inspect(files, str(self.folder), left_out)
        for file in locked.files:
            if file.path not in files:
                raise changed(file.path, f"sha256 {file.sha256}", "no such file")
            progress(file.size)
        return {file.path: files[file.path] for file in locked.files}

    def _selected(self) -> tuple[dict[str, Path], list[str]]:
        found = files_of(self.folder)
        taken, left_out = _select(found)
        return {name: found[name] for name in taken}, left_out


@dataclass(frozen=True)
class HubAdapter:
    """An adapter in a repository of its own; its files are got and checked as a model's."""

    hub: HubSource
    name: str

    def has(self, locked: Adapter) -> bool:
        """Whether it is this repository's, under this name."""
        return locked.name == self.name and self.hub.has(_as_model(locked))

    def lock(self, base: str) -> tuple[Adapter, str]:
        """Pin commit and digests, and judge it by its configuration."""
        found = self.hub.find()
        taken, left_out = _select(found.files)
        files = {name: found.files[name] for name in taken}
        source, commit = f"hf:{found.repository}", found.commit
        model = Model(self.name, source, commit, tuple(files.values()))
        small = {file.path: self.hub.small(model, file) for file in model.files if file.git_blob}
        paths = {name: self.hub.store.path(file.sha256) for name, file in small.items()}
        where = f"{found.repository}@{commit[:12]}"
        config = adapter.preview(paths, files, where, left_out)
        pinned = tuple(small.get(file.path, file) for file in model.files)
        made = Adapter(self.name, source, commit, base, config.rank, pinned, found.licence)
        return made, _other_base(self.name, config.base, base)

    def fetch(self, locked: Adapter, progress: Progress = silent) -> Mapping[str, Path]:
        """Fill the store with the locked files."""
        files = self.hub.fetch_files(_as_model(locked), progress)
        paths = {file.path: self.hub.store.path(file.sha256) for file in files}
        adapter.inspect(paths, f"{self.hub.repository}@{locked.revision[:12]}")
        return paths


def resolve_adapter(
    text: str, store: Store, *, endpoint: str | None = None, offline: bool = False
) -> AdapterSource:
    """The source that `PATH_OR_HUB_REF[=NAME]` means; nothing is read or asked yet.

    Raises UsageError for a folder that does not exist and for what is no name.
    """
    place, name = text, ""
    # A folder's own name may hold "=".
    if not expanded(text).is_dir() and (named := _NAMED.fullmatch(text)):
        place, name = named["place"], named["name"]
    if name and not MEDIA_NAME.fullmatch(name):
        raise UsageError(
            f"--lora {text}: {name!r} can't be the name of an adapter",
            mend="letters, digits and . _ + @ -, starting with a letter or digit",
        )
    folder = expanded(place)
    if place and folder.is_dir():
        return FolderAdapter(folder.absolute(), name or plain_name(folder.resolve().name))
    repository, revision = hub_reference(place)
    hub = HubSource(
        repository, store, Rules(), revision=revision, endpoint=endpoint, offline=offline
    )
    return HubAdapter(hub, name or plain_name(repository.rpartition("/")[2]))


def _as_model(locked: Adapter) -> Model:
    return Model(locked.name, locked.source, locked.revision, locked.files)


def _select(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Sorted names that are taken (configuration, weights, papers), and those left out."""
    listed = sorted(names)
    wanted = (adapter.CONFIG, adapter.WEIGHTS)
    taken = [name for name in listed if name in wanted or PAPERS.fullmatch(name)]
    try:
        check_names(taken)
    except IntegrityError as error:
        raise UsageError(error.what, mend="rename that file, or copy the adapter") from None
    return taken, sorted(set(listed).difference(taken))


def _other_base(name: str, stated: str, base: str) -> str:
    """A sentence where an adapter says that it is for another model; compared by last name."""
    if not stated or stated.rstrip("/").rpartition("/")[2].casefold() == base.casefold():
        return ""
    return f"the adapter {name} was trained on {stated}, and is served with {base}"
