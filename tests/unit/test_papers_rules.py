"""The rules that `bundle create` is given: read before anything long, judged on the bill."""

from dataclasses import replace
from pathlib import Path

import pytest

from bundler.papers import rules
from bundler.papers.bill import WHEEL
from bundler.request import Request
from manifests.errors import UsageError
from tests.support.bills import bill


def request(**named):
    return Request(gpu="cpu", model="m", output=Path(), channel="host", **named)


def test_without_rules_nothing_is_judged():
    assert rules.load(request()) == rules.NONE
    assert rules.enforce(bill(), rules.NONE) == ()


def test_a_threshold_needs_a_database():
    with pytest.raises(UsageError, match="--fail-on"):
        rules.load(request(fail_on="high"))


@pytest.mark.parametrize("what", ["licence_policy", "vulns_database"])
def test_a_file_that_is_missing_or_wrong_is_told_before_the_work(tmp_path, what):
    for path in (tmp_path / "missing", tmp_path / "wrong"):
        (tmp_path / "wrong").write_text("[[[")
        with pytest.raises(UsageError, match=path.name):
            rules.load(request(**{what: path}))


def test_a_policy_stops_and_lets_through(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text('deny = ["*"]\n')
    with pytest.raises(UsageError, match="denied") as stopped:
        rules.enforce(bill(), rules.load(request(licence_policy=path)))
    assert len(stopped.value.findings) > 1
    path.write_text('ask = ["*"]\n')
    with pytest.raises(UsageError):
        rules.enforce(bill(), rules.load(request(licence_policy=path)))
    accepted = rules.load(request(licence_policy=path, accept_licences=True))
    assert rules.enforce(bill(), accepted)


def test_known_vulnerabilities_are_counted_and_stop_from_a_level_on():
    database = Path("tests/data/vulns/osv")
    (told,) = rules.enforce(bill(), rules.load(request(vulns_database=database)))
    assert told.startswith("known vulnerabilities on 20")
    torch = replace(bill().components[0], kind=WHEEL, name="torch", version="2.5.1")
    old = replace(bill(), components=(torch,))
    with pytest.raises(UsageError, match="known vulnerabilities at or above"):
        rules.enforce(old, rules.load(request(vulns_database=database, fail_on="any")))
