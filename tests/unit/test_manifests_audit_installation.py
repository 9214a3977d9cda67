"""Audits of a tiny installation: samples, interruptions, cores, and what an auditor may not do."""

import contextlib
import errno
import io
import json
import os
import shutil
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from bundlectl import cli
from bundler.cli import bundle as bundle_command
from manifests import audit, synced, tree
from manifests.audit import installation, memory, sumlist
from manifests.audit.installation import InstallationAudit
from manifests.audit.memory import Memory
from manifests.console import ignore_progress
from manifests.errors import FilesystemError, UsageError
from manifests.exitcodes import ExitCode
from tests.support import killing

IGNORED = ("--ignore", "port", "--ignore", "glibc")


@pytest.fixture(scope="module")
def media(tmp_path_factory):
    return killing.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def installed(media, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("installed") / "host"
    words = ["install", "--no-start", *IGNORED, "--media", str(media[0]), "--manifest", media[1]]
    assert call(*words, "--prefix", str(prefix))[0] == 0
    return prefix


@pytest.fixture
def host(installed, tmp_path):
    """To be harmed: a copy lies aside, as paths are written into its files."""
    kept = tmp_path / "kept"
    shutil.copytree(installed, kept, symlinks=True)
    yield installed
    shutil.rmtree(installed)
    kept.rename(installed)


@pytest.fixture
def settled(monkeypatch):
    """Files are as good as old."""
    monkeypatch.setattr(memory, "_SETTLED", -(1 << 62))


def call(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = cli.main(words)
    return int(status), out.getvalue(), err.getvalue()


def release(prefix: Path) -> Path:
    (folder,) = (prefix / "releases").iterdir()
    return folder


def run(path: Path, progress=ignore_progress, **wishes):
    return audit.prepare(path, how=audit.how(**wishes)).run(progress)


def weights(prefix: Path) -> Path:
    (path,) = prefix.glob("models/*/sub/weights.safetensors")
    return path


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_sample_reads_what_it_says(installed):
    read, made = [], audit.prepare(installed, how=audit.how("3", "seed"))
    report = made.run(read.append)
    assert report.sample is not None
    assert sum(read) == made.size == report.sample.size
    assert (report.sample.files, report.sample.of_files) == (3, 9)
    assert report.checked == 4  # and the empty file, which its length proves
    assert report.clean
    assert not report.intact
    assert run(installed, sample="3", seed="seed") == report
    whole = run(installed, sample="100%")
    assert whole.sample is not None
    assert [chance for _, chance in whole.sample.proofs()] == ["0"]
    assert "sample intact" in whole.text()


def test_a_sample_finds_what_it_reads_and_everything_but_bytes(host):
    flip(weights(host))
    name = str(weights(host).relative_to(host))
    found = {seed: run(host, sample="4", seed=str(seed)) for seed in range(40)}
    drawn = [seed for seed, one in found.items() if not one.clean]
    for seed, one in found.items():
        files = InstallationAudit(host, audit.how("4", str(seed)))._drawn
        assert (name in files) is (seed in drawn)
        assert [finding.path for finding in one.findings] == [name] * (seed in drawn)
    assert 5 < len(drawn) < 35  # 4 of 9
    (release(host) / "env/new").touch()
    (release(host) / "env/bin/python").chmod(0o600)
    (release(host) / "env/lib/empty").write_text("x")
    (release(host) / "runtime/bin/python").unlink()
    (release(host) / "env/lib/libexample.so").unlink()
    (release(host) / "env/lib/libexample.so").symlink_to("empty")
    report = run(host, sample="1", seed=str(next(s for s in found if s not in drawn)))
    problems = {finding.problem for finding in report.findings}
    assert problems >= {"extra", "mode", "altered", "missing", "link"}


def test_a_wrong_mode_hides_no_wrong_bytes(host):
    path = release(host) / "env/bin/python"
    flip(path)
    path.chmod(0o600)
    report = run(host)
    name = str(path.relative_to(host))
    assert [(f.problem, f.path) for f in report.findings] == [("mode", name), ("altered", name)]


@pytest.mark.parametrize("jobs", [1, 7])
def test_the_answer_is_the_same_on_any_number_of_cores(host, monkeypatch, jobs):
    monkeypatch.setattr(installation, "_LARGE", 100)  # so that files change places
    for path in release(host).glob("env/lib/*"):
        path.unlink()
    (release(host) / "env/lib/new").touch()
    read = []
    made = audit.prepare(host, how=audit.how(jobs=jobs))
    report = made.run(read.append)
    assert report == audit.audit(host)
    assert [f.problem for f in report.findings] == ["missing"] * 3 + ["extra"]
    assert sum(read) == made.size  # the bar comes to its end, whatever was missing


def interrupted(host: Path, state: Path, after: int, **wishes) -> None:
    """An audit that ends after so many files; nothing is cleaned up, as in a kill."""
    made = audit.prepare(host, how=audit.how(jobs=1, resume=state, **wishes))
    add, count = Memory.add, 0

    def counted(self, name, status, begun):
        nonlocal count
        if count == after:
            raise KeyboardInterrupt
        add(self, name, status, begun)
        count += 1

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Memory, "add", counted)
        made.run()


def test_an_interrupted_audit_goes_on(installed, tmp_path, settled):
    state = tmp_path / "state"
    interrupted(installed, state, 4)
    assert state.stat().st_mode & 0o777 == 0o600
    read, made = [], audit.prepare(installed, how=audit.how(resume=state))
    whole = audit.prepare(installed).size
    assert 0 < made.size < whole
    report = made.run(read.append)
    assert report.resumed is not None
    assert report.resumed.files == 4
    assert sum(read) == whole - report.resumed.size
    assert report.clean
    assert "4 files" in report.text()
    assert "were not read again" in report.text()
    assert report.as_record()["resumed"]["files"] == 4
    assert not state.exists()  # the next one reads everything
    again = run(installed, resume=state)
    assert again.resumed is None
    assert "resumed" not in again.as_record()


def test_what_was_changed_after_it_was_found_right_is_read_again(host, tmp_path, settled):
    state = tmp_path / "state"
    interrupted(host, state, 8)
    path = weights(host)
    times = path.stat()
    flip(path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))  # ctime tells
    report = run(host, resume=state)
    assert [finding.path for finding in report.findings] == [str(path.relative_to(host))]
    assert not state.exists()


