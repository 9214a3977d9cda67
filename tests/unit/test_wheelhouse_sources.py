import os

import pytest

from manifests.errors import UsageError
from wheelhouse.sources import PYPI, from_settings, host, local_path, public_place


@pytest.fixture
def environment(tmp_path):
    """An environment in which pip finds no configuration but the one that a test writes."""
    (tmp_path / "pip.conf").write_text("")
    return {
        "PATH": os.defpath,
        "HOME": str(tmp_path),
        "XDG_CONFIG_DIRS": str(tmp_path / "none"),
        "PIP_CONFIG_FILE": str(tmp_path / "pip.conf"),
    }


def test_without_any_setting_it_is_pypi(environment):
    # PIP_CONFIG_FILE replaces only the user's files: os.devnull switches all of them off.
    sources = from_settings(environment={**environment, "PIP_CONFIG_FILE": os.devnull})
    assert sources.index_url == PYPI
    assert sources.find_links == ()
    assert sources.ignored == ()


def test_pips_variables_count(environment, tmp_path):
    sources = from_settings(
        environment={
            **environment,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": "https://mirror.example/simple",
            "PIP_FIND_LINKS": f"{tmp_path}/a https://links.example/page.html",
            "PIP_CERT": "/etc/ca.pem",
            "PIP_CLIENT_CERT": "/etc/me.pem",
            "PIP_PROXY": "http://proxy.example:3128",
            "PIP_TIMEOUT": "42",
        }
    )
    assert sources.index_url == "https://mirror.example/simple"
    assert sources.find_links == (f"{tmp_path}/a", "https://links.example/page.html")
    assert (sources.cert, sources.client_cert) == ("/etc/ca.pem", "/etc/me.pem")
    assert (sources.proxy, sources.timeout) == ("http://proxy.example:3128", 42.0)


def test_pips_file_counts_and_a_variable_beats_it(environment, tmp_path):
    (tmp_path / "pip.conf").write_text(
        "[global]\nindex-url = https://file.example/simple\ntimeout = 7\n"
        "[install]\nfind-links =\n    /one\n    /two\n"
    )
    sources = from_settings(environment=environment)
    assert sources.index_url == "https://file.example/simple"
    assert sources.find_links == ("/one", "/two")
    assert sources.timeout == 7.0
    beaten = from_settings(environment={**environment, "PIP_INDEX_URL": "https://env.example/s"})
    assert beaten.index_url == "https://env.example/s"


def test_explicit_values_beat_everything(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sources = from_settings(
        "https://flag.example/simple",
        ["wheels"],
        environment={
            **environment,
            "PIP_INDEX_URL": "https://env.example/simple",
            "PIP_FIND_LINKS": "/elsewhere",
        },
    )
    assert sources.index_url == "https://flag.example/simple"
    assert sources.find_links == (str(tmp_path / "wheels"),)


def test_a_home_of_nobody_is_a_folder_like_any_other(environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = from_settings(find_links=["~nosuchuser/x"], environment=environment)
    assert found.find_links == (f"{tmp_path}/~nosuchuser/x",)


def test_no_index_leaves_only_the_folders(environment):
    sources = from_settings(
        environment={**environment, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}
    )
    assert sources.index_url == ""
    assert sources.public() == ("/wheels",)


@pytest.mark.parametrize("name", ["extra-index-url", "constraint"])
def test_settings_that_would_change_the_result_are_ignored_and_named(environment, name):
    variable = "PIP_" + name.upper().replace("-", "_")
    sources = from_settings(
        environment={
            **environment,
            "PIP_CONFIG_FILE": os.devnull,
            variable: "https://user:s3cret@bait.example/simple",
        }
    )
    (sentence,) = sources.ignored
    assert name in sentence
    assert "bait.example" in sentence
    assert "s3cret" not in sentence
    assert "bait" not in " ".join(sources.public())


def test_a_broken_configuration_is_a_usage_error(environment, tmp_path):
    (tmp_path / "pip.conf").write_text("[global\nindex-url")
    with pytest.raises(UsageError) as caught:
        from_settings(environment=environment)
    assert "pip config debug" in caught.value.mend


def test_credentials_are_used_but_never_shown(environment):
    sources = from_settings("https://user:s3cret@h.example:8443/simple", environment=environment)
    assert sources.public()[0] == "https://h.example:8443/simple"
    file = "https://h.example:8443/files/a.whl"
    assert sources.authorised(file) == "https://user:s3cret@h.example:8443/files/a.whl"
    for other in (
        "https://elsewhere.example/files/a.whl",
        "https://h.example/files/a.whl",
        "http://h.example:8443/files/a.whl",
    ):
        assert sources.authorised(other) == other


def test_places(tmp_path):
    assert local_path("/a b/c") == local_path("file:///a%20b/c")
    assert local_path("https://h.example/a") is None
    assert public_place("https://u:p@h.example/a?token=1") == "https://h.example/a"
    assert host("https://u:p@h.example:1/a") == "h.example:1"
    assert host("/folder") == "/folder"
