"""Proxies, ~/.netrc and passwords: for pip and for the project's own requests alike."""

import hashlib
import sys
from pathlib import Path

import pytest

from manifests.errors import SourceError
from manifests.lock import Target
from tests.support.index import Index, serving, wheel
from tests.support.proxy import Proxy, proxying
from wheelhouse.fetch import Fetcher, wanted
from wheelhouse.lockwheels import lock_requirements
from wheelhouse.sources import Sources
from wheelhouse.store import Store

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
#: Reached through the proxy only: nobody listens there. pip takes no http from further away.
FAR = "http://127.9.9.9:9/simple"
SECRET = "s3cret"


@pytest.fixture
def index():
    with serving(Index()) as index:
        index.add(wheel("app", "1.0", requires=["lib"]))
        index.add(wheel("lib", "1.0"))
        yield index


@pytest.fixture
def proxy(index):
    with proxying(Proxy(index.url, f"user:{SECRET}")) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    """No proxy, no netrc, no home but those that a test names."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("NETRC", raising=False)
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def run(tmp_path):
    """Resolve `app` and fetch everything; fails where a secret stays anywhere on the disk."""

    def lock_and_fetch(sources):
        store = Store(tmp_path / "cache" / "objects")
        wheels = lock_requirements(
            ["app"],
            date="2026-11-01T00:00:00Z",
            python=Path(sys.executable),
            target=Target(("cpu",), "2.28", PYTHON),
            sources=sources,
            store=store,
            scratch=tmp_path / "scratch",
        )
        Fetcher(sources, store, waits=()).fetch(map(wanted, wheels))
        for path in tmp_path.rglob("*"):
            # What pip's tools are linked to is not ours.
            if path.is_file() and path.name != "netrc" and "tools" not in path.parts:
                assert SECRET.encode() not in path.read_bytes(), path
        assert SECRET not in repr(wheels)
        return wheels, store

    return lock_and_fetch


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy"])
def test_the_variables_are_honoured(index, proxy, run, monkeypatch, name):
    monkeypatch.setenv(name, proxy.url)
    wheels, store = run(Sources(FAR, timeout=5))
    assert [wheel.name for wheel in wheels] == ["app", "lib"]
    for locked, file in zip(wheels, index.files, strict=True):
        assert locked.url == f"http://127.9.9.9:9/files/{file.filename}"
        assert locked.sha256 == hashlib.sha256(file.data).hexdigest()
        assert store.has(locked.sha256)
    assert all(url.startswith("http://127.9.9.9:9/") for url in proxy.requests)


def test_pips_own_setting_wins_over_the_variables(proxy, run, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    run(Sources(FAR, proxy=proxy.url, timeout=5))
    assert proxy.requests


def test_no_proxy_is_honoured(index, proxy, run, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    run(Sources(index.simple, timeout=5))
    assert proxy.requests == []


def test_a_wrong_password_for_the_proxy_is_told_without_it(proxy, run, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://user:wrong-{SECRET}@{proxy.address}")
    with pytest.raises(SourceError) as caught:
        run(Sources(FAR, timeout=5))
    assert "407" in caught.value.render()
    assert SECRET not in caught.value.render()


def test_a_dead_proxy_is_told_without_its_password(run, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", f"http://user:{SECRET}@127.0.0.1:9")
    with pytest.raises(SourceError) as caught:
        run(Sources(FAR, timeout=1))
    assert "127.9.9.9:9 can't be reached" in caught.value.what
    assert SECRET not in caught.value.render()


def test_netrc_opens_the_index(index, run, monkeypatch, tmp_path):
    index.credentials = f"user:{SECRET}"
    netrc = tmp_path / "netrc"
    netrc.write_text(f"machine 127.0.0.1 login user password {SECRET}\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    run(Sources(index.simple, timeout=5))


def test_a_password_in_the_url_stays_there(index, run):
    index.credentials = f"user:{SECRET}"
    run(Sources(index.authorised(), timeout=5))


def test_an_index_that_wants_a_password_says_so(index, run):
    index.credentials = f"user:{SECRET}"
    with pytest.raises(SourceError, match="401") as caught:
        run(Sources(index.simple, timeout=5))
    assert "netrc" in caught.value.mend


def test_an_index_that_pip_does_not_trust_is_named(proxy, run, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", proxy.url)
    with pytest.raises(SourceError) as caught:
        run(Sources("http://index.invalid/simple", timeout=5))
    assert "index.invalid is not a trusted or secure host" in caught.value.render()


def test_certificates_of_pip_win_over_the_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "absent.pem"))
    session = Sources("https://index.invalid/simple", cert="/etc/own.pem").session()
    settings = session.merge_environment_settings("https://index.invalid", {}, None, None, None)
    assert settings["verify"] == "/etc/own.pem"