def test_files_that_have_just_been_changed_are_not_trusted_to_their_times(host, tmp_path):
    (release(host) / "env/bin/python").chmod(0o700)
    (release(host) / "env/bin/python").chmod(0o755)  # ctime is now
    state = tmp_path / "state"
    interrupted(host, state, 8)
    assert "env/bin/python" not in state.read_text()


def test_a_change_in_a_long_reading_is_not_trusted_to_its_times(installed, tmp_path, monkeypatch):
    """The file had just been changed when reading began, however long it took."""
    clock, hour = time.time_ns, 3_600_000_000_000

    def slow(*_):
        monkeypatch.setattr(time, "time_ns", lambda: clock() + 2 * hour)

    monkeypatch.setattr(installation, "check_bytes", slow)
    monkeypatch.setattr(memory, "_SETTLED", hour)
    state = tmp_path / "state"
    interrupted(installed, state, 1)
    assert state.read_bytes().count(b"\n") == 1  # the head


def test_a_line_that_is_no_name_is_cut_off(installed, tmp_path, settled):
    state = tmp_path / "state"
    interrupted(installed, state, 2)
    with state.open("ab") as out:
        out.write(b"[[1],[2]]\n")
    report = run(installed, resume=state)
    assert report.clean
    assert report.resumed is not None
    assert report.resumed.files == 2


def test_a_torn_line_is_cut_off(installed, tmp_path, settled):
    state = tmp_path / "state"
    interrupted(installed, state, 5)
    data = state.read_bytes()
    state.write_bytes(data[:-7])
    interrupted(installed, state, 1)
    assert state.read_bytes().count(b"\n") == 6  # the head, four that were whole, one more
    report = run(installed, resume=state)
    assert report.resumed is not None
    assert report.resumed.files == 5
    state.write_bytes(data + b"\0" * 4096)  # as a power cut leaves it
    assert run(installed, resume=state).clean


