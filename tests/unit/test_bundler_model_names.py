"""Odd names in a model's folder: refused by name before anything is hashed, fetched or packed."""

import os
import shutil
from pathlib import Path

import pytest

from bundler import tinymodel
from bundler.models import resolve
from bundler.models.folder import folder_source
from manifests.checkpoint import Rules
from manifests.errors import BundleError, UsageError
from wheelhouse.store import Store


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "model"
    tinymodel.make(folder)
    return folder


@pytest.fixture
def model(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "model"))


REFUSED = {
    "a line break": (b"two\nlines.json", r"'two\nlines.json'"),
    "a tabulator": (b"tab\t.json", r"'tab\t.json'"),
    "an escape sequence": (b"\x1b[2Jclear.json", r"'\x1b[2Jclear.json'"),
    "not UTF-8": (b"caf\xe9.json", r"'caf\udce9.json'"),
    "beyond ASCII": ("größe.json".encode(), "'größe.json'"),
    "a backslash": (b"back\\slash.json", r"'back\\slash.json'"),
    "a colon, which FAT has not": (b"a:b.json", "'a:b.json'"),
    "a star": (b"*.json", "'*.json'"),
}


@pytest.mark.parametrize(("name", "told"), REFUSED.values(), ids=REFUSED)
def test_a_name_that_no_medium_is_sure_to_keep(model, name, told):
    Path(os.fsdecode(os.fsencode(model) + b"/" + name)).write_bytes(b"{}")
    with pytest.raises(UsageError) as caught:
        folder_source(model, Rules()).lock()
    assert told in caught.value.render()
    assert "rename that file" in caught.value.mend


def test_names_that_differ_only_by_case(model):
    (model / "Notice.txt").write_bytes(b"x")
    (model / "NOTICE.TXT").write_bytes(b"x")
    (model / "NOTICE.txt").write_bytes(b"x")
    with pytest.raises(UsageError, match="only by case"):
        folder_source(model, Rules()).lock()


@pytest.mark.parametrize("name", ["-rf.json", "a b (1).json", "n" * 250 + ".json"])
def test_a_name_that_is_merely_odd_is_packed(model, name):
    (model / name).write_bytes(b"{}")
    locked = folder_source(model, Rules()).lock()
    assert name in [file.path for file in locked.files]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["fifo", "folder"])
def test_what_is_no_file_is_not_read(model, make):
    make(model / "extra.json")
    if make is os.mkdir:
        folder_source(model, Rules()).lock()  # an empty folder holds nothing
        return
    with pytest.raises(BundleError) as caught:
        folder_source(model, Rules()).lock()
    assert "extra.json: not a regular file" in caught.value.render()


def test_a_home_of_nobody(tmp_path):
    with pytest.raises(UsageError, match="~nosuchuser/x") as caught:
        resolve("~nosuchuser/x", Store(tmp_path / "store"))
    assert caught.value.mend


def test_a_home_of_one_s_own(model, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("~/model", Store(tmp_path / "store")).lock()
