"""Where everything of an installation lies, and which folders may become one."""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from manifests import placement
from manifests.errors import UsageError, from_oserror

ROOT_PREFIX = Path("/opt/vllm-bundle")
#: Bytes. conda's placeholder for binary files is 255 bytes long, and a longer prefix does not fit
#: in; `/releases/ID/env` comes on top (preflight checks the sum, this is the early answer).
LONGEST_PREFIX = 200
MARKER = "vllm-bundle"


@dataclass(frozen=True)
class Layout:
    """The places below a prefix."""

    prefix: Path

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
        return self.prefix / "current"

    @property
    def etc(self) -> Path:
        """What the administrator edits."""
        return self.prefix / "etc"

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
        """What bundlectl itself keeps."""
        return self.prefix / "state"

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
        return self.state / "logs"

    @property
    def run(self) -> Path:
        """Records and locks of running servers, mode 0700."""
        return self.state / "run"

    @property
    def cache(self) -> Path:
        """Everything that a server may write; can be deleted while none runs."""
        return self.prefix / "cache"

    @property
    def bin(self) -> Path:
        """The command."""
        return self.prefix / "bin"

    @property
    def command(self) -> Path:
        """`bundlectl` for people."""
        return self.bin / "bundlectl"

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
        return placement.current_release(self.prefix)

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
            if not self.marker.exists():
                self.marker.write_text("This folder belongs to vllm-bundle.\n", "utf-8")
                self.marker.chmod(0o644)
            for folder, mode in modes:
                _make(folder, mode)
        except OSError as error:
            raise from_oserror(error, "making the folders of the installation") from error

    def _public(self) -> tuple[Path, ...]:
        return (
            self.releases,
            self.models,
            self.etc,
            self.journal,
            self.receipts,
            self.logs,
            self.bin,
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


def check_prefix(path: str | os.PathLike[str], environ: Mapping[str, str] = os.environ) -> Path:
    """The absolute prefix, if that folder may become, or is, an installation.

    Raises UsageError saying what is wrong with it, FilesystemError where it can't be read.
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
    try:
        _check_content(prefix)
    except OSError as error:
        raise from_oserror(error, "looking at the prefix") from error
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
