"""`bundlectl support`: one small text that another person can help from, without secrets in it.

Each section is made on its own; one that fails says so in its place, so that a damaged
installation, a stopped server or a host without any has a file too. All of it goes through the
redaction before a line is broken or left away.
"""

import contextlib
import hashlib
import os
import platform
import pwd
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from bundlectl import install as installing
from bundlectl import preflight, supporthost, supportlogs, supportstate
from bundlectl.anonymity import HOST, USER, Anonymiser
from bundlectl.call import Run
from bundlectl.layout import Layout
from bundlectl.redaction import SECRET_NAME, Redactor
from bundlectl.supportpaper import Section, compose
from bundlectl.syncing import sync
from manifests import __version__
from manifests.console import size
from manifests.errors import BundleError, UsageError, from_oserror
from manifests.exitcodes import ExitCode

Source = Callable[[], Iterable[str]]
_OPENING = """\
VLLM-BUNDLE SUPPORT FILE 1
made by vllm-bundle {version} on {moment}
{anonymous}

HOW TO READ IT
Numbered sections follow the table of contents; search for "N. " at the start of a line. A section
that could not be read says why. Longer lines go on after "    | ". [removed:KIND] stands where a
secret or the words of a request were; [N lines removed] stands for lines of a log whose shape is
not one that programs are known to write, or that belong to a request. Logs come last.
Read the file through before you hand it on: it names folders, models and settings of this host.
"""
_NAMED = "Names of users and hosts, and addresses, are as they are: --anonymous replaces them."
_ANONYMOUS = (
    "Names of users and hosts, and addresses, were replaced: the same one by the same word."
)


def support(run: Run) -> int:
    """Write the support file."""
    arguments = run.arguments
    target = (arguments.output or _somewhere(run.console.say) / _default_name()).absolute()
    _check(target)
    layout = _layout(run)
    redactor = Redactor(_secrets(layout))
    removed = redactor.removed
    with run.console.stage("collect what a helper needs"):
        parts = [_treated(part, redactor) for part in collect(run, redactor)]
        if arguments.anonymous:
            parts = anonymous(parts, layout)
    opening = _OPENING.format(
        version=__version__,
        moment=supportstate.moment(time.time()),
        anonymous=_ANONYMOUS if arguments.anonymous else _NAMED,
    )
    data = compose(opening.splitlines(), parts, removed).encode()
    write_private(target, data)
    record = {
        "file": str(target),
        "sha256": hashlib.sha256(data).hexdigest(),
        "size": len(data),
        "removed": dict(sorted(removed.items())),
        "failed": [part.title for part in parts if part.failed],
    }
    text = (
        f"{target}: {size(len(data))}, sha256 {record['sha256']}\n"
        f"{removed.total()} secrets, requests and unknown lines were removed from it; read it "
        "through before you hand it on"
    )
    run.console.result(record, text)
    return ExitCode.OK


def collect(run: Run, redactor: Redactor) -> list[Section]:
    """All sections, as they were read: nothing is redacted but the logs."""

    def about(source: Callable[[Layout], Iterable[str]]) -> Source:
        return lambda: source(run.layout)

    sources: list[tuple[str, Source]] = [
        ("this call", lambda: _call(run)),
        ("the medium", lambda: supportstate.medium(run.media if run.arguments.media else None)),
        ("the installed bundles", about(supportstate.releases)),
        ("servers, arguments, history", about(supportstate.servers)),
        ("settings", about(supportstate.settings)),
        ("preflight", lambda: _preflight(run)),
        ("the doctor's findings", about(supportlogs.findings)),
        ("the last audit", about(supportstate.audit)),
        ("GPUs", supporthost.gpus),
        ("the machine", supporthost.machine),
        ("limits and containers", supporthost.limits),
        ("disks", lambda: supporthost.disks(_folders(run))),
        ("environment", supporthost.environment),
        ("the kernel's log", supporthost.kernel_log),
        ("files of the installation", about(supportstate.tree)),
    ]
    sections = [_section(title, source) for title, source in sources]
    layout, count = _layout(run), run.arguments.log_lines
    logs: tuple[Path, ...] = ()
    with contextlib.suppress(OSError):  # the section about files says that they can't be seen
        logs = supportlogs.logs(layout) if layout else ()
    for path in logs:
        lines = _section(f"log {path}", partial(supportlogs.log, path, count, redactor))
        sections.append(Section(lines.title, lines.lines, keep_end=True, failed=lines.failed))
    return sections


