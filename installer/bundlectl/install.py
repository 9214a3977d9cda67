"""Take a bundle from its medium to a complete release. Nothing that serves is touched."""

import contextlib
import fcntl
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bundlectl import apikey, config, host, preflight, sequence
from bundlectl.journal import journal_path
from bundlectl.layout import Layout
from bundlectl.process import Supervisor
from bundlectl.unpack import Unpacker, sync
from manifests import FORMAT_VERSION, __version__, bundle, checkpoint, placement, tree
from manifests.audit.installation import audit_tree, release_entries
from manifests.errors import IntegrityError, TargetError, UsageError, from_oserror
from manifests.medium import ArchiveStream, Medium, NextMedium, no_other_medium
from manifests.reader import BundleReader

_LAUNCHER = """\
#!/bin/sh
# Runs bundlectl on the release in service, or on any other while there is none.
prefix={prefix}
for release in "$prefix/current" "$prefix"/releases/*; do
  python=$release/runtime/bin/python
  if [ -x "$python" ]; then
    unset LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT PYTHONPATH PYTHONHOME
    exec "$python" -I -B -X utf8 -m bundlectl --prefix "$prefix" "$@"
  fi
done
echo "error: $prefix holds no release" >&2
echo "  mend: install one from its medium: sh install.sh" >&2
exit 2
"""


#: Small files and folders of the installation itself, one block each: receipt, settings, key, logs.
_PAPERS = 48
#: Bytes of one name in a folder, as file systems keep it; an upper bound for the mean.
_NAME = 64


@dataclass(frozen=True)
class Options:
    """What the operator chose."""

    ignore: frozenset[str] = frozenset()  # names of preflight checks
    chosen: Mapping[str, Any] = field(default_factory=dict)  # settings of a first install
    allow_downgrade: bool = False  # take a bundle that is older than one installed before


@dataclass(frozen=True)
class Report:
    """What preflight found for a bundle on a host."""

    manifest: bundle.Manifest
    findings: tuple[preflight.Finding, ...]


def examine(
    media: Medium,
    layout: Layout,
    options: Options,
    next_medium: NextMedium = no_other_medium,
) -> Report:
    """Read the manifest and compare what it needs with the host. Writes nothing.

    Raises IntegrityError where the manifest is not the one that install.sh names.
    """
    _check_chosen(layout, options)
    with contextlib.closing(ArchiveStream(media, next_medium)) as stream:
        reader = BundleReader(stream, media.manifest_sha256)
    probed = host.probe(layout.prefix, port=_port(layout, options))
    needs = _needs(reader, layout, probed.file_system.block, options)
    return Report(reader.manifest, preflight.examine(needs, probed, options.ignore))


def install(
    media: Medium,
    layout: Layout,
    options: Options,
    progress: Callable[[int], None],
    next_medium: NextMedium = no_other_medium,
) -> str:
    """Install a bundle; gives the release's name. Continues where an earlier run was interrupted.

    A release that is there already is audited, and replaced where it is damaged. It is complete but
    not in service afterwards. Raises the errors of preflight and Unpacker, and UsageError where
    another install works on the same prefix, a damaged release is being served, or a newer bundle
    of the product was installed before.
    """
    report = examine(media, layout, options, next_medium)
    preflight.refuse(report.findings)
    layout.create()
    release = bundle.release_id(report.manifest.name, media.manifest_sha256)
    receipt = placement.receipt_path(layout.prefix, release)
    with _locked(layout):
        highest = sequence.check(layout, report.manifest, options.allow_downgrade)
        keep_model = _is_model_intact(layout, report.manifest)
        if not (keep_model and _is_release_intact(layout, release, report.manifest, media)):
            _refuse_in_use(layout, release)
            _remove(receipt)
            _unpack(media, layout, keep_model, progress, next_medium)
        # Before the receipt: a kill in between leaves no complete release that isn't counted.
        write_whole(sequence.path_of(layout), highest.dump(), 0o644)
        if not receipt.exists():
            relocate(layout.environment(release))
            _write_receipt(layout, release, media.manifest_sha256, options)
        _remove(journal_path(layout.prefix, media.manifest_sha256))
        _write_companions(layout, report.manifest, options)
    return release


def _check_chosen(layout: Layout, options: Options) -> None:
    """Settings are chosen once; from then on their file is the operator's."""
    if not options.chosen or not layout.config_file.exists():
        return
    there = config.load(layout.config_file)
    for key, value in options.chosen.items():
        if getattr(there, key) != value:
            raise UsageError(
                f"{layout.config_file}: {key} is {getattr(there, key)}, not {value}",
                why="an installation keeps the settings that it has",
                mend=f"edit {key} in that file, and leave --{key} away",
            )


def _needs(reader: BundleReader, layout: Layout, block: int, options: Options) -> preflight.Needs:
    manifest = reader.manifest
    release = bundle.release_id(manifest.name, reader.digest)
    base = f"{placement.RELEASES}/{release}"
    entries = {f"{base}/{entry.path}": entry for entry in release_entries(manifest, reader.digest)}
    for entry in bundle.model_entries(manifest):
        entries[f"{manifest.model_folder()}/{entry.path}"] = entry
    there = {path: size for path in entries if (size := _there(layout.prefix, path)) is not None}
    # A folder takes a block at least; what an interrupted run has written is replaced or kept.
    sizes = {path: block if e.kind == tree.FOLDER else e.size for path, e in entries.items()}
    taken = [min(sizes[path], size) for path, size in there.items()]
    missing = len(entries) - len(there)
    return preflight.Needs(
        disk=preflight.rounded(sizes.values(), block)
        - preflight.rounded(taken, block)
        + (_PAPERS * block + missing * _NAME),
        inodes=missing + _PAPERS,
        machine=manifest.target.arch,
        glibc=manifest.needs.glibc,
        cpu_flags=manifest.needs.cpu_flags,
        memory=manifest.needs.memory,
        port=_port(layout, options),
        gpus=manifest.target.gpus,
        driver=manifest.needs.driver,
        environment=f"{base}/{placement.ENVIRONMENT}",
        longest_path=max(entries, key=lambda path: len(os.fsencode(path))),
        created=manifest.created,
    )


