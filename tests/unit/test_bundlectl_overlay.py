"""Overlays on the isolated host: put on its Python, audited, mended, started, taken away."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bundlectl import basepython, cli, config, models, readiness
from bundlectl.layout import Layout
from manifests import bundle, placement, tree
from manifests.errors import IntegrityError, TargetError
from manifests.exitcodes import ExitCode
from manifests.overlay import Base, generated, installed
from tests.support import bases, killing
from tests.support.bases import CARRIED, MINOR, PACKAGES
from tests.support.simulator import Simulator


class Bench:
    """A host's environment, an overlay for it, and a place to install to."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "an odd 'bäse' = #1"
        self.python = bases.base(self.folder)
        self.media = bases.bundle_on(root / "media", self.python)
        self.release = bundle.release_id(self.media[0].name, self.media[1])
        self.layout = Layout(root / "the prefix")

    def call(self, *words: str) -> int:
        """Run a command from the medium."""
        medium = ("--media", str(self.media[0]), "--manifest", self.media[1])
        return cli.main([*words, *medium, "--prefix", str(self.layout.prefix)])

    def install(self, *words: str) -> int:
        ignored = ("--ignore", "port", "--ignore", "glibc")
        return self.call("install", "--no-start", *ignored, *words)

    @property
    def environment(self) -> Path:
        return self.layout.environment(self.release)

    def start(self) -> None:
        """What a start looks at before anything of it is started."""
        manifest, _ = placement.load_manifest(self.layout.prefix, self.release)
        settings = config.load(self.layout.config_file)
        model = models.to_serve(self.layout, self.release)
        readiness.before_start(self.layout, self.release, manifest, settings, model)


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """One that is only looked at."""
    bench = Bench(tmp_path_factory.mktemp("template"))
    before = bases.digest(bench.folder)
    assert bench.install("--into-python", str(bench.python)) == 0
    assert bases.digest(bench.folder) == before
    return bench


@pytest.fixture
def bench(tmp_path):
    """One of the test's own, installed."""
    bench = Bench(tmp_path)
    assert bench.install("--into-python", str(bench.python)) == 0
    return bench


def told(capsys):
    return capsys.readouterr().err


