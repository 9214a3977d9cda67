"""Where an installation may go, and how a wrong place is told."""

import pytest

from manifests.exitcodes import ExitCode
from tests.support.mounts import needs_root
from tests.support.small import control, free_port, install


def test_a_path_with_a_quote_and_letters_of_other_scripts(small_bundle, prefix):
    odd = prefix / 'l\'été 日本 "$HOME"'
    done = install(small_bundle, "--prefix", str(odd), "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    assert control(odd, "ask", "Hello").returncode == 0
    assert control(odd, "audit").returncode == 0
    assert control(odd, "stop").returncode == 0


def test_a_relative_path_counts_from_the_working_folder(small_bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = install(small_bundle, "--prefix", "below/here", "--no-start", "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "below/here/bin/bundlectl").exists()


def test_a_foreign_folder_stays_untouched(small_bundle, prefix):
    prefix.mkdir()
    (prefix / "thesis.tex").write_text("years of work")
    done = install(small_bundle, "--prefix", str(prefix))
    assert done.returncode == ExitCode.USAGE
    assert "thesis.tex" in done.stderr
    assert "mend:" in done.stderr
    assert [path.name for path in prefix.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize(
    ("place", "told"),
    [("file", "is not a folder"), ("x" * 201, "200 is the most"), ("a:b", "colon")],
)
def test_a_place_that_can_not_be_one(small_bundle, tmp_path, place, told):
    (tmp_path / "file").write_text("")
    done = install(small_bundle, "--prefix", str(tmp_path / place))
    assert done.returncode == ExitCode.USAGE
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@needs_root
def test_an_account_without_a_home_is_asked_for_a_prefix(open_media):
    shell = ("setpriv", "--reuid=123456", "--regid=123456", "--clear-groups", "sh")
    done = install(open_media, shell=shell, env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == ExitCode.USAGE
    assert "no home folder" in done.stderr
    assert "--prefix" in done.stderr