def anonymous(sections: Iterable[Section], layout: Layout | None) -> list[Section]:
    """Sections without the names of people, hosts and addresses."""
    sections = list(sections)
    names = {name: HOST for name in (platform.node(), platform.node().partition(".")[0]) if name}
    uids = {os.geteuid()}
    with contextlib.suppress(OSError):
        uids |= {layout.prefix.stat().st_uid} if layout else set()
    for uid in uids:
        with contextlib.suppress(KeyError):
            names[pwd.getpwuid(uid).pw_name] = USER
    names |= {
        os.environ[name]: USER for name in ("SUDO_USER", "LOGNAME", "USER") if name in os.environ
    }
    replace = Anonymiser(names)
    replace.learn(line for section in sections for line in (section.title, *section.lines))
    return [_treated(section, replace) for section in sections]


def write_private(target: Path, data: bytes) -> None:
    """Write a file that only its owner reads: all of it or nothing, synced.

    Raises FilesystemError.
    """
    draft = ""
    try:
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # mode 0600
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(target)
        sync(target.parent)
    except OSError as error:
        raise from_oserror(error, "writing the support file", target) from None
    finally:
        if draft:
            Path(draft).unlink(missing_ok=True)


def _section(title: str, source: Source) -> Section:
    lines: list[str] = []
    try:
        for line in source():
            lines.append(line)  # noqa: PERF402 - what came before a failure is kept
    except BundleError as error:
        return Section(title, (*lines, *error.render().splitlines()), failed=True)
    except Exception as error:  # a defect of ours must not cost the rest of the file
        said = f"error: {type(error).__name__}: {error}"
        return Section(title, (*lines, *said.splitlines()), failed=True)
    return Section(title, tuple(lines))


def _treated(section: Section, treat: Callable[[str], str]) -> Section:
    # As one text: a private key has several lines.
    lines = tuple(treat("\n".join(section.lines)).split("\n")) if section.lines else ()
    return Section(treat(section.title), lines, section.keep_end, section.failed)


def _call(run: Run) -> Iterator[str]:
    yield f"vllm-bundle {__version__}, Python {platform.python_version()} at {sys.prefix}"
    yield f"run from {'a medium' if run.arguments.media else 'an installation'}"
    yield f"prefix: {run.layout.prefix}, instance {run.layout.called}"


def _preflight(run: Run) -> Iterator[str]:
    if run.arguments.media is None:
        yield from supportstate.checks(run.layout)
        return
    report = installing.examine(run.media, run.layout, installing.Options())
    yield from preflight.report(report.findings, every=True).splitlines()


def _folders(run: Run) -> list[Path]:
    layout = _layout(run)
    return [*([layout.prefix] if layout else []), Path(tempfile.gettempdir()), Path("/dev/shm")]  # noqa: S108 - looked at, not used


def _layout(run: Run) -> Layout | None:
    try:
        return run.layout
    except BundleError:
        return None


def _secrets(layout: Layout | None) -> set[str]:
    told = {value for name, value in os.environ.items() if SECRET_NAME.search(name)}
    return told | set(supportstate.secrets(layout) if layout else ())


def _default_name() -> str:
    return time.strftime("vllm-bundle-support-%Y%m%d-%H%M%S.txt")


def _somewhere(say: Callable[[str], None]) -> Path:
    """The folder for the file: where this one can't be written, home, else the temporary one.

    Raises UsageError.
    """
    places: tuple[Callable[[], Path], ...]
    places = (Path.cwd, Path.home, lambda: Path(tempfile.gettempdir()))
    for number, place in enumerate(places):
        with contextlib.suppress(OSError, RuntimeError):  # it was removed; there is no home
            folder = place()
            if _is_writable(folder):
                if number:
                    say(f"note: this folder can't be written, so the file goes to {folder}")
                return folder
    raise UsageError(
        "neither this folder nor the home folder nor the temporary one can be written",
        mend="name a file where there is room: --output FILE",
    )


def _is_writable(folder: Path) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _check(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not target.is_file()):
        raise UsageError(f"{target}: is there, and is no file", mend="choose another --output")
    if not target.parent.is_dir():
        raise UsageError(f"{target.parent}: no such folder", mend="choose another --output")
