"""The forms of an audit's answer: a reader of its kind reads each, and no name breaks one."""

import json
import os
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundlectl import arguments
from manifests import audit
from manifests.audit import forms, page, report
from manifests.audit.memory import Resumed
from manifests.audit.report import PROBLEMS, Finding, Report
from manifests.audit.sampling import Sampled

ROOT = Path(__file__).resolve().parents[2]
#: OASIS' own: https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/
SCHEMA = json.loads((ROOT / "tests/data/sarif-2.1.0.json").read_text("utf-8"))
SARIF = jsonschema.validators.validator_for(SCHEMA)(SCHEMA)
NASTY = "env/<b>&\"'\n\x1b[2J\udcff]]>.py"
SAMPLE = Sampled("seed", 5, 3000, 10, 6000)
PARTS = {"manifest_sha256": ("a" * 64,), "files": 12, "size": 345, "checked": 7}


def made(*findings: Finding, kind: str = report.INSTALLATION, path: str = "/opt/x y", **changes):
    return Report(kind, path, findings=findings, **{**PARTS, **changes})


REPORTS = {
    "intact": made(),
    "all problems": made(*(Finding(problem, "lib/x", "a", "b") for problem in PROBLEMS)),
    "nasty": made(Finding("extra", NASTY, "", NASTY), path=NASTY, risks=(NASTY,)),
    "sample": made(sample=SAMPLE),
    "broken sample": made(Finding("altered", "x"), sample=SAMPLE),
    "resumed": made(resumed=Resumed(3, 99, 1_700_000_000)),
    "media": made(
        Finding("altered", "the end of the archive", "512 zero bytes", "less"),
        Finding("altered", "NAME.tar.001", "a", "b"),
        kind="media",
        path="relative",
    ),
}


@pytest.fixture(params=REPORTS)
def answer(request) -> Report:
    return REPORTS[request.param]


def test_sarif_is_what_oasis_schema_asks_for(answer):
    log = json.loads(forms.render(answer, "sarif"))
    assert [error.message for error in SARIF.iter_errors(log)] == []
    (run,) = log["runs"]
    assert len(run["results"]) == len(answer.findings)
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    for result, finding in zip(run["results"], answer.findings, strict=True):
        assert rules[result["ruleIndex"]] == result["ruleId"] == finding.problem
        assert result["level"] == "error"
    assert run["invocations"][0]["exitCode"] == (0 if answer.clean else 1)
    assert run["properties"]["intact"] is answer.as_record()["intact"]
    for base in run["originalUriBaseIds"].values():
        assert base.get("uri", "file:///").startswith("file:///")
        assert base.get("uri", "/").endswith("/")  # 3.14.14


def test_sarif_names_files_as_files_and_members_as_members():
    first, second = json.loads(forms.render(REPORTS["media"], "sarif"))["runs"][0]["results"]
    assert first["locations"][0]["logicalLocations"][0]["kind"] == "member"
    location = second["locations"][0]["physicalLocation"]["artifactLocation"]
    assert location == {"uri": "NAME.tar.001", "uriBaseId": "PATH"}
    nasty = json.loads(forms.render(REPORTS["nasty"], "sarif"))["runs"][0]["results"][0]
    uri = nasty["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "env/%3Cb%3E%26%22%27%0A%1B%5B2J%FF%5D%5D%3E.py"


#: junit-10.xsd: attributes of each element, those that it needs, and what may lie in it.
JUNIT = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname"},
        {"name", "tests", "failures", "errors"},
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": (
        {"name", "time", "classname", "group"},
        {"name"},
        {"skipped", "error", "failure", "system-out", "system-err"},
    ),
    "failure": ({"type", "message"}, set(), set()),
    "error": ({"type", "message"}, set(), set()),
    "system-out": (set(), set(), set()),
}


