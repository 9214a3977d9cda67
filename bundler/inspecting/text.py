"""An inspection as a person reads it: one screen, or everything."""

from collections import Counter
from collections.abc import Iterator, Sequence
from textwrap import wrap

from bundler.inspecting.inspection import Adapter, Inspection, Model, Package
from bundler.inspecting.subject import MEDIA
from manifests import bundle, members
from manifests.console import size
from manifests.lock import Derived

WIDTH = 100
_MARGIN = 12
#: How many of a kind the short form names.
_LARGEST, _FEW = 5, 3


def render(found: Inspection, everything: bool = False) -> str:
    """The inspection; `everything` lists each package, file, digest and volume."""
    lines = []
    for name, text in _rows(found, everything):
        first, *rest = wrap(
            text, WIDTH - _MARGIN, break_on_hyphens=False, break_long_words=False
        ) or [""]
        lines.append(f"{name:>10}  {first}".rstrip())
        lines += [" " * _MARGIN + line for line in rest]
    if everything:
        for title, rows in _tables(found):
            lines += ["", title, *_aligned(rows)]
    return "\n".join(lines)


def _rows(found: Inspection, everything: bool) -> Iterator[tuple[str, str]]:
    identity, target, needs = found.identity, found.target, found.needs
    yield "bundle", identity.name
    if found.delta is not None:
        yield "delta on", f"{found.delta.base}, manifest sha256 {found.delta.base_sha256}"
        yield "", found.delta.text()
    yield "where", f"{found.path} ({_whereabouts(found)})"
    yield "manifest", f"sha256 {identity.manifest_sha256}"
    made = identity.created_utc.replace("T", " ").replace("Z", " UTC")
    yield "made", f"{made} by {identity.tool}, sequence {identity.sequence}"
    described = [
        ", ".join(target.gpus),
        _many(target.gpu_count, "GPU") if target.gpu_count else "",
        f"{size(target.gpu_memory)} of GPU memory" if target.gpu_memory else "",
        f"driver {target.driver}" if target.driver else "",
        target.arch,
        f"glibc {target.glibc}",
        f"Python {target.python}",
    ]
    yield "target", _joined(described)
    needed = [
        f"glibc {needs.glibc}",
        f"{size(needs.memory)} of free memory" if needs.memory else "",
        f"a processor with {' or '.join(needs.cpu_flags)}" if needs.cpu_flags else "",
        f"a GPU of {' or '.join(needs.gpus)}" if needs.gpus else "",
        f"driver {needs.driver}" if needs.driver else "",
    ]
    yield "needs", _joined(needed)
    if found.overlay is not None:
        names = [f"{one.name} {one.version}" for one in found.overlay.provided]
        few = names if everything else [*names[:_LARGEST], "…"][: len(names)]
        amount = _many(len(names), "distribution")
        yield "lies on", f"the host's Python {found.overlay.python}, {amount} there"
        yield "", ", ".join(few)
    yield "stack", f"{found.stack}, flavour {found.flavour}"
    yield "server", " ".join((found.server.module, *found.server.arguments))
    yield "", f"thinking {'on' if found.thinking else 'off'} where a request does not say"
    yield "model", _model(found.model)
    for other in found.others:
        yield "and", _model(other)
    for adapter in found.adapters:
        yield (
            "adapter",
            f"{adapter.name} for {adapter.base} from {adapter.source} at {adapter.revision[:12]}, "
            f"rank {adapter.rank}, {size(adapter.size)}",
        )
    yield from _members(found)
    yield from _packages(found)
    yield from _repaired(found.repaired, everything)
    yield "licences", _licences(found)
    provenance = found.provenance
    channel = f"; conda channel {provenance.channel}" if provenance.channel else ""
    yield "from", f"lock sha256 {provenance.lock_sha256}{channel}"
    if provenance.sources:
        yield "", "wheels: " + _counted(provenance.sources)
    for build in provenance.builds:
        yield "", f"{build.name} {build.version}+{build.label}: compiled from {build.origin}"
    yield from _listed("unvouched", provenance.unpublished, everything)
    if found.signatures:
        yield "signed", f"{', '.join(found.signatures)}: not checked here (`bundle verify` does)"
    if found.parity:
        yield "parity", f"{', '.join(found.parity)}: mends a damaged medium (`bundle restore`)"
    for note in found.notes:
        yield "note", note
    yield "checked", f"{', '.join(found.checked)}; {found.unchecked}"


def _whereabouts(found: Inspection) -> str:
    if found.kind != MEDIA:
        return "installed"
    count = len(found.files)
    sizes = [file.size for file in found.files if file.size is not None]
    if count == 1:
        return f"one archive, {size(sum(sizes))}"
    away = f", {count - len(sizes)} not at hand" if len(sizes) < count else ""
    return f"{count} volumes of up to {size(max(sizes))}, {size(found.size)} in all{away}"


