"""Where wheels come from: one index and any number of folders or pages of links.

One index only: with several, pip takes the highest version from any of them, so that a public
package of the same name replaces a private one (dependency confusion, pypa/pip#8606).
"""

import ast
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

import requests
from pip import __version__ as _pip_version
from pip._internal.models.index import PyPI
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from manifests.errors import UsageError
from manifests.names import public_url

#: Not spelled out here: distributors patch pip's own default.
PYPI = PyPI.simple_url
#: Answers that mean "later", and connections that fail; waits 0, 0.6 and 1.2 s.
_RETRIES = Retry(
    total=3,
    backoff_factor=0.3,
    status_forcelist=(429, 500, 502, 503, 504),
    raise_on_status=False,
)
_CONNECTIONS = 8
#: Settings of pip that would change what is resolved without anybody having asked for it.
_IGNORED = {
    "extra-index-url": "a second index lets a package of the same name replace the one meant",
    "constraint": "the stack's own pins decide",
}


@dataclass(frozen=True)
class Sources:
    """One index, more places with wheels, and how to reach them. URLs here may hold credentials."""

    index_url: str  # empty: no index, only find_links
    find_links: tuple[str, ...] = ()  # folders, or URLs of pages with links
    cert: str = ""  # file of certificate authorities
    client_cert: str = field(default="", repr=False)
    proxy: str = field(default="", repr=False)
    timeout: float = 15.0  # seconds without a byte
    ignored: tuple[str, ...] = ()  # sentences for the plan

    @property
    def index(self) -> str:
        """The index as it may be shown."""
        return public_place(self.index_url)

    def public(self) -> tuple[str, ...]:
        """The places as they may be shown and kept."""
        places = [self.index] if self.index_url else []
        return (*places, *map(public_place, self.find_links))

    def with_folder(self, folder: Path) -> "Sources":
        """The same and one more folder, looked at first."""
        return replace(self, find_links=(str(folder), *self.find_links))

    def authorised(self, url: str) -> str:
        """A public URL with the credentials of the configured place on the same host, if any."""
        parts = urlsplit(url)
        for place in (self.index_url, *self.find_links):
            known = urlsplit(place)
            if known.username and _origin(known.geturl()) == _origin(url):
                secret = known.netloc.rpartition("@")[0]
                return urlunsplit(parts._replace(netloc=f"{secret}@{parts.netloc}"))
        return url

    def session(self) -> requests.Session:
        """An HTTP session that follows these settings; ~/.netrc and *_proxy are honoured too."""
        session = _Session()
        session.headers["User-Agent"] = f"vllm-bundle (pip/{_pip_version})"
        # Ranges and digests are about the file's own bytes, not about a compressed transfer.
        session.headers["Accept-Encoding"] = "identity"
        adapter = HTTPAdapter(max_retries=_RETRIES, pool_maxsize=_CONNECTIONS)
        session.mount("https://", adapter)
        session.mount("http://", adapter)
        if self.cert:
            session.verify = self.cert
        if self.client_cert:
            session.cert = self.client_cert
        if self.proxy:
            session.proxies = {"http": self.proxy, "https": self.proxy}
        return session


class _Session(requests.Session):
    """A session whose own proxy and certificates win over *_proxy and REQUESTS_CA_BUNDLE.

    In requests the variables win; in pip, whose settings these are, they don't.
    """

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        """The settings of one request."""
        if verify is None and isinstance(self.verify, str):
            verify = self.verify
        own = {**self.proxies, **(proxies or {})}
        return super().merge_environment_settings(url, own, stream, verify, cert)


def from_settings(
    index_url: str | None = None,
    find_links: Sequence[str] = (),
    *,
    environment: Mapping[str, str] | None = None,
) -> Sources:
    """Explicit values first, else what the user configured for pip, else PyPI.

    `environment` is os.environ unless given; pip's variables and configuration files count.
    Raises UsageError where pip can't read its configuration.
    """
    settings = _pip_settings(os.environ if environment is None else environment)
    no_index = settings.get("no-index", "").lower() in ("1", "true", "yes", "on")
    configured = "" if no_index else settings.get("index-url", PYPI)
    return Sources(
        index_url=configured if index_url is None else index_url,
        find_links=tuple(map(_absolute, find_links or settings.get("find-links", "").split())),
        cert=settings.get("cert", ""),
        client_cert=settings.get("client-cert", ""),
        proxy=settings.get("proxy", ""),
        timeout=_seconds(settings.get("timeout") or settings.get("default-timeout") or "15"),
        ignored=tuple(
            f"pip's setting {name} ({_shown(settings[name])}) is ignored: {reason}"
            for name, reason in _IGNORED.items()
            if settings.get(name)
        ),
    )


def local_path(place: str) -> Path | None:
    """The path of a folder, file or file: URL; None for anything remote."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(url2pathname(parts.path))
    return None if parts.scheme else Path(place)


def public_place(place: str) -> str:
    """A URL without secrets, or a folder's path as it is."""
    return place if local_path(place) else public_url(place)


def host(url: str) -> str:
    """Host and port of a URL, without credentials; the path of a local one."""
    path = local_path(url)
    return str(path) if path else urlsplit(url).netloc.rpartition("@")[2]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(
            f"pip's setting timeout is {text!r}, not a number of seconds",
            mend="`python -m pip config debug` shows where it is set",
        ) from None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port


def _absolute(place: str) -> str:
    path = local_path(place)
    # Path's own expanduser raises RuntimeError where there is no such user.
    return str(Path(os.path.expanduser(path)).absolute()) if path else place  # noqa: PTH111


def _shown(value: str) -> str:
    return " ".join(public_place(part) for part in value.split())


def _pip_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings of pip by name. Variables win over [install], and that over [global], as in pip."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"],
        env={**environment, "PYTHONSAFEPATH": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UsageError(
            "pip can't read its own configuration",
            why=done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "",
            mend="`python -m pip config debug` shows the files that it reads",
        )
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in done.stdout.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in found:
            found[section][name] = ast.literal_eval(value)
    return found["global"] | found["install"] | found[":env:"]
