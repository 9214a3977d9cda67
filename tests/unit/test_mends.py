"""What a message tells a person to type is what the programs take."""

import argparse
import ast
import re
from collections.abc import Iterator

import pytest

from bundlectl.arguments import parser
from manifests.doctor.rules import probes, rules
from tests.support.connectedcommands import bundle_commands
from tests.support.small import ROOT

#: A program, its command, and what follows in the same clause, in English or in Chinese; "make a
#: bundle with --gpu …" names no command.
_CLAUSE = re.compile(
    r"(?<!\ba )(?<!\bthe )(?<!\bthis )(?<!\bnew )(?<!\bsame )\b(bundlectl|bundle)"
    r" ([a-z][a-z-]+)\b([^;,.()|`\uff0c\u3002\uff1b\u3001\uff08\uff09\n]*)"
)
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


def _options() -> dict[str, dict[str, set[str]]]:
    """Of each program, the options of each command, in every form."""
    (commands,) = (a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    own = {name: set(sub._option_string_actions) for name, sub in commands.choices.items()}
    other = {
        name: {"--help", *(word for p in sub.params for word in (*p.opts, *p.secondary_opts))}
        for name, sub in bundle_commands().items()
    }
    return {"bundlectl": own, "bundle": other}


OPTIONS = _options()


def _source() -> Iterator[tuple[str, str]]:
    """Every text of the programs' source, joined as Python joins it, values as …"""
    for folder in ("installer/bundlectl", "manifests", "bundler"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.JoinedStr):
                    parts = [getattr(part, "value", "…") for part in node.values]
                    text = "".join(p if isinstance(p, str) else "…" for p in parts)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    text = node.value
                else:
                    continue
                yield f"{path.relative_to(ROOT)}:{node.lineno}", text


def _wrong(text: str, *, told: bool) -> list[str]:
    """Commands and options that there are not; `told`: every word after a program is a command."""
    found = []
    for program, command, rest in _CLAUSE.findall(text):
        options = set(_OPTION.findall(rest))
        known = OPTIONS[program].get(command)
        if known is None and (options or told):
            found.append(f"{program} {command}")
        elif known is not None:
            found += [f"{program} {command} {option}" for option in sorted(options - known)]
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.id)
def test_a_mend_of_the_doctor_can_be_typed(rule):
    told = f"{rule.mend}\n{rule.mend_zh}"
    assert _wrong(told, told=False) == []
    for command in re.findall(r"(?<!/)\bbundlectl ([a-z][a-z-]+)", told):
        assert command in OPTIONS["bundlectl"], command


def test_a_probe_can_be_typed():
    for probe in probes().values():
        assert _wrong(probe.command, told=True) == []


def test_a_mend_in_the_source_can_be_typed():
    wrong = {place: found for place, text in _source() if (found := _wrong(text, told=False))}
    assert wrong == {}


def test_what_does_not_exist_would_be_found():
    assert _wrong("run: bundlectl preflight --report", told=False)
    assert _wrong("bundlectl frobnicate --all; bundle stacks --gpu", told=False)
    assert _wrong("bundlectl preflight --all, bundle create --model-only --for X", told=False) == []
