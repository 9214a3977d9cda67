"""The database, the rule, the list of ignored ones, and the report."""

import dataclasses
import datetime

import pytest

from manifests import vulns, vulns_ignores, vulns_text
from manifests.errors import UsageError
from manifests.vulns import Database, Interval, Vulnerability
from manifests.vulns_ignores import Ignore
from manifests.vulns_judge import Question, Scan, judge
from manifests.vulns_match import Package, affects, matches
from manifests.vulns_packages import CONDA, WHEEL, Contents, Item, Unseen, sort_out
from manifests.vulns_report import Finding

TODAY = datetime.date(2026, 12, 1)
VLLM = Vulnerability(
    "vllm",
    "PYSEC-2026-4344",
    "2026-10-29T11:00:02Z",
    ("CVE-2026-115911", "GHSA-542m-9234-8gvf"),
    "a chat template without a limit",
    "medium",
    "6.5",
    "CVSS:3.1/AV:N/AC:L/PR:L/UI:N/S:U/C:N/I:N/A:H",
    (Interval("0.19.0", "0.32.0"),),
)
UNRATED = Vulnerability(
    "torch", "PYSEC-2025-191", "2026-01-01T00:00:00Z", intervals=(Interval(last="2.7.0"),)
)
KNOWN = Database(1, "2026-10-29T11:00:02Z", "all.zip", "a" * 64, 17000, (UNRATED, VLLM))
CONTENTS = Contents(
    "small",
    "b" * 64,
    (
        Item(WHEEL, "torch", "2.7.0+cpu", "environment"),
        Item(WHEEL, "vllm", "0.19.1", "environment"),
    ),
)


def question(known=KNOWN, today=TODAY, threshold="", ignores=(), unknown_as="high"):
    return Question(known, today, threshold, tuple(ignores), unknown_as)


def report(ignores=(), *, pickles=(), **changes):
    scan = Scan(("m/w.bin",), tuple(pickles))
    return judge(CONTENTS, question(ignores=ignores, **changes), matches, scan)


# The database


def test_a_database_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "osv.json"
    path.write_bytes(KNOWN.dump())
    assert vulns.load(path) == KNOWN


def changed(**changes):
    return dataclasses.replace(KNOWN, **changes).dump()


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"PK\x03\x04", "a zip file"),
        (b"", "damaged"),
        (b"\xff", "damaged"),
        (KNOWN.dump()[:-20], "damaged"),
        (KNOWN.dump().replace(b"6.5", b"6.4").replace(b",", b", ", 1), "damaged"),
        (b'{"schema":2}\n', "schema 2"),
        (b'{"date":"x"}\n', "damaged"),
        (b"[]\n", "damaged"),
        (changed(date="yesterday"), "the date"),
        (changed(date="2026-13-01T00:00:00Z"), "damaged"),
        (changed(source_sha256="0"), "the digest"),
        (changed(vulnerabilities=(VLLM, UNRATED)), "out of order"),
        (changed(vulnerabilities=(VLLM, VLLM)), "twice"),
        (changed(vulnerabilities=(dataclasses.replace(VLLM, level="bad"),)), "the level"),
    ],
)
def test_a_damaged_database_is_refused(tmp_path, data, told):
    path = tmp_path / "osv.json"
    path.write_bytes(data)
    with pytest.raises(UsageError, match=told) as caught:
        vulns.load(path)
    assert caught.value.mend


def test_a_missing_database(tmp_path):
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(UsageError) as caught:
            vulns.load(path)
        assert "vulns-database" in caught.value.mend


def test_an_old_database_is_told_or_refused():
    later = TODAY + datetime.timedelta(days=40)
    old = report(today=later)
    assert old.database.age == 73
    assert old.as_record()["old"]
    told = vulns_text.render(old)
    assert "73 days old" in told
    assert "The database is old" in told
    question(today=later).check_age(None)
    question(today=later).check_age(73)
    with pytest.raises(UsageError, match="73 days old, and 72 are allowed"):
        question(today=later).check_age(72)


def test_a_clock_that_is_behind_is_told():
    early = report(today=datetime.date(2026, 1, 1))
    assert "is the date right?" in vulns_text.render(early)


# The rule


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("0.18.1", False),
        ("0.19.0", True),
        ("0.19.1", True),
        ("0.31.0.post1", True),
        ("0.32.0rc1", True),  # before the release that mends it
        ("0.32.0", False),
        ("0.32.0+cpu", False),
        ("nonsense", False),
    ],
)
def test_an_interval(version, affected):
    assert affects(VLLM, version) is affected


