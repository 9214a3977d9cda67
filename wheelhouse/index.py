"""What the sources offer: files by project, with the digests that they publish.

Reads the simple repository API as JSON (PEP 691, PEP 700) or HTML (PEP 503), pages of links and
folders. pip reads the same pages to resolve; they are read here once more because neither pip-tools
nor pip's report says in bearable time which digest the index itself published.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import requests
from packaging.utils import canonicalize_name

from manifests.errors import SourceError
from manifests.names import DIGEST, public_url
from wheelhouse.sources import Sources, host, local_path, public_place

_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, "
    "application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"
)
_ENDINGS = (".whl", ".tar.gz", ".zip")
_CONNECTIONS = 8
WAYS_OUT = (
    "name a reachable index with --index-url, a folder of wheels with --find-links, "
    "or, after a first complete run, use --offline"
)


@dataclass(frozen=True)
class Link:
    """One file that a source offers. `url` is public, or a path where the source is local."""

    filename: str
    url: str
    sha256: str = ""  # as published; empty where the source publishes none
    size: int = 0  # bytes as published; 0 where the source does not say
    requires_python: str = ""
    uploaded: str = ""  # RFC 3339; empty where the source does not say
    yanked: bool = False
    source: str = ""  # the configured place that offers it, without secrets

    @property
    def local(self) -> Path | None:
        """The file itself, where the source is a folder."""
        return local_path(self.url)


class Index:
    """The files of all sources; every page is read once."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._session = sources.session()
        self._pages: dict[str, tuple[Link, ...]] = {}

    def files(self, name: str) -> tuple[Link, ...]:
        """Every file of a project, find_links first as pip has it; empty where nobody has it.

        Raises SourceError where a source can't be read.
        """
        name = canonicalize_name(name)
        found = [
            link
            for place in self._sources.find_links
            for link in self._page(place, place)
            if _project(link.filename) == name
        ]
        if self._sources.index_url:
            found += self._page(self._project_page(name), self._sources.index_url)
        return tuple(found)

    def prefetch(self, names: Iterable[str]) -> None:
        """Read the pages of many projects at once.

        Raises SourceError where a source can't be read.
        """
        with ThreadPoolExecutor(_CONNECTIONS) as pool:
            for _ in pool.map(self.files, names):
                pass

    def _project_page(self, name: str) -> str:
        index = self._sources.index_url.rstrip("/")
        path = local_path(index)
        # An index in a folder has no folder for a project that it lacks.
        return str(path / name / "index.html") if path else f"{index}/{name}/"

    def _page(self, address: str, place: str) -> tuple[Link, ...]:
        if address not in self._pages:
            path = local_path(address)
            links: Iterable[Link]
            if path and path.name == "index.html":
                links = _local_page(path) if path.is_file() else ()
            else:
                links = _folder(path) if path else self._fetched(address)
            source = public_place(place)
            self._pages[address] = tuple(replace(link, source=source) for link in links)
        return self._pages[address]

    def _fetched(self, url: str) -> list[Link]:
        try:
            response = self._session.get(
                url, headers={"Accept": _ACCEPT}, timeout=self._sources.timeout
            )
        except (requests.RequestException, OSError) as error:
            raise SourceError(
                f"{host(url)} can't be reached", why=reason(error), mend=WAYS_OUT
            ) from None
        if response.status_code == requests.codes.not_found:
            return []
        if not response.ok:
            raise SourceError(
                f"{host(url)} refuses {public_url(url)}: {response.status_code} {response.reason}",
                mend="check the credentials for that index (~/.netrc, or in the index URL)"
                if response.status_code in (401, 403)
                else WAYS_OUT,
            )
        try:
            if "json" in response.headers.get("Content-Type", ""):
                return [_json_link(item, response.url) for item in response.json()["files"]]
            return list(_html_links(response.text, response.url))
        except (ValueError, KeyError, TypeError) as error:
            raise SourceError(
                f"{public_url(url)} is not a page of a package index ({error!r:.100})",
                mend=WAYS_OUT,
            ) from None


def reason(error: BaseException) -> str:
    """The innermost cause of a network error in one line, without URLs: they may hold secrets."""
    seen = {id(error)}
    while (cause := error.__cause__ or error.__context__) is not None and id(cause) not in seen:
        seen.add(id(cause))
        error = cause
    text = getattr(error, "strerror", None) or str(error)
    return text.splitlines()[0][:200] if text and "://" not in text else type(error).__name__


def _project(filename: str) -> str:
    """The normalised project of a wheel or source archive."""
    stem = filename.removesuffix(".tar.gz").removesuffix(".zip")
    first = filename.split("-")[0] if filename.endswith(".whl") else stem.rpartition("-")[0]
    return canonicalize_name(first)


def _local_page(path: Path) -> Iterator[Link]:
    return _html_links(path.read_text("utf-8", "replace"), path.absolute().as_uri())


def _folder(path: Path) -> Iterator[Link]:
    """The files of a folder, or the links of a page in a file, as pip's find-links has it."""
    if path.is_file():
        yield from _local_page(path)
        return
    if not path.is_dir():
        raise SourceError(f"the folder {path} does not exist", mend=WAYS_OUT)
    for file in sorted(path.iterdir()):
        if file.is_file() and file.name.endswith(_ENDINGS):
            yield Link(file.name, str(file), size=file.stat().st_size)


def _json_link(item: dict[str, Any], base: str) -> Link:
    return _link(
        urljoin(base, item["url"]),
        filename=item["filename"],
        sha256=(item.get("hashes") or {}).get("sha256", ""),
        size=item.get("size") or 0,
        requires_python=item.get("requires-python") or "",
        uploaded=item.get("upload-time") or "",
        yanked=bool(item.get("yanked")),
    )


class _Anchors(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.found: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "base" and not self.base:
            self.base = values.get("href") or ""
        if tag == "a" and values.get("href"):
            self.found.append(values)


def _html_links(text: str, url: str) -> Iterator[Link]:
    parser = _Anchors()
    parser.feed(text)
    for anchor in parser.found:
        address, fragment = urldefrag(urljoin(urljoin(url, parser.base), anchor["href"] or ""))
        filename = unquote(urlsplit(address).path.rpartition("/")[2])
        if filename.endswith(_ENDINGS):
            published = fragment.removeprefix("sha256=") if "sha256=" in fragment else ""
            yield _link(
                address,
                filename=filename,
                sha256=published,
                requires_python=anchor.get("data-requires-python") or "",
                yanked="data-yanked" in anchor,
            )


def _link(url: str, **fields: Any) -> Link:
    path = local_path(url)
    if fields["sha256"] and not DIGEST.fullmatch(fields["sha256"]):
        raise ValueError(f"{fields['filename']}: {fields['sha256']!r} is not a sha256")
    return Link(url=str(path) if path else public_url(url), **fields)
