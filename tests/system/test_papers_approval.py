"""Approval and installation record: of a bundle that `bundle create` made, and in a browser."""

import base64
import json
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundler.commands import compare_records, record
from bundler.papers.approvalpictures import draw
from manifests import approval, approvalpage
from manifests.approval import Licences
from manifests.audit import audit_installation
from manifests.exitcodes import ExitCode
from tests.support.approvals import an_approval, an_installation
from tests.support.scratch import scratch
from tests.support.small import control, install
from tests.system.test_plan_browser import CHROMIUM, CONTRAST, Browser

in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium (Debian: chromium)")
#: A page of A4 without its margins, in CSS pixels of 1/96 inch (approval.css).
WIDTH, HEIGHT = (210 - 22) / 25.4 * 96, (297 - 16) / 25.4 * 96


def run(command, *words):
    return command.main([str(word) for word in words], standalone_mode=False)


@pytest.fixture(scope="module")
def installed(small_bundle, tmp_path_factory) -> Iterator[Path]:
    """An installation that was never started."""
    with scratch(tmp_path_factory, "approved") as root:
        done = install(small_bundle, "--prefix", str(root / "prefix"), "--no-start")
        assert done.returncode == 0, done.stderr
        yield root / "prefix"


def test_what_was_approved_is_what_is_installed(small_bundle, installed, tmp_path, capsys):
    signed = tmp_path / "approval.html"
    run(record.command, small_bundle, "--html", signed, "--language", "both", "--json")
    printed = json.loads(capsys.readouterr().out)
    approved = approvalpage.read(signed.read_bytes(), "approval", draw)
    assert approval.parse(printed, "printed") == approved
    assert isinstance(approved.licences, Licences)
    assert str(small_bundle.parent) not in signed.read_text("utf-8")

    found = {kind: tmp_path / f"installation.{kind}" for kind in ("html", "json")}
    for path in found.values():
        done = control(installed, "audit", "--report", str(path), "--name", "rack 7")
        assert done.returncode == 0, done.stderr
        assert run(compare_records.command, signed, path) == ExitCode.OK
    page = found["html"].read_text("utf-8")
    assert "rack 7" in page and str(installed) not in page
    assert approvalpage.read(page.encode(), "page") == approvalpage.read(
        found["json"].read_bytes(), "data"
    )

    (release,) = (installed / "releases").iterdir()
    (release / "more").write_bytes(b"")
    done = control(installed, "audit", "--report", str(found["json"]))
    (release / "more").unlink()
    assert done.returncode == ExitCode.INTEGRITY
    capsys.readouterr()
    assert run(compare_records.command, signed, found["json"]) == ExitCode.INTEGRITY
    told = capsys.readouterr().out
    assert "verdict: approved intact, installed 1 findings" in told
    assert f"extra releases/{release.name}/more" in told


def test_a_report_is_of_an_installation(small_bundle, installed, tmp_path):
    path = tmp_path / "a.html"
    done = control(installed, "audit", str(small_bundle), "--report", str(path))
    assert done.returncode == ExitCode.USAGE
    assert "not an installation" in done.stderr
    done = control(installed, "audit", "--report", str(installed / "a.html"))
    assert done.returncode == ExitCode.USAGE
    assert not path.exists() and audit_installation(installed).clean


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        started = Browser(Path(profile))
        yield started
        started.close()


RECORDS = {"approval": an_approval(), "installation": an_installation()}


@pytest.fixture(params=[(kind, language) for kind in RECORDS for language in approval.LANGUAGES])
def document(request, tmp_path) -> Path:
    kind, language = request.param
    path = tmp_path / f"{kind}-{language}.html"
    path.write_text(approvalpage.render(RECORDS[kind], language, draw), "utf-8")
    return path


@in_browser
def test_it_is_one_page_of_paper(browser, document):
    browser.media("print")
    browser.open(document, round(WIDTH))
    assert browser.run("document.body.scrollHeight") <= HEIGHT * 0.98  # other fonts are larger
    assert browser.run("document.documentElement.scrollWidth") <= round(WIDTH)
    printed = browser.ask("Page.printToPDF", preferCSSPageSize=True, printBackground=False)
    pages = re.findall(rb"/Type\s*/Page\b(?!s)", base64.b64decode(printed["data"]))
    assert len(pages) == 1
    assert browser.told("Log.entryAdded") == []
    assert browser.told("Runtime.exceptionThrown") == []
    asked = [event["request"]["url"] for event in browser.told("Network.requestWillBeSent")]
    assert asked == [document.as_uri()]


OVERLAPS = """
[...document.querySelectorAll('.layers g, .tile')].flatMap(part => {
  const box = part.querySelector('rect').getBBox();
  const texts = [...part.querySelectorAll('text')].map(text => [text.textContent, text.getBBox()]);
  const out = texts.filter(([, b]) => b.x < box.x || b.x + b.width > box.x + box.width + .5
    || b.y < box.y - 1 || b.y + b.height > box.y + box.height + 1);
  const side = texts.filter(([, b], n) => texts.slice(n + 1).some(([, c]) =>
    b.x < c.x + c.width && c.x < b.x + b.width && Math.abs(b.y - c.y) < 6));
  return [...out, ...side].map(([text]) => text);
})
"""


@in_browser
def test_no_letter_leaves_its_place(browser, document):
    browser.media()
    browser.open(document, 900)
    assert browser.run(OVERLAPS) == []
    cut = browser.run(
        "[...document.querySelectorAll('h1, td, th, code, dt, footer')]"
        ".filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth).map(e => e.textContent)"
    )
    assert cut == []
    # WCAG 2.2, success criterion 1.4.3 (level AA).
    assert {name: ratio for name, ratio in browser.run(CONTRAST).items() if ratio < 4.5} == {}


@in_browser
def test_on_a_small_screen_nothing_is_wider_than_it(browser, document):
    browser.media()
    browser.open(document, 360)
    assert browser.run("document.documentElement.scrollWidth") <= 360


@in_browser
def test_the_data_are_read_and_not_run(browser, document):
    browser.media()
    browser.open(document, 900)
    data = browser.run("JSON.parse(document.getElementById('record').textContent)")
    kind = document.name.partition("-")[0]
    assert approval.parse(data, "browser") == RECORDS[kind]
    assert browser.run("document.scripts.length") == 1
    code = browser.run("document.querySelector('.qr title')?.textContent ?? ''")
    assert (code == f"sha256:{data['medium']['list_sha256']}") if kind == "approval" else not code
