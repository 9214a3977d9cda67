"""Damage in a real installation, mended from its medium: by the command, and by install.sh."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from manifests import placement
from manifests.audit import audit
from manifests.exitcodes import ExitCode
from tests.support.scratch import scratch
from tests.support.small import control, free_port, install
from tests.support.variants import manifest_of


@pytest.fixture(scope="module")
def installed(small_bundle, tmp_path_factory):
    """Shared: every test mends what it harms."""
    with scratch(tmp_path_factory, "installed") as root:
        words = ("--prefix", str(root / "host"), "--no-start", "--port", str(free_port()))
        done = install(small_bundle, *words)
        assert done.returncode == 0, done.stderr
        yield root / "host"


def release(prefix: Path) -> Path:
    (name,) = placement.installed_releases(prefix)
    return prefix / "releases" / name


def model(prefix: Path) -> Path:
    (folder,) = (prefix / "models").iterdir()
    return folder


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file() and not path.is_symlink()]


def flip(path: Path) -> None:
    """One bit in the middle, in place."""
    mode = path.stat().st_mode
    path.chmod(0o644)
    with path.open("r+b") as handle:
        handle.seek(path.stat().st_size // 2)
        byte = handle.read(1)[0]
        handle.seek(-1, os.SEEK_CUR)
        handle.write(bytes([byte ^ 1]))
    path.chmod(mode)


def volatile(folder: Path, prefix: Path) -> Path:
    """A file that conda-unpack has changed."""
    manifest, _ = placement.load_manifest(prefix, folder.name)
    entry = next(e for e in manifest.environment if e.rewrite is not None and e.size > 200)
    return folder / "env" / entry.path


def harm(prefix: Path) -> list[str]:
    """Damage of every kind; the paths that an audit has to tell."""
    folder = release(prefix)
    library = max(files_of(folder / "env/lib"), key=lambda path: path.stat().st_size)
    flip(library)
    changed = volatile(folder, prefix)
    changed.write_bytes(changed.read_bytes().replace(os.fsencode(prefix), b"/elsewhere"))
    (folder / "env/bin/python").unlink()
    (folder / "env/bin/conda-unpack").chmod(0o644)
    flip(folder / "bundle.lock")
    shutil.rmtree(folder / "env/conda-meta")
    weights = next(model(prefix).glob("*.safetensors"))
    with weights.open("r+b") as handle:
        handle.truncate(1000)
    paths = (library, changed, folder / "env/bin/python", folder / "bundle.lock", weights)
    return [str(path.relative_to(prefix)) for path in paths]


def test_the_audit_names_the_command_and_the_command_mends(small_bundle, installed):
    harmed = harm(installed)
    done = control(installed, "audit")
    assert done.returncode == ExitCode.INTEGRITY
    assert "mend: sh install.sh repair" in done.stdout
    assert "bundlectl repair --from MEDIA" in done.stdout
    done = control(installed, "repair", "--from", str(small_bundle))
    assert done.returncode == 0, done.stderr
    for path in harmed:
        assert path in done.stdout
    assert "audit " in done.stderr
    assert "mend " in done.stderr
    assert control(installed, "audit").returncode == 0
    for program in ("bin/python", "bin/conda-unpack"):
        assert os.access(release(installed) / "env" / program, os.X_OK)


#: Bytes that a file of bytecode begins with; its code follows (PEP 552).
_HEADER = 16


def test_a_runtime_is_mended_from_the_medium(small_bundle, installed):
    """The command that would have to do it runs on what is damaged, or does not run at all."""
    folder = release(installed)
    flip(unimported(folder / "runtime"))
    done = control(installed, "repair", "--from", str(small_bundle))
    assert done.returncode == ExitCode.INTEGRITY
    assert f"sh '{small_bundle}/install.sh' repair --prefix '{installed}'" in done.stderr
    python = folder / "runtime/bin/python"
    program = next((folder / "runtime").rglob("bundlectl/__pycache__/cli.*.pyc"))
    for broken in (program, next((folder / "runtime/lib").glob("python3*/os.py")), python):
        broken.write_bytes(broken.read_bytes()[:_HEADER] + b"\0" if broken is program else b"")
        done = control(installed, "audit")
        assert done.returncode == ExitCode.INTEGRITY
        assert "sh install.sh repair" in done.stderr
        assert "Traceback" not in done.stderr
    done = install(small_bundle, "repair", "--prefix", str(installed), "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["mended"]) == 4
    assert control(installed, "audit").returncode == 0


def unimported(runtime: Path) -> Path:
    """A file that nothing imports."""
    return next(path for path in runtime.rglob("*.txt") if path.stat().st_size > 10)


def test_papers_that_are_lost_are_made_again_from_the_medium_alone(small_bundle, installed):
    name = release(installed).name
    receipt = placement.receipt_path(installed, name)
    receipt.write_text("{}")
    (installed / "releases" / name / "bundle.json").write_text("{}")
    done = control(installed, "repair", "--from", str(small_bundle))
    assert done.returncode == ExitCode.INTEGRITY
    assert "install.sh' repair" in done.stderr
    done = install(small_bundle, "repair", "--prefix", str(installed))
    assert done.returncode == 0, done.stderr
    assert placement.load_receipt(receipt).manifest_sha256 == manifest_of(small_bundle)[1]
    assert control(installed, "audit").returncode == 0


def test_another_bundle_is_refused_and_both_are_named(newer_bundle, installed):
    done = control(installed, "repair", "--from", str(newer_bundle))
    assert done.returncode == ExitCode.USAGE
    assert manifest_of(newer_bundle)[1] in done.stderr
    assert release(installed).name in done.stderr
    assert placement.load_manifest(installed, release(installed).name)[1] in done.stderr


def test_a_server_that_runs_from_what_is_wrong(small_bundle, host):
    folder = release(host)
    flip(folder / "bundle.lock")
    done = control(host, "repair", "--from", str(small_bundle))
    assert done.returncode == 0, done.stderr  # nobody runs from that
    weights = next(model(host).glob("*.safetensors"))
    flip(weights)
    done = control(host, "repair", "--from", str(small_bundle))
    assert done.returncode == ExitCode.USAGE
    assert weights.name in done.stderr
    assert "stop; then the same command again" in done.stderr
    assert control(host, "stop").returncode == 0
    assert control(host, "repair", "--from", str(small_bundle)).returncode == 0
    assert control(host, "start").returncode == 0


def test_a_dry_run_writes_nothing(small_bundle, installed):
    harmed = harm(installed)
    before = {str(path): path.lstat() for path in installed.rglob("*")}
    done = control(installed, "repair", "--from", str(small_bundle), "--dry-run", "--json")
    assert done.returncode == 0, done.stderr
    assert {str(path): path.lstat() for path in installed.rglob("*")}.keys() == before.keys()
    assert all(Path(p).lstat().st_mtime_ns == s.st_mtime_ns for p, s in before.items())
    told = {item["path"] for item in json.loads(done.stdout)["mended"]}
    assert set(harmed) <= told
    assert control(installed, "repair", "--from", str(small_bundle)).returncode == 0


@pytest.mark.e2e
def test_kills_at_any_moment(small_bundle, installed):
    """Whatever a kill leaves, the next run ends it."""
    script = str(small_bundle / "install.sh")
    command = ["sh", script, "repair", "--prefix", str(installed)]
    harm(installed)
    begun = time.monotonic()
    assert install(small_bundle, "repair", "--prefix", str(installed)).returncode == 0
    whole = time.monotonic() - begun  # seconds
    killed = 0
    for number in range(4):
        harm(installed)
        process = subprocess.Popen(
            command,
            env={"PATH": "/usr/bin:/bin", "TMPDIR": str(installed.parent)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(whole * (0.2 + 0.2 * number))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            killed += 1
        process.wait()
        done = install(small_bundle, "repair", "--prefix", str(installed))
        assert done.returncode == 0, done.stderr
        assert audit(installed).intact
    assert killed > 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another account")
def test_an_account_that_may_not_write(small_bundle, installed, open_media):
    flip(release(installed) / "bundle.lock")
    for folder in (installed, *installed.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o755)
        if folder.name.startswith("pytest-of"):
            break
    done = subprocess.run(
        [
            *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
            *("sh", str(open_media / "install.sh"), "repair", "--prefix", str(installed)),
        ],
        env={"PATH": "/usr/bin:/bin", "TMPDIR": "/tmp"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitCode.FILESYSTEM
    assert "mend: " in done.stderr
    assert "Traceback" not in done.stderr
    assert install(small_bundle, "repair", "--prefix", str(installed)).returncode == 0
