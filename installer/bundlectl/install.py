"""Take a bundle from its medium to a complete release. Nothing that serves is touched."""

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from bundlectl import (
    apikey,
    basepython,
    config,
    donor,
    environment,
    host,
    locks,
    models,
    preflight,
    readiness,
    running,
    sequence,
)
from bundlectl.command import check_arguments
from bundlectl.journal import journal_path
from bundlectl.layout import Layout
from bundlectl.measured import visible_to
from bundlectl.process import KEEPER, Supervisor
from bundlectl.syncing import sync, write_whole
from bundlectl.unpack import StaleStart, Unpacker
from manifests import FORMAT_VERSION, __version__, bundle, gpu, overlay, placement, tree
from manifests.audit.installation import audit_tree, release_entries
from manifests.errors import IntegrityError, TargetError, UsageError, from_oserror
from manifests.medium import ArchiveStream, Medium, NextMedium, no_other_medium
from manifests.reader import BundleReader, Whole

_LAUNCHER = """\
#!/bin/sh
# Runs bundlectl on the release in service, or on any other while that one has no Python that runs.
prefix={prefix}
broken=
current=$prefix/current
before=
for word; do
  [ "$before" != --instance ] || word=--instance=$word
  case $word in
    --instance=default | --instance=*/*) ;;
    --instance=*) current=$prefix/instances/${{word#*=}}/current ;;
  esac
  before=$word
done
# For preflight to tell: names alone, values may be secrets.
BUNDLECTL_CALLER="${{LD_LIBRARY_PATH:+LD_LIBRARY_PATH}} ${{LD_PRELOAD:+LD_PRELOAD}} \\
${{LD_AUDIT:+LD_AUDIT}} ${{PYTHONPATH:+PYTHONPATH}} ${{PYTHONHOME:+PYTHONHOME}}"
export BUNDLECTL_CALLER
unset LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT PYTHONPATH PYTHONHOME
for release in "$current" "$prefix/current" "$prefix"/releases/*; do
  case $release in *.partial) continue ;; esac
  # By its own name: through `current`, a switch would mix two releases' modules in one program.
  release=$(cd -P -- "$release" 2>/dev/null && pwd -P) || continue
  python=$release/runtime/bin/python
  [ -x "$python" ] || continue
  # The shell takes a file that is cut off for a script, which does nothing and succeeds.
  if [ "$("$python" -I -B -c 'print("runs")' 2>/dev/null)" = runs ]; then
    exec "$python" -I -B -X utf8 -m bundlectl --prefix "$prefix" "$@"
  fi
  broken=$release/runtime
done
if [ -n "$broken" ]; then
  echo "error: $broken: its Python does not run" >&2
  echo "  mend: sh install.sh repair --prefix '$prefix', from the bundle's medium" >&2
  exit 1
fi
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
    into_python: str = ""  # the interpreter that an overlay is put on; empty: that of the receipt


@dataclass(frozen=True)
class Report:
    """What preflight found for a bundle on a host."""

    whole: Whole  # what is installed in the end
    carried: bundle.Manifest  # what the medium holds: the same, or a delta of it
    findings: tuple[preflight.Finding, ...]
    base: overlay.Base | None = None  # what an overlay is put on

    @property
    def manifest(self) -> bundle.Manifest:
        """The manifest that is installed in the end."""
        return self.whole.manifest

    @property
    def work(self) -> int:
        """Bytes that an installation reads of the medium, or copies, at the most."""
        return sum(member.size for member in self.carried.members) + donor.size(self.carried)


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
    settings = _settings(layout, options)  # wrong ones are told before gigabytes are unpacked
    check_arguments(settings.extra_arguments)
    environment.check(settings)
    with contextlib.closing(ArchiveStream(media, next_medium)) as stream:
        reader = BundleReader(stream, media.manifest_sha256)
    manifest = reader.whole.manifest
    known = _known(placement.receipt_path(layout.prefix, reader.whole.release))
    if known is None:
        donor.find(layout.prefix, reader.manifest)
    base = known.base if known is not None and manifest.overlay is not None else None
    python = basepython.named(manifest, options.into_python, base)
    if manifest.model_only:
        models.check_addition(layout, manifest)
    on_gpu = manifest.target.gpus != (gpu.CPU,)
    port, variables = _port(layout, options), visible_to(settings)
    probed = host.probe(
        layout.prefix, settings.host, port, gpus=on_gpu, environ=variables, python=python
    )
    needs = replace(
        _needs(reader.whole, layout, probed.storage.file_system.block, options), base=base
    )
    findings = preflight.examine(needs, probed, options.ignore)
    if base is None and probed.below is not None:
        base = probed.below.base
    return Report(reader.whole, reader.manifest, findings, base)


def install(
    media: Medium,
    layout: Layout,
    report: Report,
    options: Options,
    progress: Callable[[int], None],
    next_medium: NextMedium = no_other_medium,
) -> str:
    """Install a bundle; gives the release's name. Continues where an earlier run was interrupted.

    `report` is what `examine` said of it, with the same options. A release that is there already is
    audited, and replaced where it is damaged. It is complete but not in service afterwards. Raises
    the errors of preflight and Unpacker, and UsageError where another install works on the same
    prefix, a damaged release is being served, or a newer bundle was installed before.
    """
    preflight.refuse(report.findings)
    layout.create()
    release = report.whole.release
    receipt = placement.receipt_path(layout.prefix, release)
    with locked(layout):
        highest = sequence.check(layout, report.manifest, options.allow_downgrade)
        intact = _intact_parts(layout, report.manifest)
        whole = len(intact) == len(report.manifest.parts())
        if not (whole and _is_release_intact(layout, release, report)):
            _refuse_in_use(layout, release, report.manifest, intact)
            source = donor.find(layout.prefix, report.carried)
            _remove(receipt)
            _unpack(media, layout, intact, report.base, source, progress, next_medium)
        # Before the receipt: a kill in between leaves no complete release that isn't counted.
        write_whole(sequence.path_of(layout), highest.dump(), 0o644)
        known = _known(receipt)
        if known is None or not options.ignore <= set(known.ignored):
            if known is None and has_to_be_relocated(report.manifest):
                relocate(layout.environment(release))
            _write_receipt(layout, release, report.whole.digest, options, report.base)
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


def _needs(whole: Whole, layout: Layout, block: int, options: Options) -> preflight.Needs:
    manifest, release = whole.manifest, whole.release
    settings, model = _settings(layout, options), readiness.to_serve(layout, release, manifest)
    base = f"{placement.RELEASES}/{release}"
    entries = {f"{base}/{entry.path}": entry for entry in release_entries(manifest, whole.digest)}
    for part in manifest.parts():
        for entry in manifest.part_entries(part):
            entries[f"{part.folder}/{entry.path}"] = entry
    there = {path: size for path in entries if (size := _there(layout.prefix, path)) is not None}
    # A folder takes a block at least; what an interrupted run has written is replaced or kept.
    sizes = {path: block if e.kind == tree.FOLDER else e.size for path, e in entries.items()}
    taken = [min(sizes[path], size) for path, size in there.items()]
    missing = len(entries) - len(there)
    needs = replace(
        readiness.needs_of(manifest, settings, model),
        freed=Supervisor(layout).status().memory,
        disk=preflight.rounded(sizes.values(), block)
        - preflight.rounded(taken, block)
        + (_PAPERS * block + missing * _NAME),
        inodes=missing + _PAPERS,
        largest=max(sizes.values()),
        port=_port(layout, options),
        environment=f"{base}/{placement.ENVIRONMENT}",
        longest_path=max(entries, key=lambda path: len(os.fsencode(path))),
    )
    if manifest.model_only:  # nothing of it is started by its installation
        return replace(needs, memory=0, port=0, gpus=(gpu.CPU,), driver="")
    return needs


def _there(prefix: Path, path: str) -> int | None:
    """Bytes of a file that an earlier, interrupted run has begun to write; None without one."""
    area, folder, rest = path.split("/", 2)
    for name in (folder, folder + placement.PARTIAL):
        with contextlib.suppress(OSError):
            return (prefix / area / name / rest).lstat().st_size
    return None


def _port(layout: Layout, options: Options) -> int:
    """The port that has to be free; none where a front of ours holds one."""
    if Supervisor(layout, KEEPER).status().running:
        return 0
    return _settings(layout, options).port


def _settings(layout: Layout, options: Options) -> config.ServeConfig:
    """Those that are there, or those that are about to be written."""
    if layout.config_file.exists():
        return config.load(layout.config_file)
    return config.ServeConfig(**options.chosen)


@contextlib.contextmanager
def locked(layout: Layout) -> Iterator[None]:
    """One program at a time changes an installation.

    Raises UsageError where another is at it.
    """
    what = f"another install is working on {layout.prefix}"
    mend = "wait until it has ended, then run the same command again"
    with locks.held(layout.install_lock, what, mend):
        yield


def _is_release_intact(layout: Layout, release: str, report: Report) -> bool:
    folder = layout.release(release)
    if not folder.is_dir():
        return False
    entries = release_entries(report.manifest, report.whole.digest, report.base)
    return not audit_tree(folder, entries, str(layout.environment(release)))


def _intact_parts(layout: Layout, manifest: bundle.Manifest) -> frozenset[str]:
    """The folders of the models and adapters that are there already, and right."""
    return frozenset(
        part.folder
        for part in manifest.parts()
        if (layout.prefix / part.folder).is_dir()
        and not audit_tree(layout.prefix / part.folder, manifest.part_entries(part))
    )


def _known(path: Path) -> placement.Receipt | None:
    """A receipt that is there and can be read."""
    with contextlib.suppress(OSError, IntegrityError):
        return placement.load_receipt(path)
    return None


def _refuse_in_use(
    layout: Layout, release: str, manifest: bundle.Manifest, intact: frozenset[str]
) -> None:
    """Nothing is replaced below a server that runs from it."""
    damaged = [part.folder for part in manifest.parts() if part.folder not in intact]
    every = tuple(part.folder for part in manifest.parts())
    for one in running.everything(layout):
        used = [f"the folder {folder}" for folder in damaged if folder in one.models(every)]
        if one.service.release == release:
            used.insert(0, f"the release {release}")
        if used:
            raise UsageError(
                f"{used[0]} has to be unpacked again, and {one.who} runs from it",
                why="something is damaged; see what with: bundlectl audit",
                mend=f"run: {one.instance.spoken} stop; then the same command again, "
                "which mends it",
            )


def _unpack(
    media: Medium,
    layout: Layout,
    keep: frozenset[str],
    base: overlay.Base | None,
    source: donor.Donor | None,
    progress: Callable[[int], None],
    next_medium: NextMedium,
) -> None:
    while True:
        with contextlib.closing(ArchiveStream(media, next_medium)) as stream:
            reader = BundleReader(stream, media.manifest_sha256)
            try:
                Unpacker(layout.prefix, reader, progress, base, source).run(keep)
                return
            except StaleStart:  # what an earlier run had left is thrown away: once more without it
                continue


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise from_oserror(error, "removing an old paper of the installation") from error


def has_to_be_relocated(manifest: bundle.Manifest) -> bool:
    """Whether conda-unpack has to run: an overlay's environment names no path of its own."""
    return not manifest.model_only and manifest.overlay is None


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


def _write_receipt(
    layout: Layout, release: str, digest: str, options: Options, base: overlay.Base | None
) -> None:
    receipt = placement.Receipt(
        schema=FORMAT_VERSION,
        release=release,
        manifest_sha256=digest,
        prefix=str(layout.prefix),
        installed=int(time.time()),
        tool=f"vllm-bundle {__version__}",
        ignored=tuple(sorted(options.ignore)),
        base=base,
    )
    write_whole(placement.receipt_path(layout.prefix, release), receipt.dump(), 0o644)


def _write_companions(layout: Layout, manifest: bundle.Manifest, options: Options) -> None:
    """The command, the settings (once; they are the operator's from then on) and the API key."""
    write_whole(layout.command, launcher(layout), 0o755)
    if not layout.config_file.exists():
        settings = config.ServeConfig(**{"thinking": manifest.thinking, **options.chosen})
        write_whole(layout.config_file, config.render_default(settings).encode(), config.MODE)
    apikey.ensure(layout.api_key)


def launcher(layout: Layout) -> bytes:
    """The text of `bin/bundlectl`."""
    quoted = "'" + str(layout.prefix).replace("'", "'\\''") + "'"
    return _LAUNCHER.format(prefix=quoted).encode()
