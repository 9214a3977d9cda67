"""The rules that `bundle create` is given: read before anything long, judged on the bill."""

from dataclasses import replace
from pathlib import Path

import pytest

from bundler.papers import rules, vulns
from bundler.papers.bill import WHEEL
from bundler.request import Request
from manifests.errors import UsageError
from tests.support.bills import bill

DATABASE = Path(__file__).parents[1] / "data/vulns/osv"
NOVEMBER = "1793491200"  # 2026-11-01


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


@pytest.mark.parametrize(
    ("named", "option"),
    [({"accept_licences": True}, "--accept-licences"), ({"vulns_ignore": Path("x")}, "--vulns-ig")],
)
def test_an_option_without_what_it_is_about_is_refused(named, option):
    with pytest.raises(UsageError, match=option):
        rules.load(request(**named))


def with_torch():
    torch = replace(bill().components[0], kind=WHEEL, name="torch", version="2.5.1")
    return replace(bill(), components=(torch,))


def test_known_vulnerabilities_are_counted_and_stop_from_a_level_on(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", NOVEMBER)
    (told,) = rules.enforce(bill(), rules.load(request(vulns_database=DATABASE)))
    assert told.startswith("known vulnerabilities on 2026-10-30T00:00:00Z: none; 8 of 11 packages")
    assert "models' files not looked into" in told
    with pytest.raises(UsageError, match="known vulnerabilities at or above"):
        rules.enforce(with_torch(), rules.load(request(vulns_database=DATABASE, fail_on="any")))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(int(NOVEMBER) + 60 * 86400))
    (told,) = rules.enforce(bill(), rules.load(request(vulns_database=DATABASE)))
    assert "2026-10-30T00:00:00Z, 62 days before: none" in told


def test_a_database_that_was_made_for_another_bundle_passes_no_threshold(tmp_path):
    path = tmp_path / "osv.json"
    path.write_bytes(vulns.make_database(DATABASE, {"vllm"}).dump())
    (told,) = rules.enforce(with_torch(), rules.load(request(vulns_database=path)))
    assert "0 of 1 packages compared" in told
    with pytest.raises(UsageError, match="not made for 1 of its packages") as stopped:
        rules.enforce(with_torch(), rules.load(request(vulns_database=path, fail_on="critical")))
    assert stopped.value.findings == ("torch 2.5.1",)


def test_an_old_lock_revives_no_exception(monkeypatch, tmp_path):
    """The bill is of 2025-12-01; what was ignored and pardoned until 2026 no longer is."""
    ignored, policy = tmp_path / "ignored.toml", tmp_path / "policy.toml"
    entry = '[[ignore]]\nid = "CVE-2025-32434"\nreason = "r"\nexpires = 2026-01-31\n'
    ignored.write_text(entry + entry.replace("2025-32434", "2024-48063"))
    policy.write_text(
        'deny = ["*"]\n[exceptions."wheel/torch"]\nreason = "r"\nuntil = 2026-01-31\n'
    )
    both = (
        request(vulns_database=DATABASE, vulns_ignore=ignored, fail_on="any"),
        request(licence_policy=policy),
    )
    for one in both:
        monkeypatch.setenv("SOURCE_DATE_EPOCH", str(bill().created))
        rules.enforce(with_torch(), rules.load(one))
        monkeypatch.setenv("SOURCE_DATE_EPOCH", NOVEMBER)
        with pytest.raises(UsageError):
            rules.enforce(with_torch(), rules.load(one))