def test_junit_keeps_the_rules_of_jenkins_schema(answer):
    root = ElementTree.fromstring(forms.render(answer, "junit").encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        may, must, inside = JUNIT[element.tag]
        assert must <= set(element.attrib) <= may
        assert {child.tag for child in element} <= inside
    (suite,) = root
    cases = suite.findall("testcase")
    assert int(suite.attrib["tests"]) == len(cases)
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure"))
    assert int(suite.attrib["errors"]) == len(suite.findall("testcase/error"))
    assert len(suite.findall("testcase/*")) == len(answer.findings)
    # each problem is a finding, or a case that passes
    assert {case.attrib["classname"].rpartition(".")[2] for case in cases} == set(PROBLEMS)
    if answer.sample:
        assert "seed: seed" in suite.findtext("system-out", "")


class Page(HTMLParser):
    """Checks that elements are closed in order, and keeps texts and attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.texts = [], set(), []

    def handle_starttag(self, tag, attrs):
        assert not any(name.startswith("on") or name in ("href", "src") for name, _ in attrs)
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.mark.parametrize("language", audit.LANGUAGES)
def test_the_page_stands_alone_and_says_what_the_text_says(answer, language):
    text = forms.render(answer, "html", language)
    found = Page()
    found.feed(text)
    found.close()
    assert found.open == []
    assert found.seen.isdisjoint({"script", "link", "img", "iframe", "object", "b"})
    assert "url(" not in text
    words = page._words()[language]
    told = "".join(found.texts)
    assert str(answer.checked) in told
    assert (words["intact"] in found.texts) is answer.intact
    assert (words["sample"] in found.texts) is (answer.clean and answer.sample is not None)
    assert told.count(words["mend"]) == bool(answer.mend)
    if answer.sample:
        assert all(chance in told for _, chance in answer.sample.proofs())
    if answer.resumed:
        assert "2023-11-14" in told


def test_the_page_has_the_same_words_in_both_languages():
    words = tomllib.loads((ROOT / "manifests/audit/page.toml").read_text("utf-8"))
    english, chinese = words["en"], words["zh"]
    assert english.keys() == chinese.keys()
    assert english["problems"].keys() == chinese["problems"].keys() == PROBLEMS.keys()
    for key in english:
        if key != "problems":
            fields = [
                sorted(part for part in "01234" if f"{{{part}}}" in one[key])
                for one in (english, chinese)
            ]
            assert fields[0] == fields[1], key


def test_a_sample_is_never_called_intact():
    for form in audit.FORMATS:
        text = forms.render(REPORTS["sample"], form)
        assert "sample intact" in text.lower() or form in ("json", "sarif")
        assert '"intact": true' not in text
    assert not REPORTS["sample"].intact
    assert REPORTS["sample"].as_record()["intact"] is None
    assert REPORTS["broken sample"].as_record()["intact"] is False
    assert REPORTS["sample"].text().startswith("sample intact: ")


def test_json_is_the_record_and_an_answer_is_the_same_each_time(answer):
    assert json.loads(forms.render(answer, "json")) == answer.as_record()
    for form in audit.FORMATS:
        text = forms.render(answer, form)
        assert text == forms.render(answer, form)
        assert text.endswith("\n")
        text.encode("utf-8", "strict" if form != "text" else "backslashreplace")


def test_bundlectl_knows_the_same_forms():
    assert arguments._FORMATS == audit.FORMATS


@settings(max_examples=30)
@given(st.text(max_size=40) | st.binary(max_size=40).map(os.fsdecode))
def test_no_name_breaks_a_form(name):
    answer = made(Finding("extra", f"x{name}", "", name), path=f"/x{name}")
    assert not list(SARIF.iter_errors(json.loads(forms.render(answer, "sarif"))))
    case = ElementTree.fromstring(forms.render(answer, "junit").encode()).find(".//testcase")
    assert case is not None
    found = Page()
    found.feed(forms.render(answer, "html"))
    found.close()
    assert found.open == []
