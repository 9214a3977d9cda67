"""The audit as an auditor runs it: killed, read-only, in other forms, and with coreutils alone."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from manifests import tree
from manifests.exitcodes import ExitCode
from manifests.manual import topics
from manifests.manual.markup import CODE
from tests.support import killing
from tests.support.mounts import mounted, needs_root
from tests.support.small import bundle, environment, install

#: bundlectl as on a host where no file was changed in the last seconds.
CONTROL = (
    "from manifests.audit import memory; memory._SETTLED = -(1 << 62)\n"
    "import sys; from bundlectl.cli import main; sys.exit(main(sys.argv[1:]))"
)
#: What the manual calls them.
PLACES = {
    "medium": "/media/usb/NAME",
    "release": "/opt/vllm-bundle/releases/ID",
    "model": "/opt/vllm-bundle/models/NAME@REVISION",
    "prefix": "/opt/vllm-bundle",
}


def control(*words: str) -> list[str]:
    return [sys.executable, "-c", CONTROL, *words]


def run(command: list[str], **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, check=False, **options
    )


@pytest.fixture(scope="module")
def media(tmp_path_factory) -> tuple[Path, str]:
    return killing.make(tmp_path_factory.mktemp("media"), is_large=True)


@pytest.fixture(scope="module")
def installed(media, tmp_path_factory) -> Path:
    """Shared: it stays as it is."""
    prefix = tmp_path_factory.mktemp("installed") / "host"
    words = ["install", "--no-start", "--ignore", "port", "--ignore", "glibc"]
    done = run(
        control(*words, "--media", str(media[0]), "--manifest", media[1], "--prefix", str(prefix))
    )
    assert done.returncode == 0, done.stderr
    return prefix


@pytest.fixture
def host(installed, tmp_path) -> Path:
    """To be harmed: a copy lies aside, as paths are written into its files."""
    kept = tmp_path / "kept"
    shutil.copytree(installed, kept, symlinks=True)
    yield installed
    shutil.rmtree(installed)
    kept.rename(installed)


def everything(root: Path) -> dict[str, tuple[object, ...]]:
    """What a write could change below a folder."""
    found = {}
    for path, entry in tree.walk(root):
        status = entry.stat(follow_symlinks=False)
        found[path] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def test_a_killed_audit_goes_on(installed, tmp_path):
    state = tmp_path / "state"
    command = control("audit", "--prefix", str(installed), "--resume", str(state))
    # Slow enough to be met on the way: some 250 kB in a few seconds.
    with subprocess.Popen(
        [*command, "--max-rate", "100k", "--jobs", "1"], env=environment(), stderr=subprocess.PIPE
    ) as running:
        deadline = time.monotonic() + 20
        while not state.exists() or state.read_bytes().count(b"\n") < 4:
            assert running.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGKILL)
    done = run([*command, "--json"])
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["intact"] is True
    assert 3 <= report["resumed"]["files"] < report["checked"]
    assert not state.exists()


def test_ctrl_c_ends_a_slow_audit_at_once(installed):
    command = control("audit", "--prefix", str(installed), "--max-rate", "10k")
    with subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE) as running:
        time.sleep(0.6)
        running.send_signal(signal.SIGINT)
        begun = time.monotonic()
        assert running.wait(10) == ExitCode.INTERRUPTED
        assert time.monotonic() - begun < 3


@needs_root
def test_read_only_media_and_prefixes(media, installed, tmp_path):
    for source in (media[0], installed):
        with mounted(tmp_path / "mount" / source.name, "--bind", str(source)) as place:
            subprocess.run(["mount", "-o", "remount,ro,bind", str(place)], check=True)
            before = everything(place)
            done = bundle("audit", str(place), "--format", "sarif")
            assert done.returncode == 0, done.stderr
            assert everything(place) == before


def test_nothing_is_written_into_what_is_audited(media, installed, tmp_path):
    before = [everything(path) for path in (media[0], installed)]
    for path in (media[0], installed):
        answer = tmp_path / "answer.html"
        words = ["--format", "html", "--lang", "zh", "--output", str(answer)]
        done = bundle("audit", str(path), *words)
        assert done.returncode == 0, done.stderr
        assert "完好" in answer.read_text("utf-8")
        assert "intact: " in done.stdout
    assert [everything(path) for path in (media[0], installed)] == before


@needs_root
def test_an_unreadable_file_is_named(host):
    """As an account that may not read it: root reads everything."""
    path = host / "releases"
    (closed,) = path.glob("*/env/lib/part1.so")
    closed.chmod(0o000)
    launcher = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    if shutil.which(launcher[0]) is None:
        pytest.skip("this machine lacks setpriv")
    for form, sign in (
        ("text", "unreadable: releases/"),
        ("junit", '<error type="unreadable"'),
    ):
        done = run([*launcher, *control("audit", "--prefix", str(host), "--format", form)])
        assert done.returncode == ExitCode.INTEGRITY, done.stderr
        assert sign in done.stdout
        assert "part1.so" in done.stdout


@needs_root
@pytest.mark.parametrize(
    ("closed", "mode", "status", "sign"),
    [
        ("models", 0o000, ExitCode.INTEGRITY, "unreadable: models (expected nothing"),
        ("models", 0o311, ExitCode.INTEGRITY, "unreadable: models (expected nothing"),
        ("state/receipts", 0o000, ExitCode.FILESYSTEM, "state/receipts: Permission denied"),
    ],
)
def test_a_folder_that_is_closed_to_the_auditor_is_named(host, closed, mode, status, sign):
    """As an account that may not list it, or not even look at what lies there."""
    launcher = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    if shutil.which(launcher[0]) is None:
        pytest.skip("this machine lacks setpriv")
    (host / closed).chmod(mode)
    done = run([*launcher, *control("audit", str(host))])
    assert done.returncode == status, done.stderr
    assert sign in done.stdout + done.stderr
    assert "is installed" not in done.stderr
    assert "unreadable: releases" not in done.stdout


def steps(number: int) -> str:
    """A block of the manual's steps with coreutils alone; the last three have them."""
    blocks = [b.text for b in topics.topic("audit", topics.ENGLISH).blocks if b.kind == CODE]
    return [text for text in blocks if "sha256sum" in text][number]