def _model(model: Model) -> str:
    licence = f"licence {model.licence}" if model.licence else "no licence stated"
    return (
        f"{model.name} from {model.source} at {model.revision[:12]}, {licence}, "
        f"{_many(len(model.files), 'file')}, {size(model.size)}"
    )


def _members(found: Inspection) -> Iterator[tuple[str, str]]:
    name = "holds"
    for member in found.members:
        if member.role in (bundle.MODEL, bundle.ADAPTER):
            continue
        text = f"{size(member.size):>9}  {member.path}"
        if member.path in found.unpacked:
            inside = found.unpacked[member.path]
            text += f", {_many(inside.files, 'file')}, {size(inside.size)} unpacked"
        yield name, text
        name = ""
    for folder, part in _folders(found):
        yield name, f"{size(part.size):>9}  {folder}, {_many(len(part.files), 'file')}"
        name = ""


def _folders(found: Inspection) -> Iterator[tuple[str, Model | Adapter]]:
    """Models and adapters by their folder in the archive."""
    yield bundle.MODEL_FOLDER, found.model
    for other in found.others:
        yield f"{members.MODELS_FOLDER}{other.name}/", other
    for adapter in found.adapters:
        yield f"{members.ADAPTERS_FOLDER}{adapter.name}/", adapter


def _packages(found: Inspection) -> Iterator[tuple[str, str]]:
    packages = found.packages
    if packages is None:
        return
    yield (
        "packages",
        f"{_many(len(packages.wheels), 'wheel')}, "
        f"{_many(len(packages.conda), 'conda package')}; in the runtime "
        f"{len(packages.runtime_wheels)} and {len(packages.runtime_conda)}",
    )
    largest = sorted(packages.wheels, key=lambda package: -package.size)[:_LARGEST]
    if any(package.size for package in largest):
        yield "", "largest: " + ", ".join(f"{p.name} {p.version} {size(p.size)}" for p in largest)
    kinds = Counter(package.digest_from for package in packages.wheels if not package.repaired)
    yield "", "digests of the wheels: " + _counted(kinds)


def _repaired(derived: Sequence[Derived], everything: bool) -> Iterator[tuple[str, str]]:
    lines = [
        f"{one.origin} (sha256 {one.digest_from}): {'; '.join(one.changes)}"
        if everything
        else f"{one.origin}: {_many(len(one.changes), 'change')}, --all lists them"
        for one in derived
    ]
    yield from _listed("repaired", lines, everything)


def _licences(found: Inspection) -> str:
    wheels = found.packages.wheels if found.packages is not None else ()
    stated = Counter(
        package.licence or "nothing stated" for package in wheels if package.licence is not None
    )
    if not stated:
        return "the model's stands above; --licences reads those of the packages"
    most = ", ".join(f"{count} {text}" for text, count in stated.most_common(_LARGEST))
    more = len(stated) - _LARGEST
    return f"{most}{f', and {more} others' if more > 0 else ''}"


def _listed(name: str, lines: Sequence[str], everything: bool) -> Iterator[tuple[str, str]]:
    shown = lines if everything or len(lines) <= _FEW + 1 else lines[:_FEW]
    for line in shown:
        yield name, line
        name = ""
    if len(shown) < len(lines):
        yield "", f"and {len(lines) - len(shown)} more, --all lists them"


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _joined(parts: Sequence[str]) -> str:
    return ", ".join(part for part in parts if part)


# Everything


def _tables(found: Inspection) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    packages = found.packages
    if packages is not None:
        yield "wheels", [_row(package) for package in packages.wheels]
        yield "conda packages", [_row(package) for package in packages.conda]
        yield "wheels of the runtime", [_row(package) for package in packages.runtime_wheels]
        yield "conda packages of the runtime", [_row(p) for p in packages.runtime_conda]
    for folder, part in _folders(found):
        title = "model files" if part is found.model else f"files of {folder}"
        yield title, [(f.path, size(f.size), f.sha256) for f in part.files]
    yield "members", [(m.path, size(m.size), m.sha256) for m in found.members]
    if found.files:
        yield (
            "files on the media (digests as SHA256SUMS says)",
            [
                (file.name, "not at hand" if file.size is None else size(file.size), file.sha256)
                for file in found.files
            ],
        )


def _row(package: Package) -> tuple[str, ...]:
    origin = "repaired" if package.repaired is not None else package.digest_from
    amount = size(package.size) if package.size else ""
    licence = package.licence if package.licence is not None else ""
    return (package.name, package.version, amount, package.sha256, origin, licence)


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns of equal width. A package without licence leaves no trailing space."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  "
        + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
