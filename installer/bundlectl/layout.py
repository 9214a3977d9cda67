"""Where everything of an installation lies, and which folders may become one."""

import contextlib
import os
import pwd
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manifests import placement, synced
from manifests.errors import UsageError, from_oserror

ROOT_PREFIX = Path("/opt/vllm-bundle")
#: Bytes. conda's placeholder for binary files is 255 bytes long, and a longer prefix does not fit
#: in; `/releases/ID/env` comes on top (preflight checks the sum, this is the early answer).
LONGEST_PREFIX = 200
MARKER = "vllm-bundle"
#: What people call the instance that has no name.
DEFAULT = "default"
#: Names of instances: parts of paths, of systemd units and of lines of a shell.
_INSTANCE = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")


@dataclass(frozen=True)
class Layout:
    """The places below a prefix.

    An installation can have several servers. The one without a name keeps its things right below
    the prefix, each other instance below `instances/NAME`; releases, models, receipts and the
    command are shared.
    """

    prefix: Path
    instance: str = ""

    @property
    def called(self) -> str:
        """The instance's name for people."""
        return self.instance or DEFAULT

    @property
    def home(self) -> Path:
        """Everything that is this instance's alone."""
        return self.instances / self.instance if self.instance else self.prefix

    @property
    def instances(self) -> Path:
        """One folder for each named instance."""
        return self.prefix / "instances"

    def every(self) -> tuple["Layout", ...]:
        """All instances of the installation, the one without a name first."""
        names = sorted(p.name for p in self.instances.iterdir()) if self.instances.is_dir() else ()
        return (
            Layout(self.prefix),
            *(Layout(self.prefix, name) for name in names if _INSTANCE.fullmatch(name)),
        )

    @property
    def releases(self) -> Path:
        """One folder for each release; immutable once complete."""
        return self.prefix / "releases"

    @property
    def models(self) -> Path:
        """Models, shared by releases."""
        return self.prefix / "models"

    @property
    def current(self) -> Path:
        """The relative symlink to the release in service."""
        return self.home / placement.CURRENT

    @property
    def etc(self) -> Path:
        """What the administrator edits."""
        return self.home / "etc"

    @property
    def config_file(self) -> Path:
        """The server's settings."""
        return self.etc / "serve.toml"

    @property
    def api_key(self) -> Path:
        """The API key, mode 0600."""
        return self.etc / "api-key"

    @property
    def state(self) -> Path:
        """What bundlectl itself keeps of the installation."""
        return self.prefix / "state"

    @property
    def own_state(self) -> Path:
        """What bundlectl itself keeps of this instance."""
        return self.home / "state"

    @property
    def marker(self) -> Path:
        """The file that says that the prefix is ours."""
        return self.state / MARKER

    @property
    def journal(self) -> Path:
        """Progress of installations."""
        return self.state / "journal"

    @property
    def receipts(self) -> Path:
        """What was installed, by release."""
        return self.state / "receipts"

    @property
    def logs(self) -> Path:
        """Logs of servers."""
        return self.own_state / "logs"

    @property
    def run(self) -> Path:
        """Records and locks of running servers, mode 0700."""
        return self.own_state / "run"

    @property
    def switch_lock(self) -> Path:
        """Held while a release or a model is put into service."""
        return self.run / "switch.lock"

    @property
    def install_lock(self) -> Path:
        """Held while releases or models are written or removed."""
        return self.state / "install.lock"

    @property
    def cache(self) -> Path:
        """Everything that a server may write; can be deleted while none runs."""
        return self.home / "cache"

    @property
    def bin(self) -> Path:
        """The command."""
        return self.prefix / "bin"

    @property
    def command(self) -> Path:
        """`bundlectl` for people."""
        return self.bin / "bundlectl"

    @property
    def spoken(self) -> str:
        """The command for this instance, as it can be pasted into a shell."""
        name = f" --instance {self.instance}" if self.instance else ""
        return shlex.quote(str(self.command)) + name

    def release(self, ident: str) -> Path:
        """The folder of a release."""
        return self.releases / ident

    def environment(self, ident: str) -> Path:
        """The serving environment of a release."""
        return self.release(ident) / "env"

    def runtime(self, ident: str) -> Path:
        """The Python that bundlectl runs on, of a release."""
        return self.release(ident) / "runtime"

    def current_release(self) -> str:
        """The id of the release in service; empty where there is none."""
        return placement.current_release(self.home)

    def link_to(self, ident: str) -> str:
        """What `current` says to mean a release; relative, so that the prefix can be a mount."""
        return os.path.relpath(self.release(ident), self.home)

    def create(self) -> None:
        """Make the folders that are missing, with modes that do not depend on the umask.

        Raises FilesystemError.
        """
        modes = (
            *((folder, 0o755) for folder in self._public()),
            (self.run, 0o700),
            (self.cache, 0o700),
        )
        try:
            for parent in reversed(self.prefix.parents):
                _make(parent, 0o755)
            # The marker comes before everything but its own folder, so that a kill leaves a prefix
            # that check_prefix accepts again: empty, or ours.
            for folder in (self.prefix, self.state):
                _make(folder, 0o755)
            with contextlib.suppress(FileExistsError):
                synced.write(self.marker, b"This folder belongs to vllm-bundle.\n", 0o644)
            for folder, mode in modes:
                _make(folder, mode)
        except OSError as error:
            raise from_oserror(error, "making the folders of the installation") from error

    def _public(self) -> tuple[Path, ...]:
        return (
            self.releases,
            self.models,
            self.journal,
            self.receipts,
            self.bin,
            *((self.instances, self.home) if self.instance else ()),
            self.etc,
            self.own_state,
            self.logs,
        )