def test_its_packages_come_first_and_the_hosts_below(template, tmp_path):
    """The account's own stay out, and so does what its shell says."""
    own = tmp_path / f"home/.local/lib/python{MINOR}/site-packages"
    own.mkdir(parents=True)
    (own / "stray.py").touch()
    code = (
        "import sys, json, carried, given, shadowed, importlib.util as u\n"
        "print(json.dumps([sys.prefix, given.whose, shadowed.whose, u.find_spec('stray') is None,"
        " sys.executable, [p for p in sys.path if p.endswith('-packages')]]))"
    )
    done = subprocess.run(
        [template.environment / "bin/python3", "-c", code],
        env={"HOME": str(tmp_path / "home"), "LC_ALL": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    prefix, given, shadowed, clean, executable, path = json.loads(done.stdout)
    assert (prefix, executable) == (
        str(template.environment),
        str(template.environment / "bin/python3"),
    )
    assert (given, shadowed, clean) == ("the host", "the bundle", True)
    assert path == [str(template.environment / PACKAGES), str(template.folder / PACKAGES)]


def test_the_receipt_says_what_it_was_put_on(template, capsys):
    base = readiness.put_on(template.layout, template.release)
    assert base is not None
    assert base.python == str(template.python)
    assert base.executable == os.path.realpath(template.python)
    assert cli.main(["releases", "--prefix", str(template.layout.prefix)]) == 0
    assert f"on top of {template.python}" in capsys.readouterr().out


def forged(path: Path, program: Path, owner: int) -> None:
    """A receipt as a service account that owns `state/` can put it there."""
    told = json.loads(path.read_text())
    told["base"] = {"executable": str(program), "python": str(program), "sites": []}
    told["base"]["version"] = "3.12.3"
    path.unlink()
    path.write_text(json.dumps(told, sort_keys=True, separators=(",", ":")) + "\n")
    os.chown(path, owner, owner)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
@pytest.mark.parametrize("kind", ["overlay", "plain"])
@pytest.mark.parametrize("owner", [65534, 0])
def test_nobody_but_the_release_s_owner_names_a_program_to_run(tmp_path, kind, owner, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where `support` writes
    ran = tmp_path / "ran"
    evil = program(tmp_path / "evil", f"#!/bin/sh\ntouch '{ran}'\n")
    if kind == "overlay":
        bench = Bench(tmp_path)
        assert bench.install("--into-python", str(bench.python)) == 0
        layout, medium = bench.layout, bench.media
    else:
        medium, layout = killing.make(tmp_path / "media"), Layout(tmp_path / "p")
        words = ["--media", str(medium[0]), "--manifest", medium[1], "--prefix", str(layout.prefix)]
        ignored = ("--ignore", "port", "--ignore", "glibc")
        assert cli.main(["install", "--no-start", *ignored, *words]) == 0
    (release,) = placement.installed_releases(layout.prefix)
    receipt = placement.receipt_path(layout.prefix, release)
    forged(receipt, evil, owner)
    words = ["--prefix", str(layout.prefix)]
    for command in ("preflight", "doctor", "support", "audit"):
        cli.main([command, *words])
    medium_words = ["--media", str(medium[0]), "--manifest", medium[1]]
    cli.main(["repair", *medium_words, *words])
    if (kind, owner) == ("overlay", 0):  # root's own word: that is what it was put on
        assert ran.exists()
        return
    assert not ran.exists()
    assert not any(
        path.is_symlink() and path.readlink() == evil
        for path in (layout.environment(release) / "bin").glob("*")
    )


@pytest.mark.parametrize("command", ["install", "preflight"])
def test_an_overlay_has_to_be_told_its_place(template, tmp_path, capsys, command):
    words = [command, "--media", str(template.media[0]), "--manifest", template.media[1]]
    assert cli.main([*words, "--prefix", str(tmp_path / "x")]) == ExitCode.USAGE
    assert "--into-python /path/to/bin/python" in told(capsys)
    assert not (tmp_path / "x").exists()


def test_any_other_bundle_has_none(tmp_path, capsys):
    folder, digest = killing.make(tmp_path / "media")
    words = ["--media", str(folder), "--manifest", digest, "--into-python", "/usr/bin/python3"]
    assert cli.main(["install", *words, "--prefix", str(tmp_path / "x")]) == ExitCode.USAGE
    assert "brings a Python of its own" in told(capsys)
    words = ["preflight", "--into-python", "/usr/bin/python3"]
    assert cli.main([*words, "--prefix", str(tmp_path / "x")]) == ExitCode.USAGE


def test_a_second_run_takes_the_recorded_one(template, tmp_path, capsys):
    assert template.install() == 0
    assert template.install("--into-python", str(template.python)) == 0
    assert template.install("--into-python", str(template.python.with_name("python3"))) == 0
    assert template.install("--into-python", str(template.folder)) == 0
    other = bases.base(tmp_path / "other")
    assert template.install("--into-python", str(other)) == ExitCode.USAGE
    assert str(template.python) in told(capsys)


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_what_is_no_interpreter_is_refused(template, tmp_path, capsys):
    bench = template
    layout, bench.layout = bench.layout, Layout(tmp_path / "x")
    try:
        assert bench.install("--into-python", str(tmp_path / "none")) == ExitCode.USAGE
        assert "no such interpreter" in told(capsys)
        for number, (text, said) in enumerate(
            [
                ("#!/bin/sh\nexit 0\n", "not JSON"),
                ("#!/bin/sh\necho 'SyntaxError: invalid syntax' >&2; exit 1\n", "SyntaxError"),
                ("\0", "can't be run"),
            ]
        ):
            odd = program(tmp_path / f"python{number}", text)
            assert bench.install("--into-python", str(odd)) == ExitCode.TARGET
            assert said in (found := told(capsys)), found
            assert "base-python" in found
        assert not bench.layout.prefix.exists()
    finally:
        bench.layout = layout


def spoken(version: str = "", soabi: str = "") -> str:
    """An interpreter that says something else of itself."""
    return (
        '#!/bin/sh\n{python} "$@" | sed '
        f'-e \'s/"version":"3[.][0-9.]*"/"version":"{version}"/\' '
        f"-e 's/-linux-gnu\"/{soabi}\"/'\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [(spoken("3.9.2"), "its Python is 3.9.2"), (spoken("{same}", "-linux-musl"), "-linux-musl")],
)
def test_another_python_is_refused(template, tmp_path, capsys, text, said):
    layout, template.layout = template.layout, Layout(tmp_path / "x")
    found = basepython.take(template.python).interpreter.version
    text = text.replace("{python}", f'"{template.python}"').replace("{same}", found)
    try:
        odd = program(tmp_path / "python", text)
        words = ("--into-python", str(odd), "--ignore", "base-environment")
        assert template.install(*words) == ExitCode.TARGET
        assert said in told(capsys)
    finally:
        template.layout = layout


def test_an_interpreter_that_talks_at_its_start_is_understood(template, tmp_path):
    noisy = program(tmp_path / "python", f'#!/bin/sh\necho hello\nexec "{template.python}" "$@"\n')
    assert basepython.look(str(noisy)).inventory is not None


HARMS = {
    "pyvenv.cfg": "altered",
    f"{PACKAGES}/zz_vllm_bundle_base.pth": "altered",
    "bin/python": "link",
}


def test_what_was_generated_is_audited_and_mended_without_a_medium_read(bench, capsys):
    for name in HARMS:
        place = bench.environment / name
        if place.is_symlink():
            place.unlink()
            place.symlink_to("/usr/bin/env")
        else:
            place.write_bytes(place.read_bytes()[:-1] + b"x")
    (bench.environment / f"bin/python{MINOR}").unlink()
    prefix = str(bench.layout.prefix)
    assert cli.main(["audit", "--json", "--prefix", prefix]) == ExitCode.INTEGRITY
    record = json.loads(capsys.readouterr().out)
    start = f"releases/{bench.release}/env/"
    found = {f["path"].removeprefix(start): f["problem"] for f in record["findings"]}
    assert found == {**HARMS, f"bin/python{MINOR}": "missing"}
    assert bench.call("repair", "--json") == 0
    assert json.loads(capsys.readouterr().out)["read"] == 0
    assert cli.main(["audit", "--prefix", prefix]) == 0


def test_a_lost_receipt_can_not_be_invented(bench, capsys):
    placement.receipt_path(bench.layout.prefix, bench.release).unlink()
    assert bench.call("repair") == ExitCode.INTEGRITY
    assert "--into-python PATH" in told(capsys)
    untouched = (bench.environment / "bin/tool").stat().st_ino
    assert bench.install("--into-python", str(bench.python)) == 0
    assert (bench.environment / "bin/tool").stat().st_ino == untouched
    assert bench.call("repair") == 0


@pytest.mark.parametrize("receipt", ["there", "lost"])
def test_uninstall_takes_it_all_and_nothing_below(bench, receipt):
    if receipt == "lost":
        placement.receipt_path(bench.layout.prefix, bench.release).unlink()
    before = bases.digest(bench.folder)
    assert cli.main(["uninstall", "--yes", "--prefix", str(bench.layout.prefix)]) == 0
    assert not bench.layout.prefix.exists()
    assert bases.digest(bench.folder) == before


def test_a_base_that_was_upgraded_is_refused_until_it_is_back(bench):
    bench.start()
    text = {"given.py": "whose = 'the host'\n"}
    bases.put(bench.folder, "given", "2.0", text)
    with pytest.raises(TargetError, match=r"base-environment: given is 2\.0, needed is 1\.0"):
        bench.start()
    bases.put(bench.folder, "given", "1.0", {"given.py": "whose = 'somebody'\n"})
    with pytest.raises(TargetError, match=r"given 1\.0 has other files"):
        bench.start()
    bases.put(bench.folder, "given", "1.0", text)
    bases.put(bench.folder, "beside", "1.0", {})  # its own affair
    bench.start()
    shutil.rmtree(bench.folder / PACKAGES / "given-1.0.dist-info")
    with pytest.raises(TargetError, match=r"given 1\.0 is not there") as caught:
        bench.start()
    assert "bundlectl inventory" in caught.value.mend
    bench.python.unlink()
    with pytest.raises(TargetError, match=r"base-python.*can't be run") as caught:
        bench.start()
    assert str(bench.python) in caught.value.mend


def test_a_base_made_anew_with_another_program_is_refused(bench, tmp_path):
    other = tmp_path / "bin"
    other.mkdir()
    noisy = program(other / "python3", f'#!/bin/sh\nexec "{os.path.realpath(bench.python)}" "$@"\n')
    bench.python.unlink()
    bench.python.symlink_to(noisy)
    with pytest.raises(TargetError, match="base-"):
        bench.start()


def test_what_was_ignored_at_the_installation_stays_so(tmp_path, capsys):
    bench = Bench(tmp_path)
    bases.put(bench.folder, "given", "1.1", {})
    assert bench.install("--into-python", str(bench.python)) == ExitCode.TARGET
    assert "given is 1.1, needed is 1.0" in told(capsys)
    words = ("--into-python", str(bench.python), "--ignore", "base-environment")
    assert bench.install(*words) == 0
    bench.start()
    assert bench.install("--ignore", "base-python") == ExitCode.USAGE


def test_a_kill_leaves_nothing_that_passes_for_whole(tmp_path, template):
    """Around the moments at which the generated files appear."""
    host = killing.Host(template.media, tmp_path / "errors")
    words = ("--into-python", str(template.python))
    try:
        status, steps = host.install(tmp_path / "whole", words=words)
        assert status == 0, host.told()
        for step in range(steps - 26, steps - 2, 8):
            prefix = tmp_path / f"p{step}"
            assert host.install(prefix, step, words)[0] == -9
            status, _ = host.install(prefix, words=words)
            assert status == 0, host.told()
            assert cli.main(["audit", "--quiet", "--prefix", str(prefix)]) == 0
    finally:
        host.close()


def test_an_environment_may_not_bring_what_is_generated(template):
    simulator = Simulator(name="tiny")
    for path, value in (
        ("pyvenv.cfg", b""),
        ("bin/Python", b""),
        (f"bin/python{MINOR}", "tool"),
        ("lib", b""),
    ):
        content = {p: v for p, v in CARRIED.items() if not p.startswith(f"{path}/")}
        simulator.environment = {**content, path: value}
        manifest = bases.manifest_of(simulator, template.python)
        with pytest.raises(IntegrityError, match="env: "):
            bundle.parse(manifest.dump())


def test_generated_paths_need_no_folder_of_the_bundle():
    base = Base("/b/bin/python", "/usr/bin/python3.12", "3.12.3", ("/b/x",))
    listed = installed((), base)
    assert [e.path for e in listed if e.kind == tree.FOLDER] == [
        "bin", "lib", "lib/python3.12", "lib/python3.12/site-packages",
    ]  # fmt: skip
    assert {e.path for e in listed} >= {e.path for e, _ in generated(base)}