def test_a_bound_that_is_no_version_bounds_nothing():
    for span in (Interval(fixed="1.0-foo"), Interval(last="abc"), Interval("abc", fixed="2")):
        assert affects(dataclasses.replace(VLLM, intervals=(span,)), "1.7")


def test_local_builds_are_the_versions_that_they_are_of():
    assert affects(UNRATED, "2.7.0+cu128")
    assert not affects(UNRATED, "2.7.1+cu128")
    listed = dataclasses.replace(UNRATED, intervals=(), versions=("2.5.1",))
    assert affects(listed, "2.5.1+cpu")
    assert not affects(listed, "2.5.0")


def test_what_is_compared_and_what_is_not():
    packages, unseen = sort_out(
        [
            Item(WHEEL, "torch", "2.7.0", "runtime"),
            Item(WHEEL, "torch", "2.7.0", "environment"),
            Item(WHEEL, "odd", "2004d", "environment"),
            Item(CONDA, "openssl", "3.6.0", "environment", "openssl-3.6.0-h26f9b46_0.conda"),
            Item(CONDA, "Py_YAML", "6.0", "environment", "py_yaml-6.0-py312h66e93f0_2.conda"),
            Item(CONDA, "tqdm", "4.67", "runtime", "tqdm-4.67-pyhd8ed1ab_1.tar.bz2"),
        ]
    )
    assert packages == (
        Package("py-yaml", "6.0", ("environment",)),
        Package("torch", "2.7.0", ("environment", "runtime")),
        Package("tqdm", "4.67", ("runtime",)),
    )
    assert unseen == (
        Unseen("conda", "openssl", "3.6.0"),
        Unseen("version", "odd", "2004d"),
    )


# The report


def test_the_worst_comes_first_and_what_nobody_rates_is_high():
    found = report()
    assert [(one.id, one.level, one.stated) for one in found.findings] == [
        ("PYSEC-2025-191", "high", False),
        ("PYSEC-2026-4344", "medium", True),
    ]
    assert "nobody says how bad it is; counted as high" in vulns_text.render(found)
    assert [one.level for one in report(unknown_as="low").findings] == ["medium", "low"]


@pytest.mark.parametrize(
    ("threshold", "over"), [("", 0), ("any", 2), ("low", 2), ("medium", 2), ("high", 1)]
)
def test_thresholds(threshold, over):
    found = report(threshold=threshold)
    assert len(found.over) == over
    if not over:
        found.check()
        return
    with pytest.raises(UsageError, match=f"{over} known vulnerabilities") as caught:
        found.check()
    assert "high: torch 2.7.0+cpu: PYSEC-2025-191" in caught.value.findings
    assert "--ignore" in caught.value.mend


def test_an_ignored_one_does_not_count_until_its_day_has_passed():
    ignore = Ignore("CVE-2026-115911", "templates of requests are off", "2026-12-01")
    found = report([ignore], threshold="medium")
    assert [one.finding.id for one in found.ignored] == ["PYSEC-2026-4344"]
    assert [one.id for one in found.over] == ["PYSEC-2025-191"]
    assert "templates of requests are off" in vulns_text.render(found)
    expired = dataclasses.replace(ignore, expires="2026-11-30")
    found = report([expired], threshold="medium")
    assert found.expired == (expired,)
    assert not found.ignored
    assert len(found.over) == 2
    assert "counts again" in vulns_text.render(found)


def test_an_ignored_one_that_is_nowhere_is_told():
    ignore = Ignore("CVE-2000-1", "who knows", "2027-01-01")
    found = report([ignore])
    assert found.idle == (ignore,)
    assert "not found in this bundle:\n  - CVE-2000-1" in vulns_text.render(found)


def test_what_a_database_for_another_bundle_does_not_know_is_told():
    known = dataclasses.replace(KNOWN, packages=("vllm",), vulnerabilities=(VLLM,))
    found = report(known=known)
    assert found.compared == 1
    assert Unseen("database", "torch", "2.7.0+cpu") in found.unseen
    assert "make it with --for this bundle" in vulns_text.render(found)


def test_records_without_versions_are_told():
    vague = dataclasses.replace(VLLM, id="TEST-commits", aliases=(), intervals=())
    found = report(known=dataclasses.replace(KNOWN, vulnerabilities=(UNRATED, VLLM, vague)))
    assert Unseen("ranges", "vllm", "TEST-commits") in found.unseen
    assert len(found.findings) == 2


