"""Every attack of the table: refused before harm, by name, with the exit status that says so."""

import dataclasses
import hashlib
import os
import shutil
import signal
import stat
import subprocess
from pathlib import Path

import pytest

from bundlectl import cli
from manifests.audit import audit
from manifests.bundle import ServedModel
from manifests.errors import BundleError
from manifests.exitcodes import ExitCode
from tests.support.attacks import (
    ATTACKS,
    LARGE_MODEL,
    SCRIPT,
    VOLUME,
    BundleSimulator,
    boundaries,
    regions,
)
from tests.support.simulator import ENVIRONMENT, MODEL, Simulator

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def snapshot(root: Path) -> dict[str, tuple]:
    """Everything below a folder but what an installer may leave for its next run."""
    found = {}
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.endswith(".partial")]
        for name in [*folders, *names]:
            path = Path(folder, name)
            status = path.lstat()
            kind = stat.S_IFMT(status.st_mode)
            content = ""
            if kind == stat.S_IFREG:
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            elif kind == stat.S_IFLNK:
                content = str(path.readlink())
            found[str(path.relative_to(root))] = (kind, stat.S_IMODE(status.st_mode), content)
    return {
        path: what for path, what in found.items() if not path.startswith("host/state/journal/")
    }


class Place:
    """A host with an earlier release, and something precious beside it."""

    def __init__(self, root: Path, capsys) -> None:
        self.root = root
        self.prefix = root / "host"
        self._capsys = capsys

    def reader(self, bundle: BundleSimulator) -> tuple[int, str]:
        """What install.sh hands over to, in this process."""
        words = ["--media", str(bundle.folder), "--manifest", bundle.named_digest()]
        words += ["--prefix", str(self.prefix), "--ignore", "port", "install", "--no-start"]
        code = cli.main(words)
        return code, self._capsys.readouterr().err

    def script(self, bundle: BundleSimulator, *shell: str) -> tuple[int, str]:
        """install.sh itself; the simulated runtime that it starts does nothing."""
        command = [*(shell or ("sh",)), str(bundle.script), "--prefix", str(self.prefix)]
        done = subprocess.run(
            command,
            env={"PATH": PATH, "HOME": str(self.root), "TMPDIR": str(self.root)},
            capture_output=True,
            check=False,
            timeout=60,
        )
        return done.returncode, done.stderr.decode("utf-8", "backslashreplace")

    def restore(self) -> None:
        """The host as it was, so that no attack profits from what another has left."""
        shutil.rmtree(self.prefix)
        shutil.copytree(self.root / "kept", self.prefix, symlinks=True)
        for stage in self.root.glob("vllm-bundle.*"):
            shutil.rmtree(stage)


@pytest.fixture(scope="module")
def ground(tmp_path_factory):
    root = tmp_path_factory.mktemp("scratch")
    (root / "outside").mkdir()
    (root / "outside/precious").write_text("kept")
    earlier = Simulator(name="earlier+stack+cpu")
    # Of another model, so that none is kept and every member of an attacked bundle is read.
    manifest = dataclasses.replace(
        earlier.manifest(), model=ServedModel("earlier", "folder:earlier", "1" * 40)
    )
    folder, digest = earlier.write(root / "earlier", manifest)
    words = ["--media", str(folder), "--manifest", digest, "--prefix", str(root / "host")]
    assert cli.main([*words, "--ignore", "port", "install", "--no-start", "--quiet"]) == 0
    shutil.copytree(root / "host", root / "kept", symlinks=True)
    Simulator().write(root / "pristine/media")
    return root


@pytest.fixture
def place(ground, capsys):
    kept = {number: signal.getsignal(number) for number in (1, 2, 15)}
    yield Place(ground, capsys)
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.fixture
def simulated(place):
    """Makes a bundle to attack; it goes when the test ends."""
    made = []

    def make(volumes: bool = False, **content) -> BundleSimulator:
        if volumes:
            content = {"model": LARGE_MODEL, **content}
        if not content:
            shutil.copytree(place.root / "pristine", place.root / "work")
        bundle = BundleSimulator(place.root / "work", Simulator(**content), VOLUME * volumes)
        made.append(bundle)
        return bundle

    yield make
    shutil.rmtree(place.root / "work", ignore_errors=True)
    place.restore()


def refused(place: Place, bundle: BundleSimulator, door: str) -> tuple[int, str]:
    """Install, and prove that nothing came of it."""
    before = snapshot(place.root)
    code, told = (place.script if door == SCRIPT else place.reader)(bundle)
    after = snapshot(place.root)
    assert after == before
    assert "Traceback" not in told
    assert sum(line.startswith("error: ") for line in told.splitlines()) == 1, told
    return code, told


def not_intact(bundle: BundleSimulator) -> bool:
    try:
        report = audit(bundle.folder)
    except BundleError as error:
        return error.exit_code != ExitCode.OK
    report.text().encode("utf-8", "strict")
    return not report.intact


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_every_attack_is_refused_by_name(simulated, place, attack):
    bundle = simulated(attack.volumes)
    attack.commit(bundle)
    code, told = refused(place, bundle, attack.door)
    assert code == attack.code, told
    assert attack.told in told
    if attack.audited:
        assert not_intact(bundle)


