"""Solving, fetching and linking with the real py-rattler, from folders and a loopback server."""

import base64
import functools
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bundler import conda
from bundler.request import CONDA_FORGE
from manifests.errors import (
    BundleError,
    IntegrityError,
    SourceError,
    TargetError,
    UsageError,
)
from manifests.exitcodes import ExitCode
from tests.support import conda_parts as parts
from wheelhouse.fetch import Fetcher
from wheelhouse.sources import Sources
from wheelhouse.store import Store


def _never() -> Path:
    raise AssertionError("no host channel was asked for")


@contextmanager
def _server(
    folder: Path, authorization: str = "", strip: str = ""
) -> Iterator[tuple[str, list[str]]]:
    """A channel over HTTP, with the paths that were asked for."""
    asked: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            if authorization and self.headers.get("Authorization") != authorization:
                self.send_error(401)
                return
            if not self.path.startswith(strip):
                self.send_error(404)
                return
            self.path = self.path[len(strip) :]
            super().do_GET()

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _fetcher(store: Store, *, offline: bool = False) -> Fetcher:
    return Fetcher(Sources(""), store, offline=offline, waits=(0.01,))


def test_an_environment_from_a_channel_runs(tmp_path: Path) -> None:
    prefix = parts.make(tmp_path / "env", tmp_path / "cache")

    assert parts.run(prefix / "bin" / "python", "-c", "import sys; print(sys.prefix)") == str(
        prefix
    )


def test_packages_are_pinned_and_named_without_the_builder(tmp_path: Path) -> None:
    found = parts.packages()

    assert [package.name for package in found] == sorted(package.name for package in found)
    assert {"python", "libstdcxx", "libgcc", "libnuma", "ca-certificates"} <= {
        p.name for p in found
    }
    for package in found:
        assert package.url.startswith(f"host:{package.subdir}/{package.name}-{package.version}-")
        assert package.size == parts.store().path(package.sha256).stat().st_size


def test_condas_records_name_the_locks_urls(tmp_path: Path) -> None:
    prefix = parts.make(tmp_path / "env", tmp_path / "cache")

    for package in parts.packages():
        (meta,) = (prefix / "conda-meta").glob(f"{package.name}-{package.version}-*.json")
        record = json.loads(meta.read_bytes())
        assert (record["url"], record["channel"], record["sha256"]) == (
            package.url, "host", package.sha256,
        )  # fmt: skip


def test_following_a_lock_needs_no_channel(tmp_path: Path) -> None:
    gone = conda.Channel("host", (tmp_path / "gone").as_uri())

    conda.fetch(parts.packages(), gone, _fetcher(parts.store(), offline=True))
    conda.create(parts.packages(), tmp_path / "env", parts.store(), tmp_path / "cache")

    assert (tmp_path / "env" / "bin" / "python").exists()


def test_an_altered_package_in_a_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "channel"
    shutil.copytree(parts.host_channel(), folder)
    (altered,) = folder.glob("linux-64/libgcc-*.conda")
    # Another valid package under the indexed name: py-rattler 0.28 installs it without a word.
    shutil.copyfile(next(folder.glob("linux-64/libnuma-*.conda")), altered)
    source = parts.file_channel(folder)
    packages = conda.solve(source, ["libgcc"], parts.target(), tmp_path / "repodata")
    store = Store(tmp_path / "store")

    with pytest.raises(IntegrityError, match=r"libgcc-.*sha256 is"):
        conda.fetch(packages, source, _fetcher(store))

    assert not store.has(packages[0].sha256)


def test_an_altered_package_in_the_store_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    shutil.copytree(parts.store().root, store.root)
    bad = store.path(parts.packages()[0].sha256)
    bad.chmod(0o644)
    bad.write_bytes(bad.read_bytes()[:-1] + b"?")

    with pytest.raises(IntegrityError, match="went bad"):
        conda.create(parts.packages(), tmp_path / "env", store, tmp_path / "cache")


def test_a_mirror_with_a_password_is_used_and_the_password_never_kept(tmp_path: Path) -> None:
    login = "Basic " + base64.b64encode(b"me:hunter2").decode()
    with _server(parts.host_channel(), login) as (host, asked):
        source = conda.channel(f"http://me:hunter2@{host}/", _never)
        packages = conda.solve(source, ["libgcc"], parts.target(), tmp_path / "repodata")
        store = Store(tmp_path / "store")
        conda.fetch(packages, source, _fetcher(store))
    conda.create(packages, tmp_path / "env", store, tmp_path / "cache")

    assert any(path.endswith(".conda") for path in asked)
    assert packages[0].url.startswith(f"http://{host}/linux-64/libgcc-")
    assert "hunter2" not in repr((source, packages))
    assert _holding(tmp_path / "env", b"hunter2") == []


