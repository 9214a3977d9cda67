"""Preflight without a medium: of what is installed, and before every start."""

import contextlib
from collections.abc import Iterable
from dataclasses import replace

from bundlectl import config, host, models, preflight
from bundlectl.checks import CHECKS, Check, Needs
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.measured import visible_to
from bundlectl.models import Installed
from bundlectl.preflight import Finding
from manifests import placement
from manifests.bundle import Manifest, ServedModel
from manifests.errors import BundleError, UsageError
from manifests.overlay import Base

#: What a start looks at again. Memory is not among it: the start itself does those sums, with what
#: is free once the server before it has ended (bundlectl.measured).
_AT_START = tuple(check for check in CHECKS if check.at_start)


def before_start(
    layout: Layout, release: str, manifest: Manifest, settings: ServeConfig, model: Installed
) -> tuple[Finding, ...]:
    """Refuse a start that can't succeed; gives the warnings.

    Checks that were ignored at the release's installation are ignored here too. Raises TargetError,
    FilesystemError.
    """
    base = put_on(layout, release)
    needs = replace(needs_of(manifest, settings, model.model), base=base)
    probed = probe(layout, settings, gpus=needs.on_gpu, details=False, base=base)
    found = preflight.examine(needs, probed, ignored(layout, release), _AT_START)
    preflight.refuse(found)
    return tuple(preflight.warnings(found))


def of_installed(
    layout: Layout,
    release: str = "",
    ignore: frozenset[str] = frozenset(),
    *,
    port: int = 0,
    running: bool = False,
    held: bool = False,
) -> tuple[str, tuple[Finding, ...]]:
    """An installed release (default: the one in service), and what every check says of it.

    `port`: another one than the settings' own. Memory is left out while a server of ours is
    `running`, the port while a front of ours has `held` it. Raises UsageError where nothing is
    installed, IntegrityError where its papers are damaged.
    """
    release = release or layout.current_release() or _latest(layout)
    manifest, _ = placement.load_manifest(layout.prefix, release)
    settings = config.load(layout.config_file)
    wanted = port or settings.port
    settings = replace(settings, port=0 if held and wanted == settings.port else wanted)
    base = put_on(layout, release)
    needs = needs_of(manifest, settings, to_serve(layout, release, manifest))
    needs = replace(needs, base=base)
    if running:
        needs = replace(needs, memory=0)
    probed = probe(layout, settings, gpus=needs.on_gpu, base=base)
    return release, preflight.examine(needs, probed, ignore | ignored(layout, release))


def probe(
    layout: Layout,
    settings: ServeConfig,
    *,
    gpus: bool,
    details: bool = True,
    base: Base | None = None,
) -> host.Host:
    """The host as a server with these settings finds it.

    Releases, models and the prefix itself may be another account's: a server only reads them.
    Raises OSError as `host.probe` does.
    """
    return host.probe(
        layout.prefix,
        settings.host,
        settings.port,
        gpus=gpus,
        details=details,
        environ=visible_to(settings),
        written=(layout.cache, layout.own_state, layout.run, layout.logs),
        read=(layout.etc, layout.api_key),
        python=base.python if base is not None else "",
    )


def needs_of(manifest: Manifest, settings: ServeConfig, model: ServedModel) -> Needs:
    """What a release's server asks of a host, once the release is installed."""
    return Needs(
        machine=manifest.target.arch,
        glibc=manifest.needs.glibc,
        cpu_flags=manifest.needs.cpu_flags,
        memory=memory_of(manifest, model),
        host=settings.host,
        port=settings.port,
        gpus=manifest.target.gpus,
        served=manifest.needs.gpus,
        driver=manifest.needs.driver,
        shape=model.shape,
        server=manifest.server,
        settings=settings,
        created=manifest.created,
        overlay=manifest.overlay,
    )


def memory_of(manifest: Manifest, model: ServedModel) -> int:
    """Bytes that a release needs for one of its models, or of another bundle's.

    The manifest's own figure is for its default model; weights make the difference.
    """
    default, chosen = manifest.model.shape, model.shape
    if default is None or chosen is None:
        return manifest.needs.memory
    return max(0, manifest.needs.memory - default.weights + chosen.weights)


def to_serve(layout: Layout, release: str, manifest: Manifest) -> ServedModel:
    """The model that a release will serve, installed or not: the chosen one, or its default.

    As `models.to_serve`; what is damaged there is the start's to tell.
    """
    with contextlib.suppress(BundleError):
        return models.to_serve(layout, release).model
    with contextlib.suppress(BundleError):
        before = models.load(layout).releases.get(layout.current_release())
        named = [one for one in manifest.models if before and one.name == before.model]
        return (*named, manifest.model)[0]
    return manifest.model


def put_on(layout: Layout, release: str) -> Base | None:
    """What an overlay was put on; None for any other release, whatever its receipt says.

    Raises IntegrityError where its papers are damaged.
    """
    base = placement.load_receipt(placement.receipt_path(layout.prefix, release)).base
    if base is None:
        return None
    manifest, _ = placement.load_manifest(layout.prefix, release)
    return base if manifest.overlay is not None else None


def put_on_in_service(layout: Layout) -> Base | None:
    """As `put_on`, of the release in service; None where none is, or it is damaged."""
    try:
        return put_on(layout, layout.current_release())
    except (BundleError, OSError):
        return None


def ignored(layout: Layout, release: str) -> frozenset[str]:
    """The checks that were ignored when a release was installed, as far as they still exist."""
    receipt = placement.load_receipt(placement.receipt_path(layout.prefix, release))
    return frozenset(receipt.ignored) & _names(CHECKS)


def _names(checks: Iterable[Check]) -> frozenset[str]:
    return frozenset(check.name for check in checks if check.can_be_ignored)


def _latest(layout: Layout) -> str:
    names = placement.installed_releases(layout.prefix)
    if not names:
        raise UsageError(
            f"{layout.prefix} holds no release",
            mend="run it from a bundle's medium: sh install.sh preflight",
        )
    return names[-1]