def _there(prefix: Path, path: str) -> int | None:
    """Bytes of a file that an earlier, interrupted run has begun to write; None without one."""
    area, folder, rest = path.split("/", 2)
    for name in (folder, folder + placement.PARTIAL):
        with contextlib.suppress(OSError):
            return (prefix / area / name / rest).lstat().st_size
    return None


def _port(layout: Layout, options: Options) -> int:
    """The port that has to be free; none where a server of ours holds one."""
    if Supervisor(layout).status().running:
        return 0
    if layout.config_file.exists():
        return config.load(layout.config_file).port
    return config.ServeConfig(**options.chosen).port


@contextlib.contextmanager
def _locked(layout: Layout) -> Iterator[None]:
    with (layout.state / "install.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another install is working on {layout.prefix}",
                mend="wait until it has ended, then run the same command again",
            ) from None
        yield


def _is_release_intact(
    layout: Layout, release: str, manifest: bundle.Manifest, media: Medium
) -> bool:
    folder = layout.release(release)
    if not folder.is_dir():
        return False
    entries = release_entries(manifest, media.manifest_sha256)
    return not audit_tree(folder, entries, str(layout.environment(release)))


def _is_model_intact(layout: Layout, manifest: bundle.Manifest) -> bool:
    folder = layout.prefix / manifest.model_folder()
    return folder.is_dir() and not audit_tree(folder, bundle.model_entries(manifest))


def _refuse_in_use(layout: Layout, release: str) -> None:
    """Nothing is replaced below a server that runs from it."""
    status = Supervisor(layout).status()
    if status.running and status.service is not None and status.service.release == release:
        raise UsageError(
            f"the release {release} is damaged and its server runs",
            why="see what is wrong with: bundlectl audit",
            mend=f"run: '{layout.command}' stop; then the same command again, which mends it",
        )


def _unpack(
    media: Medium,
    layout: Layout,
    keep_model: bool,
    progress: Callable[[int], None],
    next_medium: NextMedium,
) -> None:
    with contextlib.closing(ArchiveStream(media, next_medium)) as stream:
        reader = BundleReader(stream, media.manifest_sha256)
        Unpacker(layout.prefix, reader, progress).run(keep_model)


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise from_oserror(error, "removing an old paper of the installation") from error


def relocate(environment: Path) -> None:
    """Let conda-unpack write the final path into the few files that hold it. Idempotent.

    Its own Python runs it: the script's `#!/usr/bin/env python` would need one on the host. Not
    with -I: conda-unpack imports a module that lies beside it.
    """
    python = environment / "bin/python"
    command = [str(python), "-E", "-s", "-B", str(environment / "bin/conda-unpack")]
    clean = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    except OSError as error:
        raise TargetError(
            f"{python} can't be started: {error.strerror}",
            mend="look at the preflight: sh install.sh preflight",
        ) from None
    if done.returncode:
        raise TargetError(
            "conda-unpack failed",
            findings=(done.stderr or done.stdout).strip().splitlines()[-5:],
            mend="choose a shorter --prefix without odd characters",
        )
    sync(environment)


def _write_receipt(layout: Layout, release: str, digest: str, options: Options) -> None:
    receipt = placement.Receipt(
        schema=FORMAT_VERSION,
        release=release,
        manifest_sha256=digest,
        prefix=str(layout.prefix),
        installed=int(time.time()),
        tool=f"vllm-bundle {__version__}",
        ignored=tuple(sorted(options.ignore)),
    )
    write_whole(placement.receipt_path(layout.prefix, release), receipt.dump(), 0o644)


def _write_companions(layout: Layout, manifest: bundle.Manifest, options: Options) -> None:
    """The command, the settings (once; they are the operator's from then on) and the API key."""
    quoted = "'" + str(layout.prefix).replace("'", "'\\''") + "'"
    write_whole(layout.command, _LAUNCHER.format(prefix=quoted).encode(), 0o755)
    if not layout.config_file.exists():
        settings = config.ServeConfig(**{"thinking": manifest.thinking, **options.chosen})
        write_whole(layout.config_file, config.render_default(settings).encode(), 0o644)
    apikey.ensure(layout.api_key)


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Replace a small file: all of it or nothing, synced."""
    draft = path.with_name(f".{path.name}.new")
    try:
        with draft.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
            os.fchmod(handle.fileno(), mode)
        draft.replace(path)
        sync(path.parent)
    except OSError as error:
        raise from_oserror(error, "writing the installation's papers", path) from error


def check_complete(layout: Layout, release: str) -> bundle.Manifest:
    """The manifest of a complete release.

    Raises UsageError where it is not installed, IntegrityError where its papers differ.
    """
    manifest, _ = placement.load_manifest(layout.prefix, release)
    folder = layout.prefix / manifest.model_folder()
    wrong = [
        f"{entry.path}: missing, or not {entry.size} bytes long"
        for entry in bundle.model_entries(manifest)
        if entry.kind == tree.FILE and not _has_size(folder / entry.path, entry.size)
    ]
    if wrong:
        raise IntegrityError(
            f"{folder}: the model is not complete",
            findings=wrong,
            why="a server started with it would answer nonsense, or not at all",
            mend="see all of it with: bundlectl audit; then install the bundle again",
        )
    checkpoint.inspect(folder)
    return manifest


def _has_size(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except OSError:
        return False
