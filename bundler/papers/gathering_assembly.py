"""A bill, put together from a lock and from what its components say about themselves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bundler.naming import bundle_name
from bundler.papers import bill, gathering_edges, gathering_purls
from bundler.papers.bill import Bill, Component
from bundler.papers.gathering_said import NOTHING, Said
from bundler.plan.licences import of_text
from manifests import canonical
from manifests.bundle import digest_of
from manifests.lock import COMPUTED, PUBLISHED, Adapter, Build, CondaPackage, Lock, Model, Wheel

#: What our own code is called, and its licence (setup.cfg).
_OURS, _LICENCE = "vllm-bundle", "Apache-2.0"
_HUB = "https://huggingface.co"


@dataclass(frozen=True)
class Code:
    """Our own code in the runtime."""

    version: str
    files: tuple[tuple[str, int, str], ...]  # path below site-packages, bytes, sha256; sorted


def ref(scope: str, kind: str, name: str, version: str) -> str:
    """What a component is called in its bill."""
    return f"{scope}/{kind}/{name}@{version}"


def wheel_ref(scope: str, wheel: Wheel) -> str:
    """The same for a wheel."""
    return ref(scope, bill.WHEEL, wheel.name, wheel.version)


def conda_ref(scope: str, package: CondaPackage) -> str:
    """The same for a conda package."""
    return ref(scope, bill.CONDA, package.name, package.version)


def part_ref(part: Model | Adapter) -> str:
    """The same for a model or an adapter."""
    kind = bill.ADAPTER if isinstance(part, Adapter) else bill.MODEL
    return ref(bill.MODELS, kind, part.name, part.revision)


def assemble(
    locked: Lock, built: Sequence[Wheel], said: Mapping[str, Said], code: Code, digest: str
) -> Bill:
    """The bill of a lock whose digest is given.

    `built` are the wheels of its recipes, `said` has what components state by their refs; of one
    that is missing there nothing is known. The name is the one that `bundle create` gives by
    itself, whatever the folder is called: a lock does not know of --name.
    """
    found = [
        *_scope(locked, bill.ENVIRONMENT, locked.conda, (*locked.wheels, *built), said),
        *_scope(locked, bill.RUNTIME, locked.runtime_conda, locked.runtime_wheels, said),
        *_parts(locked, said),
    ]
    runtime = sorted(one.ref for one in found if one.scope == bill.RUNTIME)
    found.append(_code(code, tuple(runtime)))
    return Bill(
        name=bundle_name(locked),
        lock_sha256=digest,
        created=locked.created,
        stack=locked.stack,
        target=locked.target,
        components=tuple(sorted(found, key=lambda one: one.ref)),
    )


def _scope(
    locked: Lock,
    scope: str,
    conda: Sequence[CondaPackage],
    wheels: Sequence[Wheel],
    said: Mapping[str, Said],
) -> Iterator[Component]:
    packages = {one.name: _conda(scope, one, said) for one in conda}
    builds = {(build.name, f"{build.version}+{build.label}"): build for build in locked.builds}
    distributions = {
        one.name: _wheel(scope, one, builds.get((one.name, one.version)), said) for one in wheels
    }
    if scope == bill.ENVIRONMENT:
        distributions = {one.name: one for one in _provided(locked)} | distributions
    yield from _with_edges(
        packages, gathering_edges.of_conda({n: _needs(one, said) for n, one in packages.items()})
    )
    here = gathering_edges.environment(locked.target, _python(locked))
    needs = {name: _needs(one, said) for name, one in distributions.items()}
    yield from _with_edges(distributions, gathering_edges.of_wheels(needs, here))


def _needs(one: Component, said: Mapping[str, Said]) -> tuple[str, ...]:
    return said.get(one.ref, NOTHING).needs


def _with_edges(
    found: Mapping[str, Component], edges: Mapping[str, frozenset[str]]
) -> Iterator[Component]:
    for name, one in found.items():
        yield replace(one, requires=tuple(sorted(found[other].ref for other in edges[name])))


def _python(locked: Lock) -> str:
    """The version of the target's Python."""
    if locked.overlay is not None:
        return locked.overlay.python
    packages = (*locked.conda, *locked.runtime_conda)
    known = (one.version for one in packages if one.name == "python")
    return next(known, f"{locked.target.python}.0")