def test_pickles_are_findings_like_others():
    bad = Finding("pickle", "m", "1", "pickle:m/w.bin", "critical", summary="os.system", why="runs")
    found = report(pickles=[bad], threshold="critical")
    assert found.over == (bad,)
    assert "runs when it is loaded: os.system" in vulns_text.render(found)
    assert "加载时会执行" in vulns_text.render(found, "zh")
    ignore = Ignore(bad.id, "looked at by hand", "2027-01-01")
    assert not report([ignore], pickles=[bad], threshold="critical").over


def test_a_record():
    record = report(threshold="high").as_record()
    assert record["over"] == ["PYSEC-2025-191"]
    assert record["passes"] is False
    assert record["counts"] == {"critical": 0, "high": 1, "medium": 1, "low": 0}
    assert record["database"]["date"] == KNOWN.date
    assert record["ignored"] == []


def test_both_languages_say_everything():
    for key, texts in vulns_text._words().items():
        assert len(texts) == 2, key
        assert all(texts), key
    told = vulns_text.render(report(threshold="high"), "zh")
    assert "高  torch 2.7.0+cpu  PYSEC-2025-191" in told
    assert "未检查的内容" in told


def test_files_that_nobody_scanned_are_not_called_harmless():
    scan = Scan(unseen=(Unseen("remote", "m/modeling.py"), Unseen("unread", "m/model.h5")))
    told = vulns_text.render(judge(CONTENTS, question(), matches, scan))
    assert "nobody has judged it: m/modeling.py" in told
    assert "could not be read as pickles: m/model.h5" in told
    assert "All files of the models" not in told
    assert "All files of the models" in vulns_text.render(
        judge(CONTENTS, question(), matches, Scan())
    )


def test_compile_caches_are_among_what_is_never_looked_at():
    assert "compile caches" in vulns_text.render(report())
    assert "编译缓存" in vulns_text.render(report(), "zh")


def test_names_can_not_break_a_line():
    found = dataclasses.replace(report(), name="a\nb\x1b[0m")
    assert "a\\nb\\x1b[0m" in vulns_text.render(found)
    odd = Finding("package", "x", "1", "CVE\x1b[2J", "high", ("a\nb",), fixed=("1\n2",))
    told = vulns_text.render(dataclasses.replace(found, findings=(odd,))) + odd.text()
    assert "\x1b" not in told
    assert "a\\nb" in told


# The list of ignored ones


def test_a_list():
    text = '[[ignore]]\nid = "CVE-1"\nreason = "  looked\\n at "\nexpires = 2027-03-31\n'
    (one,) = vulns_ignores.parse(text, "x")
    assert one == Ignore("CVE-1", "looked at", "2027-03-31")
    assert one.holds(datetime.date(2027, 3, 31))
    assert not one.holds(datetime.date(2027, 4, 1))
    assert vulns_ignores.parse("", "x") == ()


ENTRY = '[[ignore]]\nid = "CVE-1"\nreason = "r"\nexpires = 2027-03-31\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ignore = [", "not TOML"),
        (f"x = {'9' * 5000}", "not TOML"),
        (f"x = {'[' * 5000}", "not TOML"),
        ("ignored = []", "ignored is not understood"),
        ("ignore = 1", "ignore is not understood"),
        ("ignore = [1]", "not a table"),
        (ENTRY.replace('reason = "r"\n', ""), "no reason"),
        (ENTRY.replace('"r"', '"  "'), "no reason"),
        (ENTRY.replace('"CVE-1"', "1"), "no id"),
        (ENTRY.replace("expires = 2027-03-31\n", ""), "expires is no day"),
        (ENTRY.replace("2027-03-31", '"2027-03-31"'), "expires is no day"),
        (ENTRY.replace("2027-03-31", "2027-03-31T00:00:00Z"), "expires is no day"),
        (ENTRY + "until = 1\n", "until is not understood"),
        (ENTRY + ENTRY, "twice"),
    ],
)
def test_a_wrong_list_is_refused(text, told):
    with pytest.raises(UsageError) as caught:
        vulns_ignores.parse(text, "x.toml")
    error = caught.value
    assert told in f"{error.what} {' '.join(error.findings)}"
    assert "[[ignore]]" in error.mend


def test_a_list_that_can_not_be_read(tmp_path):
    (tmp_path / "odd").write_bytes(b"\xff")
    for path in (tmp_path / "none", tmp_path / "odd", tmp_path):
        with pytest.raises(UsageError):
            vulns_ignores.load(path)
