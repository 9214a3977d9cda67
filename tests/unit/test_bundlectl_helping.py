"""`bundlectl help`: the language of the person who asks, and what is printed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from bundlectl import cli
from bundlectl.helping import language
from manifests.manual import topics
from tests.support.small import environment

TITLES = {spoken: topics.words(spoken)["title"] for spoken in topics.LANGUAGES}


@pytest.fixture(autouse=True)
def _signals():
    kept = {number: signal.getsignal(number) for number in (1, 2, 15)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _no_locale(monkeypatch):
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh_TW.Big5"}, "zh"),
        ({"LC_MESSAGES": "zh_CN.UTF-8", "LANG": "de_DE.UTF-8"}, "zh"),
        ({"LC_ALL": "C.UTF-8", "LANG": "zh_CN.UTF-8"}, "en"),
        ({"LC_ALL": "en_GB.UTF-8", "LC_MESSAGES": "zh_CN.UTF-8"}, "en"),
        ({"LANG": "xx_YY.bad"}, "en"),
    ],
)
def test_the_language_is_the_locales(environ, expected):
    assert language(environ) == expected


def test_what_install_sh_sets_for_itself_does_not_count():
    environ = {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}
    assert language(environ, from_medium=True) == "zh"


def test_without_a_topic_all_are_listed(capsys):
    assert cli.main(["help"]) == 0
    shown = capsys.readouterr().out
    assert TITLES["en"] in shown
    assert all(f"\n  {name} " in shown for name in topics.NAMES)


def test_a_topic_is_shown_in_the_language_that_was_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert cli.main(["help", "audit"]) == 0
    assert capsys.readouterr().out.startswith(topics.topic("audit", "zh").title)
    assert cli.main(["--lang", "en", "help", "audit"]) == 0
    assert capsys.readouterr().out.startswith(topics.topic("audit", "en").title)


def test_the_record(capsys):
    assert cli.main(["help", "gpu", "--lang", "zh", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record) == {"topic", "lang", "text"}
    assert (record["topic"], record["lang"]) == ("gpu", "zh")
    assert cli.main(["help", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["topics"] == list(topics.NAMES)


def test_a_wrong_name_is_answered_with_near_ones(capsys):
    assert cli.main(["help", "docter"]) == 2
    assert "near: doctor" in capsys.readouterr().err


@pytest.mark.parametrize("locale", ["C", "xx_YY.bad"])
def test_chinese_under_any_locale(locale):
    # As bin/bundlectl and install.sh start it.
    done = subprocess.run(
        [sys.executable, "-B", "-X", "utf8", "-m", "bundlectl", "help", "gpu", "--lang", "zh"],
        env={"PYTHONPATH": environment()["PYTHONPATH"], "LC_ALL": locale, "PATH": os.defpath},
        capture_output=True,
        check=True,
    )
    assert "驱动" in done.stdout.decode("utf-8")
    assert done.stderr == b""


def test_a_reader_that_leaves_early_is_no_error():
    line = f"'{sys.executable}' -X utf8 -m bundlectl help doctor | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        env={"PYTHONPATH": environment()["PYTHONPATH"], "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("Doctor")
    assert done.stderr == ""
