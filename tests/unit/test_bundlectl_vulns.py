"""`bundlectl vulns` and `bundle vulns`: one file, one answer, on both sides."""

import json
from pathlib import Path

import click
import pytest

from bundlectl import cli
from bundler import options
from bundler.commands import vulns, vulns_database
from manifests import placement
from manifests.errors import BundleError, UsageError
from manifests.exitcodes import ExitCode
from manifests.overlay import Overlay, Provided
from tests.support.locked import Locked, a_lock, conda, wheel

DATA = Path(__file__).parents[1] / "data/vulns"
TODAY = ("--today", "2026-12-01")
WHEELS = (wheel("torch", "2.5.1+cpu"), wheel("vllm", "0.19.1"), wheel("safe", "1"))
LOCK = a_lock(
    wheels=WHEELS,
    runtime_wheels=(wheel("zstandard", "0.25.0"),),
    conda=(conda("openssl", "3.0.1"), conda("transformers", "4.57.0", "pyhd8ed1ab_0")),
)
IGNORE = """\
[[ignore]]
id = "CVE-2025-32434"
reason = "no checkpoint comes in"
expires = 2026-12-31
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return Locked(lock=LOCK).write(tmp_path_factory.mktemp("media"))


@pytest.fixture(scope="module")
def prefix(bundle, tmp_path_factory):
    host = tmp_path_factory.mktemp("host") / "prefix"
    words = ["install", "--no-start", "--ignore", "port", "--ignore", "glibc", "--quiet"]
    words += ["--media", str(bundle[0]), "--manifest", bundle[1], "--prefix", str(host)]
    assert cli.main(words) == 0
    return host


@pytest.fixture(scope="module")
def database(bundle, tmp_path_factory):
    """What is carried: made for the bundle, by the command."""
    path = tmp_path_factory.mktemp("carried") / "osv.json"
    words = [str(path), "--from", str(DATA / "osv"), "--for", str(bundle[0]), "--quiet"]
    vulns_database.command.main(words, standalone_mode=False)
    return path


@pytest.fixture
def lock_file(tmp_path):
    path = tmp_path / "bundle.lock"
    path.write_bytes(LOCK.dump())
    return path


@pytest.fixture
def connected(capsys):
    """`bundle vulns`: its exit status and what it printed."""

    def run(*words):
        capsys.readouterr()
        code = vulns.command.main([str(word) for word in words], standalone_mode=False)
        return code, capsys.readouterr().out

    return run


@pytest.fixture
def isolated(prefix, capsys):
    """`bundlectl vulns`: its exit status, and what it printed."""

    def run(*words):
        capsys.readouterr()
        code = cli.main(["vulns", "--prefix", str(prefix), *map(str, words)])
        done = capsys.readouterr()
        return code, done.out, done.err

    return run


#: The installation was not started, and so its release is not in service.
@pytest.fixture
def release(prefix):
    (name,) = placement.installed_releases(prefix)
    return ("--release", name)


def test_the_database_is_small_canonical_and_dated(database, tmp_path):
    again = tmp_path / "again.json"
    made = json.loads(database.read_text())
    assert made["date"] == "2026-10-30T00:00:00Z"
    assert made["packages"] == ["safe", "torch", "transformers", "vllm", "zstandard"]
    assert {one["package"] for one in made["vulnerabilities"]} == {"torch", "transformers", "vllm"}
    words = [str(again), "--from", str(DATA / "osv"), "--quiet"]
    vulns_database.command.main(words, standalone_mode=False)
    whole = json.loads(again.read_text())
    assert "packages" not in whole
    assert whole["source_sha256"] == made["source_sha256"]


def test_one_answer_on_both_sides(
    bundle, prefix, database, lock_file, connected, isolated, release
):
    code, out = connected(bundle[0], "--database", database, *TODAY, "--fail-on", "high", "--json")
    there, told, _ = isolated(
        "--database", database, *TODAY, "--fail-on", "high", "--json", *release
    )
    assert code == there == ExitCode.USAGE
    mine, yours = json.loads(out), json.loads(told)
    assert yours.pop("unscanned") == "here"
    assert mine == yours
    assert mine["over"] == ["PYSEC-2025-41", "PYSEC-2025-216", "PYSEC-2026-2300"]
    assert mine["compared"] == 5
    assert {(one["kind"], one["name"]) for one in mine["unseen"]} == {
        ("conda", "openssl"),
        ("conda", "python"),
        ("ranges", "vllm"),
    }
    _, out = connected(prefix / "releases" / release[1], "--database", database, *TODAY, "--json")
    assert json.loads(out)["findings"] == mine["findings"]
    _, out = connected(lock_file, "--database", DATA / "osv", *TODAY, "--format", "json")
    locked = json.loads(out)
    assert locked["findings"] == mine["findings"]
    assert locked["unscanned"] == "lock"
    assert locked["lock_sha256"] == mine["lock_sha256"]


def test_what_an_overlay_stands_on_is_compared_too(tmp_path, connected):
    beneath = Overlay("3.11.9", "cpython-311", (Provided("torch", "2.4.1", "0" * 64),))
    path = tmp_path / "bundle.lock"
    path.write_bytes(a_lock(overlay=beneath, conda=()).dump())
    _, out = connected(path, "--database", DATA / "osv", *TODAY, "--json")
    findings = json.loads(out)["findings"]
    assert [one["id"] for one in findings] == ["PYSEC-2024-259", "PYSEC-2025-41"]
    assert findings[0]["places"] == ["provided"]


def test_a_list_of_ignored_ones(bundle, database, tmp_path, connected, isolated, release):
    path = tmp_path / "ignored.toml"
    path.write_text(IGNORE)
    words = ("--database", database, "--ignore", path, "--fail-on", "critical")
    code, out = connected(bundle[0], *words, *TODAY)
    assert code == ExitCode.OK
    assert "no checkpoint comes in (Until 2026-12-31)" in out
    assert isolated(*words, *TODAY, *release)[0] == ExitCode.OK
    late = ("--today", "2027-01-01")
    code, out = connected(bundle[0], *words, *late)
    assert code == ExitCode.USAGE
    assert "counts again:\n  - CVE-2025-32434: 2026-12-31" in out
    code, out, _ = isolated(*words, *late, *release)
    assert code == ExitCode.USAGE
    assert "counts again" in out


def test_what_is_read_on_the_isolated_side(database, isolated, release):
    code, out, _ = isolated("--database", database, *TODAY, *release, "--lang", "zh")
    assert code == ExitCode.OK  # without a threshold nothing stops
    assert "已知漏洞" in out
    assert "严重 9.3  torch 2.5.1+cpu  PYSEC-2025-41" in out
    assert "此处不扫描" in out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--today", "tomorrow"), "no day"),
        (("--today", "2027-12-01", "--max-age", "30"), "397 days old, and 30 are allowed"),
        (("--max-age", "-1"), "not a number of days"),
        (("--fail-on", "worst"), "invalid choice"),
        (("--release", "none"), "is not installed"),
        (("--ignore", "/nowhere"), "No such file"),
    ],
)
def test_usage_on_the_isolated_side(database, isolated, release, words, told):
    code, _, err = isolated("--database", database, *release, *words)
    assert code == ExitCode.USAGE
    assert told in err
    assert "mend:" in err


@pytest.mark.parametrize("content", [None, b"PK\x03\x04", b"{", b"{}\n", b'{"schema":9}\n'])
def test_a_database_that_can_not_be_used(tmp_path, isolated, release, content):
    path = tmp_path / "osv.json"
    if content is not None:
        path.write_bytes(content)
    code, _, err = isolated("--database", path, *release)
    assert code == ExitCode.USAGE
    assert "bundle vulns-database" in err


def test_no_release_in_service(database, isolated):
    code, _, err = isolated("--database", database)
    assert code == ExitCode.USAGE
    assert "no release is in service" in err


def test_an_altered_lock_is_not_believed(prefix, database, isolated, release):
    path = prefix / "releases" / release[1] / "bundle.lock"
    data = path.read_bytes()
    path.chmod(0o644)
    try:
        path.write_bytes(data.replace(b"2.5.1+cpu", b"2.6.0+cpu"))
        assert isolated("--database", database, *release)[0] == ExitCode.INTEGRITY
        path.unlink()
        assert isolated("--database", database, *release)[0] == ExitCode.INTEGRITY
    finally:
        path.write_bytes(data)


# Forms


def test_forms_on_the_connected_side(bundle, database, tmp_path, connected):
    words = (bundle[0], "--database", database, *TODAY)
    for form, start in (
        ("html", "<!DOCTYPE html>"),
        ("md", "# Known"),
        ("text", "Known"),
        ("json", "{"),
    ):
        path = tmp_path / f"vulns.{form}"
        code, out = connected(*words, "--format", form, "--output", path)
        assert code == ExitCode.OK
        assert f"written: {path}; No threshold was given" in out
        assert path.read_text().startswith(start)
        if form != "json":
            assert connected(*words, "--format", form)[1] == path.read_text()
    assert "已知漏洞" in connected(*words, "--format", "html", "--language", "zh")[1]


def test_the_same_question_gives_the_same_bytes(bundle, database, connected):
    words = (bundle[0], "--database", database, *TODAY, "--format", "html")
    assert connected(*words) == connected(*words)


def test_the_day_is_the_clock_s_or_that_of_source_date_epoch(
    bundle, database, connected, monkeypatch
):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1796169600")
    _, out = connected(bundle[0], "--database", database, "--json")
    assert json.loads(out)["judged"] == "2026-12-02"


def test_usage_on_the_connected_side(bundle, database, tmp_path, connected):
    for words in (
        (tmp_path / "none", "--database", database),
        (bundle[0], "--database", tmp_path / "none"),
        (bundle[0], "--database", database, "--ignore", tmp_path / "none"),
        (bundle[0], "--database", database, "--today", "x"),
        (bundle[0], "--database", database, "--today", "2027-12-01", "--max-age", "0"),
    ):
        with pytest.raises(UsageError):
            connected(*words)
    for words in ((bundle[0],), (bundle[0], "--database", database, "--fail-on", "x")):
        with pytest.raises(click.ClickException):
            connected(*words)
    with pytest.raises(BundleError, match="writing the report"):
        connected(bundle[0], "--database", database, "--output", tmp_path / "no/where")


def test_both_commands_show_exit_codes():
    for command in (vulns.command, vulns_database.command):
        assert command.epilog is not None
        assert options.EXIT_CODES in command.epilog
