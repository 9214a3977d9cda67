"""`bundle licences` on a bundle that `bundle create` made, and on its installation."""

import json

import pytest
from click.testing import CliRunner

from bundler.commands.licences import command
from manifests.errors import BundleError
from manifests.exitcodes import ExitCode
from tests.support.small import bundle

LENIENT = 'allow = ["*", "permissive", "weak copyleft", "strong copyleft"]\nask = ["unknown"]\n'


def asked(*words):
    """The exit code, what is printed, and the error: without the start of another Python."""
    done = CliRunner().invoke(command, list(map(str, words)), standalone_mode=False)
    if done.exception is not None:
        assert isinstance(done.exception, BundleError), done.exception
        return done.exception.exit_code, done.stdout, done.exception.render()
    return done.return_value, done.stdout, ""


def test_a_bundle_and_its_installation_have_the_same_licences(small_bundle, host):
    answers = [bundle("licences", str(place), "--json") for place in (small_bundle, host)]
    assert answers[0].stdout == answers[1].stdout
    assert answers[0].returncode == answers[1].returncode == ExitCode.OK
    record = json.loads(answers[0].stdout)
    by_name = {one["name"]: one for one in record["components"]}
    assert "stub-vllm" in by_name and "python" in by_name
    assert sum(record["families"].values()) == len(record["components"])
    assert record["texts"] and any("GPL-3.0" in one["licences"] for one in record["texts"])


@pytest.mark.parametrize("kind", ["html", "md"])
def test_a_report_is_written(small_bundle, tmp_path, kind):
    report = tmp_path / f"licences.{kind}"
    words = ("--format", kind, "--language", "zh", "--output", report)
    code, printed, _ = asked(small_bundle, *words)
    assert code == ExitCode.OK
    assert f"written: {report}" in printed
    content = report.read_text("utf-8")
    assert "许可证" in content and small_bundle.name.partition("+")[0] in content
    assert "GNU GENERAL PUBLIC LICENSE" in content
    assert str(tmp_path) not in content and str(small_bundle) not in content


def test_a_policy_decides_how_it_ends(small_bundle, tmp_path):
    policy = tmp_path / "policy.toml"
    words = (small_bundle, "--policy", policy)
    policy.write_text(LENIENT)
    code, printed, error = asked(*words)
    assert code == ExitCode.USAGE
    assert "--accept-licences" in error and "  - ask: " in error
    assert small_bundle.name in printed  # the report is told all the same
    words = (*words, "--accept-licences")
    assert asked(*words)[0] == ExitCode.OK
    policy.write_text(LENIENT + 'deny = ["conda/python"]\n')
    code, printed, _ = asked(*words, "--json")
    assert code == ExitCode.USAGE
    components = json.loads(printed)["components"]
    denied = {one["name"] for one in components if one["policy"]["verdict"] == "deny"}
    assert denied == {"python"}
    policy.write_text(
        f'{LENIENT}deny = ["conda/python"]\n[exceptions."conda/python"]\nreason = "needed"\n'
        "until = 2030-01-01\n"
    )
    code, _, error = asked(*words, "--today", "2030-01-02")
    assert code == ExitCode.USAGE
    assert "its exception ended on 2030-01-01" in error


def test_bad_input(small_bundle, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('allow = ["MTI"]\n')
    code, printed, error = asked(small_bundle, "--policy", policy)
    assert code == ExitCode.USAGE and not printed
    assert "'MTI' fits no licence" in error
    code, _, error = asked(small_bundle, "--accept-licences")
    assert code == ExitCode.USAGE and "--policy" in error
    assert asked(tmp_path)[0] == ExitCode.USAGE
    code, _, error = asked(small_bundle, "--output", tmp_path / "none" / "report")
    assert code == ExitCode.FILESYSTEM
