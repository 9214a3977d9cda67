"""What a support file says of the installation: papers, settings, servers, logs.

Everything here is read as it lies, since what is damaged is what one wants to see.
"""

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

from bundlectl import apikey, auditrecord, config, history, host, loglines, preflight, readiness
from bundlectl.layout import Layout
from bundlectl.process import Supervisor
from bundlectl.redaction import Redactor
from manifests import bundle, placement
from manifests.doctor import logfile
from manifests.doctor.report import diagnose
from manifests.errors import BundleError
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader

#: Bytes of a log's end that are looked at, and of any other file.
_TAIL, _MOST = 4 << 20, 64 << 10
#: A variable in serve.toml whose value can be told to others: switches and sizes.
_PLAIN = re.compile(r"-?\d{1,12}(?:\.\d{1,6})?|true|false|on|off|auto|[A-Z][A-Z_]{2,30}", re.I)


def moment(seconds: float) -> str:
    """A time as the file says it, in UTC."""
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(seconds))


def secrets(layout: Layout) -> Iterator[str]:
    """The secrets of an installation that are known: its keys and what its settings hide."""
    for one in layout.every():
        with contextlib.suppress(OSError):
            yield from one.api_key.read_text("utf-8", "surrogateescape").split()
        try:
            settings = config.load(one.config_file)
        except BundleError:
            continue
        yield from (v for v in settings.environment.values() if not _PLAIN.fullmatch(v))


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
        yield from identity(reader.manifest, reader.digest)
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
            told = value if _PLAIN.fullmatch(value) else "[removed:named-secret]"
            yield f"  [environment] {name} = {told}"
        try:
            apikey.read(one.api_key)
            yield "  the API key can be used"
        except BundleError as error:
            yield f"  {error}"


def checks(layout: Layout) -> Iterator[str]:
    """What preflight says of this machine: for the release in service, or for none."""
    if placement.installed_releases(layout.prefix):
        running = Supervisor(layout).status().running
        subject, found = readiness.of_installed(layout, running=running)
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


def doctor(layout: Layout) -> Iterator[str]:
    """The known failures that the logs speak of; where, but not the lines themselves."""
    diagnosis = diagnose([logfile.read(path) for path in logs(layout)])
    if not diagnosis.findings:
        yield "no known failure in the logs"
    for found in diagnosis.findings:
        match = found.match
        yield f"{match.rule.id}: {found.standing}, {match.log}:{match.line}, {match.count} places"
        yield f"  {match.rule.words(match.values)[0]}"


def logs(layout: Layout) -> tuple[Path, ...]:
    """The logs of all instances, in order."""
    return tuple(
        path
        for one in layout.every()
        for path in sorted(one.logs.glob("*"))
        if path.is_file() and not path.is_symlink()
    )


def log(path: Path, count: int, redactor: Redactor) -> Iterator[str]:
    """The last `count` lines of a log that may be shown; the redactor counts the others too."""
    with path.open("rb") as handle:
        length = handle.seek(0, 2)
        handle.seek(max(0, length - _TAIL))
        text = handle.read(_TAIL).decode("utf-8", "replace")
    if length > _TAIL:
        text = text.partition("\n")[2]  # the first line's beginning is missing, and what it is
    # Secrets first: what takes out a request's words may leave half a secret.
    lines = redactor(text).split("\n")
    kept = list(loglines.shown(lines, loglines.Sieve(redactor.removed)))[-count:]
    yield f"{length} bytes, last written {moment(path.stat().st_mtime)}"
    yield from kept


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