def test_a_sample_goes_on_with_its_seed(installed, tmp_path, settled):
    state = tmp_path / "state"
    interrupted(installed, state, 2, sample="5")
    seed = memory.seed_in(state)
    report = run(installed, sample="5", resume=state)
    assert report.sample is not None
    assert report.sample.seed == seed
    assert report.resumed is not None
    assert report.resumed.files == 2


def test_only_the_same_audit_is_gone_on_with(installed, tmp_path, settled):
    state = tmp_path / "state"
    interrupted(installed, state, 2)
    kept = state.read_bytes()
    with pytest.raises(UsageError, match=r"another audit \(sample, seed differ\)"):
        run(installed, sample="5", resume=state)
    elsewhere = Path(shutil.copytree(installed, tmp_path / "copy", symlinks=True))
    with pytest.raises(UsageError, match=r"another audit \(path differ"):
        run(elsewhere, resume=state)
    assert state.read_bytes() == kept


def test_files_that_are_no_state_are_left_alone(installed, tmp_path):
    other = tmp_path / "letter"
    for content in (b"Dear all\n", b"{}\n", b"[1]\n", b'{"audit":1,"since":1}\n', b"\xff"):
        other.write_bytes(content)
        other.chmod(0o600)
        with pytest.raises(UsageError, match=r"not the state of an audit|another audit"):
            run(installed, resume=other)
        assert other.read_bytes() == content
    other.write_bytes(b"")
    other.chmod(0o666)
    with pytest.raises(UsageError, match="others can write it"):
        run(installed, resume=other)
    (tmp_path / "link").symlink_to(other)
    with pytest.raises(FilesystemError):
        run(installed, resume=tmp_path / "link")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(UsageError, match="no regular file"):
        run(installed, sample="5", resume=tmp_path / "pipe")


def test_two_audits_do_not_share_a_state(installed, tmp_path):
    first = audit.prepare(installed, how=audit.how(resume=tmp_path / "state"))
    with pytest.raises(UsageError, match="another audit is writing it"):
        audit.prepare(installed, how=audit.how(resume=tmp_path / "state"))
    assert first.run().clean


def test_answers_are_written_elsewhere_or_not_at_all(installed, tmp_path):
    before = list(tree.walk(installed))
    places = [installed / "audit.html", installed / "state/x", tmp_path / "way/x"]
    (tmp_path / "way").symlink_to(installed / "releases")
    (tmp_path / "name").symlink_to(installed / "current-audit")
    for path in (*places, tmp_path / "name"):
        for option in ("--output", "--resume"):
            status, _, err = call("audit", "--prefix", str(installed), option, str(path))
            assert status == ExitCode.USAGE, err
            assert "writes nothing into what it audits" in err
    for path in (tmp_path / "none/x", tmp_path):
        status, _, err = call("audit", "--prefix", str(installed), "--output", str(path))
        assert status == ExitCode.FILESYSTEM, err
    assert [path for path, _ in tree.walk(installed)] == [path for path, _ in before]


def test_what_can_not_be_kept_is_refused_before_reading(installed, tmp_path, monkeypatch):
    monkeypatch.setattr(InstallationAudit, "run", None)
    prefix, same = ("--prefix", str(installed)), str(tmp_path / "x.html")
    (tmp_path / "way").symlink_to(tmp_path)
    for words in (
        ("--output", same, "--report", str(tmp_path / "way/x.html")),
        ("--resume", same, "--output", same),
        ("--report", same, "--name", "rack\udcff"),
        ("--report", same, "--name", "rack\u202e7"),
        ("--report", same, "--name", "\x1b[2J"),
        ("--report", same, "--name", "x" * 101),
    ):
        status, _, err = call("audit", *prefix, *words)
        assert status == ExitCode.USAGE, err
    os.mkfifo(tmp_path / "pipe.html")
    assert call("audit", *prefix, "--output", str(tmp_path / "pipe.html"))[0] == (
        ExitCode.FILESYSTEM
    )
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    for option in ("--output", "--report", "--resume"):
        status, _, err = call("audit", *prefix, option, same)
        assert status == ExitCode.FILESYSTEM, err
        assert "nothing can be written into" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe.html", "way"]