def links(prefix: Path) -> set[str]:
    """What the manual's comparison of links names, by path."""
    blocks = [b.text for b in topics.topic("audit", topics.ENGLISH).blocks if b.kind == CODE]
    (script,) = (text for text in blocks if "-type l -printf" in text)
    (lists := prefix.parent / "links").mkdir(exist_ok=True)
    return {line.strip().partition(" -> ")[0] for line in sh(script, lists, prefix=prefix)}


def sh(script: str, lists: Path, **places: Path) -> list[str]:
    """Run steps of the manual: on these folders, with its lists in another one."""
    script = script.replace("/tmp/", f"{lists}/")
    for name, place in places.items():
        assert PLACES[name] in script
        script = script.replace(PLACES[name], str(place))
    if "prefix" in places:
        command = f"{sys.executable} -m bundlectl audit --prefix {places['prefix']}"
        script = script.replace("bundlectl audit", command)
    done = run(["sh", "-c", script])
    said = [line for line in done.stderr.splitlines() if not line.startswith("sha256sum: ")]
    assert said == []
    return done.stdout.splitlines()


def failed(lines: list[str]) -> set[str]:
    """What sha256sum found wrong or could not open."""
    return {m[1] for line in lines if (m := re.fullmatch(r"(.+): FAILED(?: open or read)?", line))}


def wrong(record: dict[str, object], *problems: str) -> set[str]:
    return {f["path"] for f in record["findings"] if f["problem"] in problems}


def harm(prefix: Path) -> None:
    """Each kind of damage that sha256sum can see."""
    (release,) = (prefix / "releases").iterdir()
    (release / "runtime/lib.so").symlink_to("libexample.so.1")
    for name in ("env/lib/part2.so", "env/bin/tool", "runtime/bin/python"):
        (release / name).write_bytes((release / name).read_bytes()[:-1] + b"x")
    (release / "env/lib/libexample.so.1").unlink()
    (release / "env/lib/empty").write_bytes(b"x")
    (release / "env/lib/stranger.py").touch()
    os.mkfifo(release / "env/lib/pipe")
    (release / "env/lib/libexample.so").unlink()
    (release / "env/lib/libexample.so").symlink_to("/elsewhere.so")
    (release / "env/lib/away.so").symlink_to("/elsewhere.so")
    (prefix / "releases/away").symlink_to("/elsewhere")
    (shard,) = prefix.glob("models/*/two.safetensors")
    shard.write_bytes(shard.read_bytes()[:-1])