def _make(folder: Path, mode: int) -> None:
    try:
        folder.mkdir(mode)  # a kill before the next line leaves nothing wider open
    except FileExistsError:
        return
    folder.chmod(mode)


def default_prefix(environ: Mapping[str, str] = os.environ, uid: int | None = None) -> Path:
    """The prefix where none was given.

    Raises UsageError for an account without a home folder.
    """
    uid = os.geteuid() if uid is None else uid
    if uid == 0:
        return ROOT_PREFIX
    # The XDG base directory specification: a relative value is to be ignored.
    data = environ.get("XDG_DATA_HOME", "")
    if data.startswith("/"):
        return Path(data) / "vllm-bundle"
    home = _home(environ, uid)
    if home is None:
        raise UsageError(
            "this account has no home folder, so there is no default prefix",
            why=f"neither HOME nor an entry for uid {uid} in the account database names one",
            mend="name a folder with --prefix /some/folder",
        )
    return home / ".local/share/vllm-bundle"


def _home(environ: Mapping[str, str], uid: int) -> Path | None:
    home = environ.get("HOME", "")
    if not home:
        try:
            home = pwd.getpwuid(uid).pw_dir
        except KeyError:
            return None
    return Path(home) if home.startswith("/") and home != "/" else None


def check_instance(name: str) -> str:
    """The name, if an instance can have it.

    Raises UsageError.
    """
    if not _INSTANCE.fullmatch(name):
        raise UsageError(
            f"{name!r} can't be the name of an instance",
            mend="use 1 to 32 of a-z, 0-9 and -, the first and the last of them no -",
        )
    return name


def check_prefix(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Path:
    """The absolute prefix, if that folder may become, or is, an installation.

    Raises UsageError saying what is wrong with it, FilesystemError where it can't be read.
    """
    prefix = check_path(path, environ)
    try:
        _check_content(prefix)
    except OSError as error:
        raise from_oserror(error, "looking at the prefix") from error
    return prefix


def check_path(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Path:
    """The absolute prefix, if a folder of that name can be one, whatever is in it.

    Raises UsageError.
    """
    text = os.fspath(path)
    _check_text(text)
    absolute = os.path.abspath(text)  # noqa: PTH100 - resolve() would follow a wanted link
    prefix = Path("/" + absolute.lstrip("/"))  # POSIX lets two leading slashes stand
    if len(os.fsencode(prefix)) > LONGEST_PREFIX:
        raise _refused(
            prefix,
            f"it is {len(os.fsencode(prefix))} bytes long, {LONGEST_PREFIX} is the most: "
            "the path has to fit into compiled files",
        )
    if prefix == Path("/"):
        raise _refused(prefix, "it is the root of the file system")
    home = _home(environ, os.geteuid())
    if home is not None and prefix.resolve() == home.resolve():
        raise _refused(prefix, "it is the home folder itself", f"use {home}/vllm-bundle")
    return prefix


def _check_text(text: str) -> None:
    odd = not text.isprintable()  # surrogates, of names that are not UTF-8, included
    if not text:
        raise UsageError("the prefix is empty", mend="name a folder with --prefix /some/folder")
    if odd:
        raise _refused(text, "it holds characters that can't be printed")
    if ":" in text:
        raise _refused(text, "it holds a colon, which separates folders in PATH")
    if text.startswith("~"):
        raise _refused(text, "the shell did not replace the ~", "write the folder out, unquoted")
    if ".." in text.split("/"):
        raise _refused(text, "it holds '..'", "write the folder without '..'")


def _check_content(prefix: Path) -> None:
    if prefix.is_symlink() and not prefix.exists():
        raise _refused(prefix, "it is a link to something that does not exist")
    for place in (prefix, *prefix.parents):
        if place.exists():
            if not place.is_dir():
                raise _refused(prefix, f"{place} is not a folder")
            break
    if prefix.is_dir() and not Layout(prefix).marker.is_file():
        strangers = sorted(item.name for item in prefix.iterdir() if not _is_ours(item))
        if strangers:
            raise _refused(prefix, f"it holds something else already ({strangers[0]})")


def _is_ours(item: Path) -> bool:
    """Whether create() was killed between making `state` and the marker in it."""
    return item.name == "state" and item.is_dir() and not any(item.iterdir())


def _refused(
    prefix: str | Path, why: str, mend: str = "choose an empty or a new folder with --prefix"
) -> UsageError:
    return UsageError(f"{str(prefix)!r} can't be the prefix", why=why, mend=mend)
