"""Dumps of the OSV schema, reduced; compared with the schema's own rule and with pip-audit's."""

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.version import Version

from bundler.papers import vulns, vulns_osv, vulns_severity
from bundler.papers.vulns_severity import Severity
from manifests.errors import UsageError
from manifests.vulns import UNKNOWN, Interval
from manifests.vulns_match import affects, covered
from manifests.vulns_versions import key

DATA = Path(__file__).parents[1] / "data/vulns"


def zipped(folder, target):
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, path.relative_to(folder).as_posix())
    return target


@pytest.fixture(scope="module")
def osv(tmp_path_factory):
    """OSV's own form: a zip of JSON files."""
    return zipped(DATA / "osv", tmp_path_factory.mktemp("osv") / "all.zip")


@pytest.fixture(scope="module")
def known(osv):
    return vulns.make_database(osv)


def by_id(database):
    return {one.id: one for one in database.vulnerabilities}


# What comes out


def test_a_dump_is_dated_by_its_newest_record(known, osv):
    assert known.date == "2026-10-30T00:00:00Z"
    assert known.source == "all.zip"
    assert known.records == 12  # not the withdrawn one, not that of another ecosystem
    assert known == vulns.make_database(osv)
    assert not {"TEST-withdrawn", "TEST-elsewhere"} & set(by_id(known))


def test_aliases_become_one(known):
    torch = [one for one in known.vulnerabilities if one.package == "torch"]
    assert [(one.id, one.aliases) for one in torch] == [
        ("PYSEC-2024-259", ("CVE-2024-48063",)),
        ("PYSEC-2025-41", ("CVE-2025-32434", "GHSA-53q9-r3pm-6pq6")),
    ]
    # The level comes from one of the two records, and so does the text.
    merged = torch[1]
    assert (merged.level, merged.score) == ("critical", "9.3")
    assert merged.vector.startswith("CVSS:4.0/")
    assert merged.intervals == (Interval(fixed="2.6.0"),)
    assert merged.fixed == ("2.6.0",)


def test_of_what_the_intervals_have_no_version_is_listed(known):
    assert all(not one.versions for one in known.vulnerabilities)
    assert by_id(known)["PYSEC-2025-216"].intervals == (Interval(last="4.57.0"),)


def test_a_record_of_commits_alone_is_kept_without_versions(known):
    one = by_id(known)["TEST-commits"]
    assert one.intervals == ()
    assert not affects(one, "0.19.1")


def test_levels(known):
    levels = {one.id: one.level for one in known.vulnerabilities}
    assert levels["PYSEC-2026-4344"] == "medium"
    assert levels["PYSEC-2026-2300"] == UNKNOWN
    assert levels["CVE-2025-47277"] == "critical"
    assert levels["CVE-2026-22807"] == "high"


def test_a_malicious_package_is_as_bad_as_can_be(tmp_path):
    record = json.loads((DATA / "osv/PYSEC-2025-216.json").read_text()) | {"id": "MAL-2025-1"}
    (tmp_path / "x.json").write_text(json.dumps(record))
    (one,) = vulns.make_database(tmp_path).vulnerabilities
    assert one.level == "critical"


def test_summaries_are_one_short_line(known):
    for one in known.vulnerabilities:
        assert "\n" not in one.summary
        assert len(one.summary) <= 240


def test_only_some_packages(osv):
    known = vulns.make_database(osv, {"torch", "numpy"})
    assert {one.package for one in known.vulnerabilities} == {"torch"}
    assert known.packages == ("numpy", "torch")
    assert known.records == 12
    assert not known.covers("vllm")


def test_the_same_records_in_a_folder(known):
    folder = vulns.make_database(DATA / "osv")
    assert folder.vulnerabilities == known.vulnerabilities
    assert folder.source == "osv"