@pytest.mark.parametrize("region", regions())
def test_a_flipped_bit_anywhere(simulated, place, region):
    start, stop = regions()[region]
    for spot in sorted({start, (start + stop) // 2, stop - 1}):
        bundle = simulated()
        bundle.flip(spot)
        code, _ = refused(place, bundle, "reader")
        assert code == ExitCode.INTEGRITY, spot
        assert not_intact(bundle)
        shutil.rmtree(bundle.root)
        place.restore()


@pytest.mark.parametrize("length", boundaries())
def test_cut_off_anywhere(simulated, place, length):
    bundle = simulated()
    bundle.cut(length)
    code, _ = refused(place, bundle, "reader")
    assert code == ExitCode.INTEGRITY
    assert not_intact(bundle)


BUSYBOX = shutil.which("busybox")
#: What tar itself meets in the archive, before anything but the script has checked it.
FOR_TAR = [name for name, attack in ATTACKS.items() if "runtime" in name and attack.door == SCRIPT]


@pytest.mark.skipif(BUSYBOX is None, reason="busybox is not installed")
@pytest.mark.parametrize("name", FOR_TAR)
def test_the_tar_of_busybox_is_not_led_astray_either(simulated, place, name):
    """It followed a hard link out of its folder once."""
    tools = place.root / "work" / "tools"
    bundle = simulated()
    ATTACKS[name].commit(bundle)
    tools.mkdir()
    for tool in subprocess.check_output([BUSYBOX, "--list"], text=True).split():
        (tools / tool).symlink_to(BUSYBOX)
    before = snapshot(place.root)
    done = subprocess.run(
        [BUSYBOX, "sh", str(bundle.script), "--prefix", str(place.prefix)],
        env={"PATH": str(tools), "HOME": str(place.root), "TMPDIR": str(place.root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == ATTACKS[name].code, done.stderr
    assert snapshot(place.root) == before


#: Headers that no reader takes, in the bytes that install.sh hands to `tar`.
FOR_BOTH = ("a_symlink", "a_hard_link", "an_absolute_name", "a_name_above", "a_setuid_bit")


@pytest.mark.parametrize("name", FOR_BOTH)
def test_the_whole_way_through_the_real_script(simulated, place, name):
    """install.sh finds its runtime, or does not, and touches nothing else; then the reader."""
    bundle = simulated()
    ATTACKS[name].commit(bundle)
    before = snapshot(place.root)
    code, told = place.script(bundle)
    for stage in place.root.glob("vllm-bundle.*"):  # the simulated runtime leaves its folder
        shutil.rmtree(stage)
    assert code == 0, told
    assert snapshot(place.root) == before
    code, told = refused(place, bundle, "reader")
    assert code == ExitCode.INTEGRITY
    assert ATTACKS[name].told in told


def unreadable(path: Path) -> None:
    path.chmod(0)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
@pytest.mark.parametrize("file", ["install.sh", "SHA256SUMS", "tiny+stack+cpu.tar"])
def test_files_that_can_not_be_read(simulated, place, file):
    bundle = simulated()
    unreadable(bundle.folder / file)
    code, told = refused(place, bundle, "reader")
    assert code == ExitCode.FILESYSTEM
    assert file in told
    assert not_intact(bundle)


LEGAL = {
    "links in the tree": {
        "environment": {
            **ENVIRONMENT,
            "lib/up": "../bin/python",
            "lib/folder": "../share",
            "lib/self": ".",
            "lib/through": "folder/nothing",
            "lib/dangling": "nowhere",
            "share/again": "../lib/up",
            "share/round": "../lib/../bin/python",
        }
    },
    "empty files and folders": {
        "environment": {**ENVIRONMENT, "share/empty": b"", "share/none": None},
        "model": {**MODEL, "added_tokens.json": b""},
    },
    "the longest name": {
        "environment": {**ENVIRONMENT, "share/" + "n" * 255: b"x"},
        "model": {**MODEL, "m" * 255: b"x"},
    },
    "a deep path": {
        "environment": {
            **ENVIRONMENT,
            **{"/".join(["d" * 40] * depth): None for depth in range(1, 31)},
            "/".join([*["d" * 40] * 30, "file"]): b"deep",
        }
    },
    "names with every sign that is allowed": {
        "environment": {
            **ENVIRONMENT,
            "share/-rf": b"x",
            "share/ (1) [2] {3} !#$%&'^~@=+,": b"x",
            "share/..hidden": b"x",
            "share/...": b"x",
        }
    },
    "a file that needs a whole block": {"model": {**MODEL, "block.json": b"x" * 512}},
}


@pytest.mark.parametrize("content", LEGAL.values(), ids=LEGAL)
def test_what_is_legal_is_installed(simulated, place, content):
    bundle = simulated(**content)
    code, told = place.reader(bundle)
    assert code == 0, told
    assert audit(bundle.folder).intact
    assert audit(place.prefix).intact, audit(place.prefix).text()
    release = f"{bundle.folder.name}-{bundle.digest[:12]}"
    environment = place.prefix / "releases" / release / "env"
    for path, value in content.get("environment", {}).items():
        if isinstance(value, str):
            assert str((environment / path).readlink()) == value
        elif value is not None:
            assert (environment / path).read_bytes() == value
    place.script(bundle)
