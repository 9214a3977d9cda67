import pytest

from bundler.request import cache_folder, check_version, file_settings
from manifests.errors import UsageError

KNOWN = {"gpu": str, "thinking": bool, "find_links": list, "index_url": str}


@pytest.fixture
def settings(tmp_path):
    def read(text):
        path = tmp_path / "bundle.toml"
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
        return file_settings(path, KNOWN)

    return read


def test_no_file_is_no_settings(tmp_path):
    assert file_settings(tmp_path / "bundle.toml", KNOWN) == {}


def test_settings(settings):
    text = 'gpu = "cpu"\nthinking = false\nfind_links = ["a", "b"]'
    assert settings(text) == {"gpu": "cpu", "thinking": False, "find_links": ["a", "b"]}


@pytest.mark.parametrize(
    ("text", "what", "mend"),
    [
        ('gpus = "cpu"', "unknown key 'gpus'", "did you mean gpu?"),
        ("frobnicate = 1", "unknown key 'frobnicate'", "known: find_links, gpu, index_url"),
        ("gpu = 86", "gpu is 86", "a text in quotes"),
        ("gpu = true", "gpu is True", "a text in quotes"),
        ('thinking = "on"', "thinking is 'on'", "true or false"),
        ("thinking = 1", "thinking is 1", "true or false"),
        ('find_links = "here"', "find_links is 'here'", "a list of texts"),
        ("find_links = [1]", "find_links is [1]", "a list of texts"),
        ("gpu = ", "can't be read", "correct that file"),
        ("gpu = '\udcff'", "can't be read", "correct that file"),
        ('[gpu]\nname = "cpu"', "gpu is {'name': 'cpu'}", "a text in quotes"),
    ],
)
def test_a_mistake_in_the_file(settings, text, what, mend):
    with pytest.raises(UsageError) as caught:
        settings(text)
    assert what in caught.value.what
    assert "bundle.toml" in caught.value.what
    assert mend in caught.value.mend


def test_a_folder_in_the_place_of_the_file(tmp_path):
    with pytest.raises(UsageError, match="can't be read"):
        file_settings(tmp_path, KNOWN)


@pytest.mark.parametrize("text", ["", "3.11", "2.31", "10.0"])
def test_versions(text):
    check_version("--python", text, "3.11")


@pytest.mark.parametrize("text", ["3", "3.11.7", "3.x", " 3.11", "3.11\n", "\u0663.\u0661", "new"])
def test_what_is_no_version(text):
    with pytest.raises(UsageError) as caught:
        check_version("--glibc", text, "2.31")
    assert f"--glibc {text}: not a version" in caught.value.what
    assert caught.value.mend == "for example --glibc 2.31"


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, "/c/vllm-bundle"),
        # The specification: a relative path is to be ignored.
        ({"XDG_CACHE_HOME": "c", "HOME": "/h"}, "/h/.cache/vllm-bundle"),
        ({"HOME": "/h"}, "/h/.cache/vllm-bundle"),
        ({}, "/tmp/.cache/vllm-bundle"),
    ],
)
def test_the_cache_folder(environ, folder):
    assert str(cache_folder(environ)) == folder