def test_the_digest_of_a_folder_is_that_of_what_sha256sum_prints(tmp_path):
    import subprocess

    folder = vulns.make_database(DATA / "osv")
    command = "find . -name '*.json' -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    done = subprocess.run(
        ["sh", "-c", command], cwd=DATA / "osv", capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == folder.source_sha256


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_pypa_s_repository(tmp_path, form):
    """YAML, in which versions and times stay texts; what lies beside the records is none."""
    root = tmp_path / "advisory-database-main"
    shutil.copytree(DATA / "pypa", root)
    (root / ".github").mkdir()
    (root / ".github/workflow.yaml").write_text("on: push\n")
    made = vulns.make_database(root if form == "folder" else zipped(tmp_path, tmp_path / "z.zip"))
    assert [one.id for one in made.vulnerabilities] == ["PYSEC-2022-43015", "PYSEC-2023-300"]
    assert made.date == "2024-11-21T14:23:01Z"
    assert made.vulnerabilities[0].intervals == (Interval(fixed="1.13.1"),)


def test_versions_that_look_like_numbers(tmp_path):
    text = (DATA / "pypa/vulns/transformers/PYSEC-2023-300.yaml").read_text()
    (tmp_path / "x.yaml").write_text(text.replace("4.36.0", "1.10").replace('- "0.1"', "- 1.20"))
    (one,) = vulns.make_database(tmp_path).vulnerabilities
    assert one.intervals == (Interval(fixed="1.10"),)
    assert "1.20" in one.versions


# The schema's rule

VERSIONS = ("0.9", "1.0.dev1", "1.0rc1", "1.0", "1.0.post1", "1.1", "1.1+cpu", "1.10", "2.0")
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["introduced", "introduced", "fixed", "last_affected"]),
        st.sampled_from([v for v in VERSIONS if "+" not in v]),
    ),
    max_size=5,
    unique_by=lambda one: one[1],
)


def rule(events, version):
    """IncludedInRanges of https://ossf.github.io/osv-schema/#evaluation, by packaging's order."""
    public = Version(Version(version).public)
    vulnerable = False
    first = [one for one in events if one[1] == "0"]
    for kind, bound in [*first, *sorted(events, key=lambda one: Version(one[1]))]:
        if kind == "introduced" and (bound == "0" or public >= Version(bound)):
            vulnerable = True
        if kind == "fixed" and public >= Version(bound):
            vulnerable = False
        if kind == "last_affected" and public > Version(bound):
            vulnerable = False
    return vulnerable


@settings(deadline=None)
@given(events=EVENTS, zero=st.booleans())
def test_intervals_are_what_the_schema_says(events, zero):
    events = [("introduced", "0"), *events] if zero else events
    spans = tuple(vulns_osv.intervals([{kind: version} for kind, version in events]))
    for version in VERSIONS:
        assert covered(version, spans) == rule(events, version), (events, version, spans)


@pytest.mark.parametrize(
    "events",
    [
        "introduced 0, fixed 1.0-foo",
        "introduced 0, last_affected abc",
        "introduced 0, fixed 1.0, introduced abc, fixed 2",
        "introduced 0, last_affected 1.5, introduced 1.5, fixed 2",
        "introduced 1.0, fixed 1.5, introduced 1.5",
        "introduced 1.5, introduced 1.0, fixed 1.5",
    ],
)
def test_no_range_is_lost(events):
    """Bounds that are no versions bound nothing; what ends where the next begins ends before it."""
    spans = tuple(vulns_osv.intervals([dict([one.split()]) for one in events.split(", ")]))
    assert covered("1.7", spans), spans


def test_a_range_of_one_version_ends_with_it():
    events = "fixed 1.5, introduced 1.0, introduced 1.5, last_affected 1.5"
    spans = tuple(vulns_osv.intervals([dict([one.split()]) for one in events.split(", ")]))
    assert spans == (Interval("1.0", fixed="1.5"), Interval("1.5", last="1.5"))


def test_records_beside_pypa_s_repository_are_read(tmp_path):
    shutil.copytree(DATA / "pypa", tmp_path / "both/pypa")
    (tmp_path / "both/osv").mkdir()
    shutil.copy(DATA / "osv/PYSEC-2025-41.json", tmp_path / "both/osv")
    made = vulns.make_database(tmp_path / "both")
    assert {"PYSEC-2025-41", "PYSEC-2023-300"} <= set(by_id(made))
    assert made.records == 3


