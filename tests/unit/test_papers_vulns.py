"""A bill compared with a database: by pip-audit's library, and as the isolated side does it."""

import datetime
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from packaging.version import Version
from pip_audit._service import OsvService, ResolvedDependency

from bundler.papers import vulns, vulns_page, vulns_service
from bundler.papers.bill import PROVIDED
from manifests.errors import UsageError
from manifests.vulns_ignores import Ignore
from manifests.vulns_judge import Question, Scan, judge
from manifests.vulns_match import Package, affects, matches
from manifests.vulns_packages import Unseen
from manifests.vulns_report import NO_BYTES, Finding
from tests.support import bills

DATA = Path(__file__).parents[1] / "data/vulns"
TODAY = datetime.date(2026, 12, 1)


@pytest.fixture(scope="module")
def known():
    return vulns.make_database(DATA / "osv")


def bill(*more):
    """The bill of a bundle with old parts."""
    old = (
        bills.wheel("vllm", "0.19.1"),
        bills.wheel("torch", "2.5.1+cu124"),
        bills.wheel("transformers", "4.57.0", scope=PROVIDED),
        bills.conda("openssl", "3.0.1"),
        *more,
    )
    return bills.bill(components=tuple(sorted(old, key=lambda one: one.ref)))


def report(known, **changes):
    question = Question(known, TODAY, **changes)
    return vulns.look(vulns.of_bill(bill()), question, Scan(missing=NO_BYTES))


def test_what_is_found(known):
    found = report(known)
    assert [(one.level, one.name, one.id) for one in found.findings] == [
        ("critical", "torch", "PYSEC-2025-41"),
        ("high", "transformers", "PYSEC-2025-216"),
        ("high", "vllm", "PYSEC-2026-2300"),
        ("medium", "vllm", "PYSEC-2026-2303"),
        ("medium", "vllm", "PYSEC-2026-4344"),
    ]
    assert found.findings[1].places == (PROVIDED,)
    assert found.compared == 3
    assert set(found.unseen) == {
        Unseen("conda", "openssl", "3.0.1"),
        Unseen("ranges", "vllm", "TEST-commits"),
    }


def test_both_sides_give_the_same_answer(known):
    question = Question(known, TODAY, "high")
    contents = vulns.of_bill(bill())
    here = vulns.look(contents, question, Scan())
    assert judge(contents, question, matches, Scan()) == here


def test_the_whole_bill_of_the_tests(known):
    """One component of each kind; of those a database of Python's knows the wheels."""
    contents = vulns.of_bill(bills.bill())
    found = vulns.look(contents, Question(known, TODAY), Scan())
    assert found.findings == ()  # torch 2.13.0
    assert {one.name for one in found.unseen} == {"python", "zlib", "libstdcxx"}
    assert "numba" in vulns.names(contents)


# pip-audit's own reading of the same records


@contextmanager
def osv_server(records):
    """OSV's API (https://google.github.io/osv.dev/post-v1-query/), with these records as answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found = [one for one in records if concerns(one, asked["package"]["name"])]
            body = json.dumps({"vulns": found}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def concerns(record, name):
    return any(
        one["package"] == {"ecosystem": "PyPI", "name": name, "purl": f"pkg:pypi/{name}"}
        for one in record["affected"]
    )


def test_pip_audit_reads_the_records_in_the_same_way(known, tmp_path):
    """Withdrawn ones, names, and versions that mend. (Which version is affected OSV decides.)"""
    records = [json.loads(path.read_text()) for path in sorted((DATA / "osv").glob("*.json"))]
    with osv_server(records) as url:
        service = OsvService(cache_dir=tmp_path, osv_url=url)
        for name in ("vllm", "torch", "transformers"):
            spec = ResolvedDependency(name, Version("0"))
            _, theirs = service.query(spec)
            ours = known.by_package()[name]
            assert {one.id for one in theirs} | {a for one in theirs for a in one.aliases} == {
                one for entry in ours for one in entry.ids
            }
            for one in theirs:
                (entry,) = [entry for entry in ours if {one.id, *one.aliases} & set(entry.ids)]
                assert [str(version) for version in one.fix_versions] == list(entry.fixed)
        service.session.close()


def test_the_service_answers_as_pip_audit_wants_it(known):
    service = vulns_service.DatabaseService(known.by_package())
    _, (found,) = service.query(ResolvedDependency("Torch", Version("2.5.1")))
    assert found.id == "PYSEC-2025-41"
    assert found.aliases == {"CVE-2025-32434", "GHSA-53q9-r3pm-6pq6"}
    assert found.fix_versions == [Version("2.6.0")]


@pytest.mark.parametrize("version", ["0.8.4", "0.13.0", "0.19.1", "0.32.0", "0.33.0+cpu", "0.1.0"])
def test_every_version_is_judged_by_the_one_rule(known, version):
    ours = known.by_package()
    package = Package("vllm", version)
    found = vulns_service.audit(ours, [package])
    assert found == matches(ours, [package])
    expected = {one.id for one in ours["vllm"] if affects(one, version)}
    assert {one.vulnerability.id for one in found} == expected


# The gate of `bundle create`


def test_enforce(known):
    with pytest.raises(UsageError, match="3 known vulnerabilities at or above the level high"):
        vulns.enforce(bill(), known, "high")
    ignores = [
        Ignore("CVE-2025-32434", "models are safetensors", "2025-12-01"),  # the day of the lock
        Ignore("PYSEC-2026-2300", "no -O", "2026-12-31"),
        Ignore("PYSEC-2025-216", "the host's", "2026-12-31"),
    ]
    found = vulns.enforce(bill(), known, "high", ignores)
    assert found.judged == "2025-12-01"
    assert len(found.ignored) == 3
    with pytest.raises(UsageError, match="2 known"):
        vulns.enforce(bill(), known, "any", ignores)


# Files


def test_a_database_of_any_form(known, tmp_path):
    path = tmp_path / "osv.json"
    path.write_bytes(known.dump())
    assert vulns.load_database(path, {"torch"}) == known
    dump = vulns.load_database(DATA / "osv", {"torch"})
    assert {one.package for one in dump.vulnerabilities} == {"torch"}
    with pytest.raises(UsageError):
        vulns.load_database(tmp_path / "none")


# What a person reads


def hostile(known):
    bad = Finding(
        "pickle", "m<i>", "1", "pickle:m/a|b.bin", "critical", summary="<script>\n`x` | y"
    )
    contents = vulns.of_bill(bill())
    return vulns.look(contents, Question(known, TODAY, "any"), Scan(("m/a|b.bin",), (bad,)))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page(known, language):
    text = vulns_page.html(hostile(known), language)
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert text.count("<tr>") == 7
    assert "2026-10-30" in text
    assert f'<html lang="{"en" if language == "en" else "zh-Hans"}">' in text
    assert "http" not in text.replace("http-equiv", "")


@pytest.mark.parametrize("language", ["en", "zh"])
def test_markdown(known, language):
    text = vulns_page.markdown(hostile(known), language)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 8
    # A cell's own bars are escaped, so that each row has as many cells.
    assert {row.replace("\\|", "").count("|") for row in rows} == {6}
    assert "<script>" not in text.replace("\\<script\\>", "")
