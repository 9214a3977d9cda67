import pytest

from bundlectl import auditrecord, cron
from bundlectl.layout import Layout
from manifests.audit.report import EXTRA, INSTALLATION, Finding, Report
from manifests.errors import IntegrityError


@pytest.fixture
def layout(tmp_path) -> Layout:
    made = Layout(tmp_path / "p")
    made.create()
    return made


def report(*findings: Finding) -> Report:
    return Report(INSTALLATION, "/p", ("0" * 64,), 12, 3456, findings)


def test_an_answer_is_kept(layout):
    assert auditrecord.load(layout).line() == ""
    auditrecord.keep(layout, report())
    kept = auditrecord.load(layout)
    assert (kept.intact, kept.files, kept.size, kept.count) == (True, 12, 3456, 0)
    assert kept.line() == "last recorded audit: intact, just now"
    auditrecord.keep(layout, report(*(Finding(EXTRA, f"f{n}") for n in range(150))))
    kept = auditrecord.load(layout)
    assert (kept.intact, kept.count, len(kept.findings)) == (False, 150, 100)
    assert kept.line().startswith("last recorded audit: NOT intact: 150 findings, ")
    assert kept.findings[0] == "extra: f0"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (-5, "by a clock that was ahead"),
        (30, "just now"),
        (600, "10 minutes ago"),
        (3 * 3600, "3 hours ago"),
        (40 * 3600, "40 hours ago"),
        (5 * 86400, "5 days ago"),
    ],
)
def test_its_age_is_told(layout, seconds, told):
    auditrecord.keep(layout, report())
    kept = auditrecord.load(layout)
    assert kept.line(kept.finished + seconds).endswith(told)


def test_a_damaged_answer_is_told(layout):
    auditrecord.path_of(layout).write_text("{}")
    with pytest.raises(IntegrityError, match=r"audit\.json: damaged"):
        auditrecord.load(layout)


def test_instances_share_one_answer(layout):
    auditrecord.keep(Layout(layout.prefix, "two"), report())
    assert auditrecord.load(layout).intact


def test_lines_of_cron_are_whole(tmp_path):
    layout = Layout(tmp_path / "100% o'clock")
    start, audit = cron.lines(layout, "weekly")
    assert start.startswith("@reboot ")
    assert "100\\% o" in start
    minute, hour, *days, _ = audit.split(" ", 5)
    assert 0 <= int(minute) < 60
    assert 1 <= int(hour) <= 5
    assert days == ["*", "*", "0"]
    assert cron.lines(layout) == (start,)
    assert cron.lines(layout, "daily")[1].split()[4] == "*"
