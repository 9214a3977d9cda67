"""Which models are installed, which of them a release can serve, and which one it does.

The choice is kept for each release in `state/models.json`; a release without one serves its own
default. So one rename is the commit of every switch: of this file where the release stays, of
`current` where it changes (the entry of a release that is not current says nothing yet), and a
kill at any moment leaves the old pair or the new one. Going back to a release brings back what it
served.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from bundlectl import statefile
from bundlectl.layout import Layout
from manifests import FORMAT_VERSION, adapter, canonical, checkpoint, placement, tree
from manifests.bundle import Manifest, Part, ServedAdapter, ServedModel
from manifests.errors import IntegrityError, TargetError, UsageError
from manifests.modelfolder import files_of
from manifests.records import to_data


@dataclass(frozen=True)
class Choice:
    """The model that a release serves, by the installed bundle that brought it."""

    bundle: str  # a name below releases/
    model: str


@dataclass(frozen=True)
class Choices:
    """The file state/models.json: release → what it serves."""

    schema: int
    releases: dict[str, Choice] = field(default_factory=dict)

    def dump(self) -> bytes:
        """The canonical bytes of the record."""
        return canonical.dumps(to_data(self))


@dataclass(frozen=True)
class Installed:
    """A model of an installed bundle, with the adapters that came for it."""

    bundle: str  # the installed bundle that brought it, a name below releases/
    manifest: Manifest  # of that bundle
    model: ServedModel
    parts: tuple[Part, ...]  # the model, and its adapters

    @property
    def name(self) -> str:
        """What the bundle calls it."""
        return self.model.name

    @property
    def reference(self) -> str:
        """Its name and revision, as `use` takes them: NAME@REVISION."""
        return Path(self.folders[0]).name

    @property
    def adapters(self) -> tuple[ServedAdapter, ...]:
        """The adapters that are served with it."""
        return tuple(p.item for p in self.parts if isinstance(p.item, ServedAdapter))

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders below the prefix: the model's, then the adapters'."""
        return tuple(part.folder for part in self.parts)

    @property
    def size(self) -> int:
        """Bytes of the model, without adapters."""
        return sum(entry.size for entry in self.manifest.part_entries(self.parts[0]))


def installed(layout: Layout) -> tuple[Installed, ...]:
    """Every model of every installed bundle; bundles whose papers differ are left to the audit."""
    found: list[Installed] = []
    for name in placement.installed_releases(layout.prefix):
        try:
            manifest, _ = placement.load_manifest(layout.prefix, name)
        except (IntegrityError, UsageError):  # UsageError: of a later format
            continue
        found += of_bundle(name, manifest)
    return tuple(found)


def of_bundle(name: str, manifest: Manifest) -> Iterator[Installed]:
    """The models of one bundle, its default one first."""
    parts = manifest.parts()
    adapters = [part for part in parts if isinstance(part.item, ServedAdapter)]
    for part in parts:
        if isinstance(part.item, ServedModel):
            own = [one for one in adapters if getattr(one.item, "base", "") == part.item.name]
            yield Installed(name, manifest, part.item, (part, *own))


def can_serve(release: Manifest, model: Manifest) -> bool:
    """Whether a release serves the models of a bundle: those of its own stack and flavour."""
    same = (release.stack, release.flavour) == (model.stack, model.flavour)
    return same and not release.model_only


def find(layout: Layout, release: str, name: str) -> Installed:
    """The model that NAME or NAME@REVISION means to a release.

    The release's own comes first, then that of the newest bundle. Raises UsageError where there is
    none of that name, or the release can't be started; TargetError where it is for another stack.
    """
    manifest = _startable(layout, release)
    every = installed(layout)
    named = [m for m in every if name.casefold() in (m.name.casefold(), m.reference.casefold())]
    fitting = [m for m in named if can_serve(manifest, m.manifest)]
    if fitting:
        return max(fitting, key=lambda m: (m.bundle == release, m.manifest.sequence, m.bundle))
    if named:
        stacks = ", ".join(sorted({_stack(m.manifest) for m in named}))
        raise TargetError(
            f"{name} is installed for {stacks}, the release {release} has {_stack(manifest)}",
            mend="name a release of that stack with --release, or bring a bundle of it for this "
            "one: bundle create --model-only",
        )
    if any(name == one.name for m in every for one in m.adapters):
        raise UsageError(
            f"{name} is an adapter: it is served together with its model",
            mend=f'name it in requests: "model": "{name}"',
        )
    known = ", ".join(sorted({m.name for m in every if can_serve(manifest, m.manifest)}))
    raise UsageError(f"no model {name} is installed for {release}", mend=f"installed: {known}")