# What is refused


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"schema_version": "2.0.0"}, "schema_version 2.0.0"),
        ({"modified": "yesterday"}, "modified 'yesterday'"),
        ({"modified": None}, "TypeError"),
        ({"id": 1}, "1 is no text"),
        ({"aliases": "CVE-1"}, "aliases is no list"),
        ({"affected": [{"package": {"ecosystem": "PyPI"}}]}, "KeyError"),
        ({"affected": ["torch"]}, "AttributeError"),
        (
            {"affected": [{"package": {"ecosystem": "PyPI", "name": "x"}, "ranges": [{}]}]},
            "KeyError",
        ),
    ],
)
def test_a_record_of_another_form(tmp_path, change, told):
    record = json.loads((DATA / "osv/PYSEC-2024-259.json").read_text()) | change
    (tmp_path / "x.json").write_text(json.dumps(record))
    with pytest.raises(UsageError, match=r"x\.json: not a record") as caught:
        vulns.make_database(tmp_path)
    assert told in caught.value.what


@pytest.mark.parametrize("content", ["[]", "1", "null", '"x"'])
def test_files_that_are_no_records(tmp_path, content):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(UsageError, match="not a record"):
        vulns.make_database(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [("x.json", b"{"), ("x.json", b"\xff"), ("x.yaml", b"a: [1"), ("x.json", b"[" * 100_000)],
)
def test_a_damaged_record(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match="damaged"):
        vulns.make_database(tmp_path)


def test_a_dump_that_is_none(tmp_path, osv):
    text = tmp_path / "notes.txt"
    text.write_text("notes")
    empty = tmp_path / "empty"
    empty.mkdir()
    cut = tmp_path / "cut.zip"
    cut.write_bytes(osv.read_bytes()[:-300])
    flipped = bytearray(osv.read_bytes())
    flipped[600] ^= 255
    bad = tmp_path / "bad.zip"
    bad.write_bytes(flipped)
    for path in (text, empty, cut, bad, tmp_path / "none"):
        with pytest.raises(UsageError) as caught:
            vulns.make_database(path)
        assert caught.value.mend


def test_a_dump_of_another_ecosystem(tmp_path):
    shutil.copy(DATA / "osv/TEST-elsewhere.json", tmp_path)
    with pytest.raises(UsageError, match="no record of PyPI"):
        vulns.make_database(tmp_path)


# Levels


@pytest.mark.parametrize(
    ("stated", "specific", "expected"),
    [
        ([], {}, (UNKNOWN, "")),
        ([], {"severity": "MODERATE"}, ("medium", "")),
        ([], {"severity": "Critical"}, ("critical", "")),
        ([], {"severity": 9}, (UNKNOWN, "")),
        ([("CVSS_V3", "nonsense")], {"severity": "LOW"}, ("low", "")),
        ([("CVSS_V3", "CVSS:3.1/AV:N")], {}, (UNKNOWN, "")),
        ([("Ubuntu", "high")], {}, (UNKNOWN, "")),
        ([("CVSS_V3", "CVSS:3.0/AV:N/AC:L/PR:N/UI:N/S:U/C:N/I:N/A:N")], {}, ("low", "0.0")),
        ([("CVSS_V2", "AV:N/AC:L/Au:N/C:P/I:P/A:P")], {}, ("high", "7.5")),
        (
            [
                ("CVSS_V3", "CVSS:3.1/AV:N/AC:L/PR:L/UI:N/S:U/C:N/I:N/A:H"),
                ("CVSS_V4", "CVSS:4.0/AV:N/AC:L/AT:N/PR:N/UI:N/VC:H/VI:H/VA:H/SC:N/SI:N/SA:N"),
            ],
            {"severity": "LOW"},
            ("critical", "9.3"),
        ),
    ],
)
def test_severity(stated, specific, expected):
    found = vulns_severity.of([{"type": t, "score": s} for t, s in stated], specific)
    assert (found.level, found.score) == expected


def test_the_worst_of_none():
    assert vulns_severity.worst([]) == Severity()


def test_versions_of_every_interval_are_versions(known):
    for one in known.vulnerabilities:
        for span in one.intervals:
            for text in (span.introduced, span.fixed, span.last):
                assert not text or key(text) is not None
