import json

from manifests.console import Console, size
from manifests.errors import FilesystemError, IntegrityError, from_oserror
from manifests.exitcodes import ExitCode


def test_an_error_is_told_with_its_mend_and_its_status(capsys):
    error = IntegrityError("a.tar: altered", why="a bad disc", mend="copy it", findings=["one"])
    assert Console().fail(error) == ExitCode.INTEGRITY
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "error: a.tar: altered\n  - one\n  why:  a bad disc\n  mend: copy it\n"


def test_an_error_is_one_document_for_machines(capsys):
    assert Console(json=True).fail(FilesystemError("full", mend="free some")) == 4
    told = json.loads(capsys.readouterr().out)
    assert told["error"] == "full"
    assert told["exit_code"] == 4


def test_an_error_that_an_interrupt_caused_is_an_interrupt(capsys):
    """Python's rmtree closes a descriptor twice where a signal comes between two of its lines."""
    try:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise OSError(9, "Bad file descriptor") from None
    except OSError as error:
        told = from_oserror(error, "cleaning up")
        told.__cause__ = error
    assert Console().fail(told) == ExitCode.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


def test_narration_and_result_go_apart(capsys):
    console = Console()
    with console.stage("count", 3) as progress:
        progress(3)
    console.result({"n": 1}, "one")
    told = capsys.readouterr()
    assert told.out == "one\n"
    assert told.err.startswith("  count (")


def test_quiet_and_json_say_nothing_beside_the_result(capsys):
    for console in (Console(quiet=True), Console(json=True)):
        with console.stage("count"):
            console.say("hello")
    assert capsys.readouterr() == ("", "")


def test_sizes_for_people():
    assert [size(n) for n in (0, 999, 1000, 28_000_000_000)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "28.00 GB",
    ]