@pytest.mark.parametrize("option", ["--output", "--report"])
def test_the_answer_is_told_where_its_file_can_not_be_written(
    installed, tmp_path, monkeypatch, option
):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(synced, "replace", full)
    words = ("audit", option, str(tmp_path / "x.html"))
    status, out, err = call(*words, "--prefix", str(installed))
    assert status == ExitCode.FILESYSTEM, err
    assert out.startswith("intact: ")
    done = CliRunner().invoke(bundle_command, ["audit", str(installed), *words[1:]])
    assert "intact: " in done.output
    assert isinstance(done.exception, FilesystemError)


def test_the_command_of_the_isolated_side(host, tmp_path):
    prefix, output = ("--prefix", str(host)), tmp_path / "audit.xml"
    status, out, _ = call("audit", *prefix, "--format", "junit", "--output", str(output), "--json")
    assert status == 0
    assert json.loads(out)["intact"] is True
    assert 'failures="0"' in output.read_text()
    assert output.stat().st_mode & 0o777 == 0o644
    flip(weights(host))
    for form, sign in (("html", "<!DOCTYPE"), ("sarif", '"2.1.0"'), ("json", '"intact": false')):
        status, out, _ = call("--format", form, "audit", *prefix)
        assert status == ExitCode.INTEGRITY
        assert sign in out
    status, out, err = call("audit", *prefix, "--json", "--format", "html")
    assert status == ExitCode.USAGE
    assert "two forms" in out
    status, _, err = call("audit", *prefix, "--record", "--sample", "5")
    assert status == ExitCode.USAGE
    assert "whole audit" in err


def test_a_sample_is_never_kept_as_an_intact_installation(installed):
    status, out, _ = call("audit", "--prefix", str(installed), "--sample", "20%", "--json")
    assert status == 0
    assert json.loads(out)["intact"] is None


def test_the_list_for_sha256sum_is_from_manifests_that_are_right(host):
    status, out, _ = call("audit", "--sums", "--prefix", str(host))
    assert status == 0
    assert len(out.splitlines()) == audit.audit(host).checked
    path = release(host) / "bundle.json"
    path.write_bytes(path.read_bytes().replace(b'"tiny"', b'"tidy"', 1))
    status, out, err = call("audit", "--sums", "--prefix", str(host))
    assert status == ExitCode.INTEGRITY
    assert out == ""
    assert "papers" in err


@pytest.mark.parametrize(
    "words",
    [
        ("--output", "x"),
        ("--report", "x.html"),
        ("--sample", "5%"),
        ("--resume", "x"),
        ("--format", "json"),
        ("--max-rate", "1M"),
        ("--jobs", "2"),
        ("--volumes-in", "x"),
        ("--record",),
    ],
    ids=" ".join,
)
def test_a_list_is_no_audit(installed, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = call("audit", "--prefix", str(installed), "--sums", *words)
    assert (status, out) == (ExitCode.USAGE, ""), err
    assert f"--sums and {words[0]}" in err
    if words[0] != "--record":
        done = CliRunner().invoke(bundle_command, ["audit", str(installed), "--sums", *words])
        assert isinstance(done.exception, UsageError)
    assert list(tmp_path.iterdir()) == []


def test_a_swollen_file_is_not_read_for_the_list(host, monkeypatch):
    tool = release(host) / "env/bin/tool"
    known = sumlist.render(host)
    with tool.open("r+b") as out:
        out.truncate(1 << 40)  # no memory holds it
    monkeypatch.setattr(sumlist.Reading, "whole", None)
    (line,) = (line for line in sumlist.render(host).splitlines() if line.endswith("/tool"))
    manifest = json.loads((release(host) / "bundle.json").read_text())
    (listed,) = (one for one in manifest["environment"] if one["path"] == "bin/tool")
    assert line.startswith(listed["sha256"])
    assert line not in known.splitlines()


def test_a_medium_has_a_list_already(media):
    status, _, err = call("audit", "--sums", str(media[0]))
    assert status == ExitCode.USAGE
    assert "sha256sum -c SHA256SUMS" in err