def to_serve(layout: Layout, release: str) -> Installed:
    """The model that a release serves: the chosen one, otherwise its default.

    A release that was never in service keeps to the model that is served now, if it has it.
    Raises UsageError where the release has no environment, or the chosen model is gone.
    """
    manifest = _startable(layout, release)
    choices = load(layout)
    chosen = choices.releases.get(release)
    if chosen is not None:
        return _chosen(layout, release, chosen)
    own = tuple(of_bundle(release, manifest))
    before = choices.releases.get(layout.current_release())
    return next((m for m in own if before is not None and m.name == before.model), own[0])


def _startable(layout: Layout, release: str) -> Manifest:
    """The manifest of a release that has an environment; UsageError otherwise."""
    manifest, _ = placement.load_manifest(layout.prefix, release)
    if manifest.model_only:
        raise UsageError(
            f"{release} holds models alone, and can't be started",
            mend=f"serve one with: bundlectl use {manifest.model.name}",
        )
    return manifest


def _chosen(layout: Layout, release: str, chosen: Choice) -> Installed:
    try:
        manifest, _ = placement.load_manifest(layout.prefix, chosen.bundle)
        return next(m for m in of_bundle(chosen.bundle, manifest) if m.name == chosen.model)
    except (UsageError, StopIteration):
        raise UsageError(
            f"{release} is to serve {chosen.model} of {chosen.bundle}, which is not installed",
            mend="choose another model with: bundlectl use NAME (see: bundlectl models)",
        ) from None


def path_of(layout: Layout) -> Path:
    """Where the choices are kept."""
    return layout.own_state / "models.json"


def load(layout: Layout) -> Choices:
    """The choices so far.

    Raises IntegrityError where the record is damaged, FilesystemError where it can't be read.
    """
    return statefile.load(
        path_of(layout),
        Choices(FORMAT_VERSION),
        "reading which model is served",
        "nobody can tell which model is to be served",
        "remove the file, and choose again with: bundlectl use NAME",
    )


def with_choice(layout: Layout, release: str, model: Installed) -> Choices | None:
    """The choices once a release serves a model; None where they say so already."""
    choices, chosen = load(layout), Choice(model.bundle, model.name)
    if choices.releases.get(release, Choice(release, _default(layout, release))) == chosen:
        return None
    return replace(choices, releases={**choices.releases, release: chosen})


def _default(layout: Layout, release: str) -> str:
    return placement.load_manifest(layout.prefix, release)[0].model.name


def check_complete(layout: Layout, model: Installed) -> None:
    """Refuse a model, or an adapter of it, that a server would answer nonsense with.

    Looks at names, sizes and headers; digests are the audit's. Raises IntegrityError, UsageError.
    """
    for part in model.parts:
        folder = layout.prefix / part.folder
        wrong = [
            f"{entry.path}: missing, or not {entry.size} bytes long"
            for entry in model.manifest.part_entries(part)
            if entry.kind == tree.FILE and not _has_size(folder / entry.path, entry.size)
        ]
        if wrong:
            raise IntegrityError(
                f"{folder}: the model is not complete",
                findings=wrong,
                why="a server started with it would answer nonsense, or not at all",
                mend=f"see all of it with: bundlectl audit; then: {placement.REPAIR}",
            )
        if isinstance(part.item, ServedAdapter):
            adapter.inspect(files_of(folder), str(folder))
        else:
            checkpoint.inspect(folder, checkpoint.Rules.allowing(part.item.risks))


def check_addition(layout: Layout, manifest: Manifest) -> None:
    """Refuse a bundle of models alone where no installed release can serve them.

    Raises TargetError naming what is installed.
    """
    there = []
    for name in placement.installed_releases(layout.prefix):
        try:
            release, _ = placement.load_manifest(layout.prefix, name)
        except (IntegrityError, UsageError):
            continue
        if can_serve(release, manifest):
            return
        if not release.model_only:
            there.append(f"{name}: {_stack(release)}")
    raise TargetError(
        f"{manifest.name} adds models to a release of {_stack(manifest)}, and none is installed "
        f"in {layout.prefix}",
        findings=there,
        mend="install a bundle of that stack first, or bring one of models for a release that is "
        "there: bundle create --model-only --for BUNDLE",
    )


def _stack(manifest: Manifest) -> str:
    return f"{manifest.stack} ({manifest.flavour})"


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