@pytest.mark.parametrize("harmed", [False, True])
def test_the_same_numbers_of_an_installation_with_coreutils_alone(host, tmp_path, harmed):
    if harmed:
        harm(host)
    record = json.loads(run(control("audit", "--prefix", str(host), "--json")).stdout)
    lines = sh(steps(1), tmp_path, prefix=host)
    assert int(lines[0]) == record["checked"]
    assert failed(lines) == wrong(record, "altered", "missing")
    rest = {line for line in lines[1:] if "FAILED" not in line}
    linked = links(host)
    assert rest | linked == wrong(record, "extra", "link")
    assert rest.isdisjoint(linked)
    assert any(name.endswith("/pipe") for name in rest) is harmed
    assert len(linked) == (4 if harmed else 0)
    assert bool(record["findings"]) is harmed


@pytest.mark.parametrize("harmed", [False, True])
def test_the_same_without_any_program_of_ours(media, host, tmp_path, harmed):
    if harmed:
        harm(host)
    record = json.loads(run(control("audit", "--prefix", str(host), "--json")).stdout)
    (release,) = (path for path in (host / "releases").iterdir() if not path.is_symlink())
    (model,) = (host / "models").iterdir()
    lines = sh(steps(2), tmp_path, release=release, model=model)
    assert lines[0].split() == [media[1], "bundle.json"]
    parts = {f"{release.relative_to(host)}/{name}" for name in failed(lines) if "env/" in name}
    parts |= {f"{model.relative_to(host)}/{name}" for name in failed(lines) if "env/" not in name}
    # neither the runtime nor what learned its path, as the manual says
    expected = wrong(record, "altered", "missing")
    assert parts == {p for p in expected if "/runtime/" not in p and "/bin/tool" not in p}
    assert bool(parts) is harmed


@pytest.mark.parametrize("harmed", [False, True])
def test_the_same_numbers_of_a_medium_with_coreutils_alone(media, tmp_path, harmed):
    folder = Path(shutil.copytree(media[0], tmp_path / media[0].name))
    if harmed:
        (folder / "stranger").touch()
        with (folder / f"{folder.name}.tar").open("r+b") as out:
            out.seek(-700, os.SEEK_END)
            out.write(b"x")
    record = json.loads(bundle("audit", str(folder), "--json").stdout)
    (lists := tmp_path / "lists").mkdir()
    lines = sh(steps(0), lists, medium=folder)
    assert int(lines[0]) == record["checked"] == 2
    assert failed(lines) == wrong(record, "altered") & {"install.sh", f"{folder.name}.tar"}
    rest = {line for line in lines[1:] if "FAILED" not in line} - {"SHA256SUMS"}
    assert rest == wrong(record, "extra")
    assert bool(failed(lines)) is harmed


@pytest.mark.e2e
def test_install_sh_takes_the_same_options(small_bundle, tmp_path):
    answer = tmp_path / "audit.sarif"
    words = ["--format", "sarif", "--output", str(answer), "--sample", "50%", "--seed", "s"]
    for command in (["audit", *words], [*words, "audit"]):
        done = install(small_bundle, *command, "--json")
        assert done.returncode == 0, done.stderr
        record = json.loads(done.stdout)
        assert record["sample"]["files"] == -(-record["sample"]["of_files"] // 2)
        assert json.loads(answer.read_text())["runs"][0]["results"] == []
        answer.unlink()


@pytest.mark.e2e
def test_coreutils_alone_on_a_real_environment(small_bundle, prefix, tmp_path):
    """Thousands of names as packages have them, and files that conda-unpack has changed."""
    done = install(small_bundle, "--prefix", str(prefix), "--no-start")
    assert done.returncode == 0, done.stderr
    (release,) = (prefix / "releases").iterdir()
    (changed,) = release.glob("env/lib/python3*/site-packages/stub_vllm.py")
    changed.write_bytes(changed.read_bytes() + b"\n")
    record = json.loads(bundle("audit", str(prefix), "--json").stdout)
    assert wrong(record, "altered") == {str(changed.relative_to(prefix))}
    lines = sh(steps(1), tmp_path, prefix=prefix)
    assert int(lines[0]) == record["checked"] > 1000
    assert failed(lines) == wrong(record, "altered")
    assert all("FAILED" in line for line in lines[1:])
    assert links(prefix) == set()
    (model,) = (prefix / "models").iterdir()
    lines = sh(steps(2), tmp_path, release=release, model=model)
    assert lines[0].split()[0] == record["manifest_sha256"][0]
    assert failed(lines) == {str(changed.relative_to(release))}
    listed = (tmp_path / "sums").read_text().splitlines()
    files = [path for path in model.rglob("*") if path.is_file()]
    assert len(listed) == len(files)
