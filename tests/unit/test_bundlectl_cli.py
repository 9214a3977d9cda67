import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl import cli, lookcommands
from bundlectl.arguments import command_first, parser
from bundlectl.layout import Layout
from manifests.exitcodes import ExitCode

WORDS = ["--prefix", "/x", "--json", "--quiet", "--port", "8001", "--thinking", "on"]


@pytest.mark.parametrize(
    ("given_words", "ordered"),
    [
        ([], ["install"]),
        (["--prefix", "/x"], ["install", "--prefix", "/x"]),
        (["--prefix", "/x", "status"], ["status", "--prefix", "/x"]),
        (["ask", "Hello"], ["ask", "Hello"]),
        (["--json", "logs", "--lines", "3"], ["logs", "--json", "--lines", "3"]),
        (["--media", "/m", "--manifest", "0", "--help"], ["--help"]),
        (["audit", "--help"], ["audit", "--help"]),
    ],
)
def test_the_command_comes_first(given_words, ordered):
    assert command_first(given_words) == ordered


words = st.lists(st.sampled_from([*WORDS, *cli._ACTIONS, "-x", "--", "", "é", "\udc80", "-1"]))


@given(words=words)
def test_any_words_parse_or_are_refused(words):
    try:
        parser().parse_args(command_first(words))
    except cli.BundleError as error:
        assert error.exit_code == ExitCode.USAGE
    except SystemExit as end:
        assert end.code == 0


@pytest.mark.parametrize("command", cli._ACTIONS)
def test_every_command_has_an_action(command):
    assert callable(cli._action(command))


def test_a_module_that_can_not_be_loaded_is_told_with_its_mend(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "bundlectl.lookcommands", None)
    status = cli.main(["status", "--prefix", str(tmp_path / "p")])
    assert status == ExitCode.INTEGRITY
    told = capsys.readouterr().err
    assert "the program can't be loaded" in told
    assert "sh install.sh repair" in told


def test_an_error_of_the_operating_system_is_told_like_any_other(tmp_path, capsys, monkeypatch):
    def fails(_run):
        raise PermissionError(13, "Permission denied", "/some/file")

    monkeypatch.setattr(lookcommands, "status", fails)
    status = cli.main(["status", "--json", "--prefix", str(tmp_path / "p")])
    assert status == ExitCode.FILESYSTEM
    record = json.loads(capsys.readouterr().out)
    assert record["error"].startswith("/some/file: Permission denied")
    assert record["mend"]


def test_what_nobody_confirms_is_told_with_options_that_there_are(tmp_path, capsys):
    made = Layout(tmp_path / "p", "two")
    made.create()
    words = ["instance", "remove", "two", "--prefix", str(made.prefix)]
    assert cli.main(words) == ExitCode.USAGE
    told = capsys.readouterr().err
    assert "--yes" in told
    assert "--dry-run" not in told


def test_a_stage_is_removed_only_where_this_program_runs_from_it(tmp_path):
    stage = tmp_path / "stage"
    stage.mkdir()
    status = cli.main(["status", "--quiet", "--prefix", str(tmp_path / "p"), "--stage", str(stage)])
    assert status == ExitCode.SERVER
    assert stage.is_dir()


@pytest.fixture(autouse=True)
def _signals():
    """main() sets handlers, as a program may; a test run has to get its own back."""
    import signal

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [(number, signal.getsignal(number)) for number in numbers]
    yield
    for number, handler in before:
        signal.signal(number, handler)