def test_a_token_in_the_path_is_used_and_never_kept(tmp_path: Path) -> None:
    with _server(parts.host_channel(), strip="/t/se-cret-123/mirror") as (host, _):
        source = conda.channel(f"http://{host}/t/se-cret-123/mirror", _never)
        packages = conda.solve(source, ["libgcc"], parts.target(), tmp_path / "repodata")
        conda.fetch(packages, source, _fetcher(Store(tmp_path / "store")))

    assert packages[0].url.startswith(f"http://{host}/mirror/linux-64/libgcc-")


def test_a_refused_download_does_not_show_the_token(tmp_path: Path) -> None:
    with _server(parts.host_channel(), strip="/t/se-cret-123/mirror") as (host, _):
        source = conda.channel(f"http://{host}/t/se-cret-123/mirror", _never)
        packages = conda.solve(source, ["libgcc"], parts.target(), tmp_path / "repodata")
        gone = conda.Channel(source.name, f"http://{host}/t/se-cret-123/other")
        with pytest.raises(SourceError) as caught:
            conda.fetch(packages, gone, _fetcher(Store(tmp_path / "store")))

    assert "/other/linux-64/libgcc-" in caught.value.render()
    assert "se-cret-123" not in caught.value.render()


def _holding(folder: Path, text: bytes) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


@pytest.mark.parametrize("url", ["http://127.0.0.1:{port}/channel", "file:///nowhere/at/all"])
def test_a_channel_that_can_not_be_reached_names_both_ways_out(url: str, tmp_path: Path) -> None:
    source = conda.channel(url.format(port=_closed_port()), _never)

    with pytest.raises(SourceError) as caught:
        conda.solve(source, parts.SPECS, parts.target(), tmp_path)

    assert caught.value.exit_code == ExitCode.SOURCE
    assert url.format(port="")[:12] in caught.value.what
    assert "--channel URL" in caught.value.mend
    assert "--channel host" in caught.value.mend
    assert caught.value.why


def test_offline_without_an_index_says_so(tmp_path: Path) -> None:
    with _server(parts.host_channel()) as (host, asked):
        source = conda.channel(f"http://{host}", _never)
        with pytest.raises(SourceError, match="--offline") as caught:
            conda.solve(source, ["libgcc"], parts.target(), tmp_path, offline=True)

    assert asked == []
    assert "without --offline" in caught.value.mend


def test_the_index_is_kept_for_offline_use(tmp_path: Path) -> None:
    with _server(parts.host_channel()) as (host, asked):
        source = conda.channel(f"http://{host}", _never)
        online = conda.solve(source, ["libgcc"], parts.target(), tmp_path)
        asked.clear()
        assert conda.solve(source, ["libgcc"], parts.target(), tmp_path, offline=True) == online

    assert asked == []


def test_a_target_with_an_older_glibc_is_told_which_is_needed(tmp_path: Path) -> None:
    source = parts.file_channel(parts.host_channel())

    with pytest.raises(TargetError) as caught:
        conda.solve(source, parts.SPECS, parts.target("2.5"), tmp_path)

    assert f"need glibc {parts.target().glibc}, the target has 2.5" in caught.value.what


def test_what_the_channel_lacks_is_named(tmp_path: Path) -> None:
    source = parts.file_channel(parts.host_channel())

    with pytest.raises(SourceError) as caught:
        conda.solve(source, ["python 2.7.*"], parts.target(), tmp_path)

    assert "python 2.7.*" in caught.value.what
    assert "No candidates were found for python 2.7.*" in caught.value.why


@pytest.mark.parametrize("value", ["conda-forge", "foo bar:", "ftp://host/channel", "/srv/mirror"])
def test_channels_are_urls_or_host(value: str) -> None:
    with pytest.raises(UsageError, match="not a URL"):
        conda.channel(value, _never)


def test_a_spec_that_can_not_be_read_is_a_usage_error(tmp_path: Path) -> None:
    source = parts.file_channel(parts.host_channel())

    with pytest.raises(UsageError):
        conda.solve(source, ["pyt hon =>3"], parts.target(), tmp_path)


def test_the_host_channel_is_made_only_when_asked_for() -> None:
    made = conda.channel("host", parts.host_channel)

    assert made == conda.Channel("host", parts.host_channel().as_uri())
    assert conda.channel(CONDA_FORGE, _never).name == CONDA_FORGE


def test_a_folder_with_anything_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("keep")

    with pytest.raises(UsageError, match="not empty"):
        conda.create(parts.packages(), tmp_path, parts.store(), tmp_path / "cache")
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_errors_have_no_traceback_of_rattler(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with (tmp_path / "bad.conda").open("wb+") as handle:
        handle.write(b"not a package")
        handle.seek(0)
        digest = store.adopt(handle)
    locked = conda.CondaPackage(
        "bad", "1", "0", "linux-64", "host:linux-64/bad-1-0.conda", digest, 13
    )

    with pytest.raises(BundleError, match=r"bad-1-0\.conda|can't be linked"):
        conda.create([locked], tmp_path / "env", store, tmp_path / "cache")
