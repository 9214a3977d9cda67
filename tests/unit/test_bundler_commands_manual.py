"""`bundle manual`, and that a changed manual makes another runtime."""

import json

import pytest
from click.testing import CliRunner

from bundler import building
from bundler.cli import bundle
from manifests.errors import FilesystemError
from manifests.manual.documents import documents


def test_it_writes_what_a_bundle_carries(tmp_path):
    target = tmp_path / "new/desk"
    for _ in range(2):  # the second time over the first
        done = CliRunner().invoke(bundle, ["manual", "--to", str(target), "--json"])
        assert done.exit_code == 0
        assert len(json.loads(done.stdout)["files"]) == len(documents())
    found = {f"docs/{path.name}": path.read_bytes() for path in target.iterdir()}
    assert found == documents()


def test_a_file_in_the_place_of_the_folder_is_told(tmp_path):
    place = tmp_path / "file"
    place.write_text("mine")
    with pytest.raises(FilesystemError):
        CliRunner().invoke(bundle, ["manual", "--to", str(place)], catch_exceptions=False)
    assert place.read_text() == "mine"


def test_every_file_that_the_runtime_holds_decides_whether_it_is_built_again():
    held = {path.name for path in building._files_of("manifests")}
    assert {"topics.py", "zh.toml", "page.css", "wsl2.txt"} <= held
    assert not any(name.endswith(".pyc") for name in held)
