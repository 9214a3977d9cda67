"""What a support file says of the installation: papers, settings, servers.

Everything here is read as it lies, since what is damaged is what one wants to see.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

from bundlectl import (
    apikey,
    auditrecord,
    config,
    donor,
    history,
    host,
    preflight,
    readiness,
)
from bundlectl.layout import Layout
from bundlectl.process import KEEPER, Supervisor
from bundlectl.redaction import NAMED, SECRET_NAME, mark
from manifests import bundle, placement
from manifests.errors import BundleError
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader

#: Bytes of a small file.
_MOST = 64 << 10
#: Values of variables that can be told to others: switches, sizes, names of levels and backends.
_PLAIN = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?|(?i:true|false|on|off|auto)|[A-Z][A-Z_]{2,30}")


def moment(seconds: float) -> str:
    """A time as the file says it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def secrets(layout: Layout) -> Iterator[str]:
    """The secrets of an installation that are known: its keys and what its settings hide."""
    instances: tuple[Layout, ...] = (layout,)
    with contextlib.suppress(OSError):
        instances = layout.every()
    for one in instances:
        with contextlib.suppress(OSError):
            yield from one.api_key.read_text("utf-8", "surrogateescape").split()
        try:
            settings = config.load(one.config_file)
        except BundleError:
            continue
        yield from (v for n, v in settings.environment.items() if not _plain(n, v))


def _plain(name: str, value: str) -> bool:
    """Whether a variable's value can be told."""
    return not SECRET_NAME.search(name) and _PLAIN.fullmatch(value) is not None


def identity(manifest: bundle.Manifest, digest: str) -> Iterator[str]:
    """A bundle's name, origin and digests."""
    yield f"bundle: {manifest.name}"
    yield f"sha256 of its manifest: {digest}"
    yield f"sha256 of its lock: {manifest.lock_sha256}"
    yield f"made: {moment(manifest.created)} by {manifest.tool}, sequence {manifest.sequence}"
    yield f"stack: {manifest.stack}, flavour {manifest.flavour}, for {manifest.target}"
    yield f"needs: {manifest.needs}"
    for model in (manifest.model, *manifest.others):
        yield f"model: {model.name} at {model.revision}"
    yield from (f"adapter: {adapter.name}" for adapter in manifest.adapters)
    yield f"members: {len(manifest.members)}, {sum(m.size for m in manifest.members)} bytes"


def medium(media: Medium | None) -> Iterator[str]:
    """What install.sh runs from."""
    if media is None:
        yield "this file was made by an installed bundlectl, not from a medium"
        return
    yield f"folder: {media.folder}"
    yield f"sha256 of the manifest that install.sh names: {media.manifest_sha256}"
    for path in sorted(media.folder.iterdir()):
        yield f"  {path.lstat().st_size:>15} {path.name}"
    stream = ArchiveStream(media)
    try:
        reader = BundleReader(stream, media.manifest_sha256)
        yield from identity(reader.whole.manifest, reader.whole.digest)
        if reader.manifest.delta is not None:
            yield donor.told(reader.manifest)
    finally:
        stream.close()


def releases(layout: Layout) -> Iterator[str]:
    """Each installed bundle: its receipt and its manifest, as far as they can be read."""
    names = placement.installed_releases(layout.prefix)
    if not names:
        yield "nothing is installed completely"
    for name in names:
        yield f"release {name}"
        try:
            receipt = placement.load_receipt(placement.receipt_path(layout.prefix, name))
            yield f"  installed: {moment(receipt.installed)} by {receipt.tool}"
            yield f"  prefix then: {receipt.prefix}; checks ignored: {receipt.ignored or 'none'}"
            yield from (
                f"  {line}" for line in identity(*placement.load_manifest(layout.prefix, name))
            )
        except (BundleError, OSError) as error:
            yield f"  {error}"
    for path in sorted(layout.journal.glob("*.txt")):
        yield f"unfinished installation: {path.stem}, {len(_text(path).splitlines())} steps done"


def tree(layout: Layout) -> Iterator[str]:
    """The small files of the installation: mode, bytes, time, name. Not what is in them."""
    roots = [layout.prefix, layout.releases, layout.models, layout.bin, layout.state]
    roots += [
        part for one in layout.every() for part in (one.etc, one.own_state, one.logs, one.run)
    ]
    roots += [layout.receipts, layout.journal, layout.instances]
    for folder in sorted(set(roots)):
        if not folder.is_dir():
            yield f"{folder.relative_to(layout.prefix)}/ is not there"
            continue
        for path in sorted(folder.iterdir()):
            state = path.lstat()
            leads = f" -> {path.readlink()}" if path.is_symlink() else ""
            yield (
                f"{state.st_mode:>6o} {state.st_uid:>5} {state.st_size:>12} "
                f"{moment(state.st_mtime)} {path.relative_to(layout.prefix)}{leads}"
            )


def servers(layout: Layout) -> Iterator[str]:
    """Each instance: what is in service, what runs, with which arguments, what served before."""
    for one in layout.every():
        yield f"instance {one.called}: release in service: {one.current_release() or 'none'}"
        for record in sorted(one.run.glob("*.json")):
            status = Supervisor(one, record.stem).status()
            yield f"  {record.stem}: {status}"
            if status.running:
                yield f"  arguments: {_arguments(status.pid)}"
        try:
            yield from (f"  {moment(was.since)}: {was}" for was in history.load(one)[-20:])
        except BundleError as error:
            yield f"  {error}"


def settings(layout: Layout) -> Iterator[str]:
    """Each instance's serve.toml: what is not the default. Of variables those that are plain."""
    for one in layout.every():
        yield f"instance {one.called}: {one.config_file}"
        try:
            found, usual = config.load(one.config_file), config.ServeConfig()
        except BundleError as error:
            yield from (f"  {line}" for line in error.render().splitlines())
            yield from (f"  {line}" for line in _names_in(one.config_file))
            continue
        for name, value in vars(found).items():
            if name != "environment" and value != getattr(usual, name):
                yield f"  {name} = {value!r}"
        for name, value in sorted(found.environment.items()):
            told = value if _plain(name, value) else mark(NAMED)
            yield f"  [environment] {name} = {told}"
        try:
            apikey.read(one.api_key)
            yield "  the API key can be used"
        except BundleError as error:
            yield f"  {error}"


def checks(layout: Layout) -> Iterator[str]:
    """What preflight says of this machine: for the release in service, or for none."""
    if placement.installed_releases(layout.prefix):
        subject, found = readiness.of_installed(
            layout,
            running=Supervisor(layout).status().running,
            held=Supervisor(layout, KEEPER).status().running,
        )
    else:
        subject = "no bundle, as none is installed"
        found = preflight.examine(preflight.Needs(), host.probe(layout.prefix))
    yield f"for: {subject}"
    yield from preflight.report(found, every=True).splitlines()


def audit(layout: Layout) -> Iterator[str]:
    """What the last recorded audit found."""
    last = auditrecord.load(layout)
    yield last.line() or "none was recorded"
    yield from (f"  {finding}" for finding in last.findings)


def _arguments(pid: int) -> str:
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    return " ".join(word.decode("utf-8", "replace") for word in words)


def _names_in(path: Path) -> Iterator[str]:
    """The names that a settings file sets which can't be read as one."""
    for number, line in enumerate(_text(path).splitlines()[:400], 1):
        name = re.match(r"\s*(?:\[?[\w.-]{1,40}\]?)(?=\s*(?:=|$))", line)
        if name:
            yield f"line {number}: {name[0].strip()}"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            return handle.read(_MOST).decode("utf-8", "replace")
    except OSError:
        return ""