def _wheel(scope: str, wheel: Wheel, build: Build | None, said: Mapping[str, Said]) -> Component:
    plain = Component(
        ref=wheel_ref(scope, wheel),
        kind=bill.WHEEL,
        scope=scope,
        name=wheel.name,
        version=wheel.version,
        purl=gathering_purls.wheel(wheel.name, wheel.version, wheel.filename, wheel.sha256),
        sha256=wheel.sha256,
        filename=wheel.filename,
        size=wheel.size,
        url=wheel.url,
        digest_from=wheel.digest_from,
        derived=wheel.derived,
        build=build if wheel.derived is not None else None,
    )
    return _stating(plain, said)


def _conda(scope: str, package: CondaPackage, said: Mapping[str, Said]) -> Component:
    plain = Component(
        ref=conda_ref(scope, package),
        kind=bill.CONDA,
        scope=scope,
        name=package.name,
        version=package.version,
        purl=gathering_purls.conda(package),
        sha256=package.sha256,
        filename=package.url.rpartition("/")[2],
        size=package.size,
        url=package.url,
        # The channel `host` is made of the building machine's own files.
        digest_from=COMPUTED if package.url.startswith("host:") else PUBLISHED,
    )
    return _stating(plain, said)


def _provided(locked: Lock) -> Iterator[Component]:
    """What the host has below an overlay; its RECORD is the listing of its files."""
    for one in locked.overlay.provided if locked.overlay is not None else ():
        yield Component(
            ref=ref(bill.PROVIDED, bill.WHEEL, one.name, one.version),
            kind=bill.WHEEL,
            scope=bill.PROVIDED,
            name=one.name,
            version=one.version,
            purl=gathering_purls.wheel(one.name, one.version),
            sha256=one.record_sha256,
            digest_from=COMPUTED,
        )


def _parts(locked: Lock, said: Mapping[str, Said]) -> Iterator[Component]:
    models = {model.name: part_ref(model) for model in locked.models}
    for part in locked.parts:
        base = part.base if isinstance(part, Adapter) else ""
        computed = any(file.digest_from == COMPUTED for file in part.files)
        plain = Component(
            ref=part_ref(part),
            kind=bill.ADAPTER if base else bill.MODEL,
            scope=bill.MODELS,
            name=part.name,
            version=part.revision,
            purl=gathering_purls.model(part.source, part.revision),
            sha256=listing([(file.path, file.size, file.sha256) for file in part.files]),
            size=sum(file.size for file in part.files),
            url=_page(part),
            digest_from=COMPUTED if computed else PUBLISHED,
            files=part.files,
            requires=(models[base],) if base in models else (),
        )
        yield _stating(plain, said)


def _page(part: Model | Adapter) -> str:
    kind, _, repository = part.source.partition(":")
    return f"{_HUB}/{repository}/tree/{part.revision}" if kind == "hf" else ""


def _code(code: Code, requires: tuple[str, ...]) -> Component:
    return Component(
        ref=ref(bill.RUNTIME, bill.CODE, _OURS, code.version),
        kind=bill.CODE,
        scope=bill.RUNTIME,
        name=_OURS,
        version=code.version,
        purl=gathering_purls.code(_OURS, code.version),
        sha256=listing(code.files),
        size=sum(size for _, size, _ in code.files),
        digest_from=COMPUTED,
        declared=_LICENCE,
        licence=of_text(_LICENCE),
        requires=requires,
    )


def _stating(plain: Component, said: Mapping[str, Said]) -> Component:
    one = said.get(plain.ref, NOTHING)
    return replace(
        plain, declared=one.declared, licence=one.licence, texts=one.texts, base=one.base
    )


def listing(files: Sequence[tuple[str, int, str]]) -> str:
    """The digest of files by path, bytes and sha256: that of a folder's revision in a lock."""
    return digest_of(canonical.dumps([list(file) for file in files]))
