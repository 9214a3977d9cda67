"""Building and what goes wrong with it: a real ninja, a real compiler, a little source.

The stand-in for nvcc is a script that hands its arguments to the C compiler after doing what the
test is about; all else is as for flash-attn itself.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from manifests.errors import FilesystemError, IntegrityError, SourceError, UsageError
from manifests.lock import COMPUTED, Build, Patch
from tests.support.flashattn import little
from tests.support.mounts import needs_root, tmpfs
from wheelhouse.flashattn import compiling, isolation, objects, workspace
from wheelhouse.store import Store

UNITS = 4
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not (shutil.which("ninja") and shutil.which("cc")), reason="needs ninja and a C compiler"
)


def recipe(store, folder, patches=()):
    source = little(folder, UNITS)
    with source.open("rb", buffering=0) as handle:
        digest = store.adopt(handle)
    return Build(
        name="flash-attn",
        version="1.0",
        label="cu130torch2.13cxx11abitrue.sm80",
        filename=source.name,
        url=f"file:{source.name}",
        sha256=digest,
        archs=("80",),
        units=UNITS,
        torch="2.13.0",
        cuda="13.0",
        environment=(),
        patches=patches,
        digest_from=COMPUTED,
    )


def stand_in(home, before=""):
    (home / "bin").mkdir(parents=True, exist_ok=True)
    program = home / "bin/nvcc"
    program.write_text(f'#!/bin/sh\n{before}\nexec cc "$@"\n')
    program.chmod(0o755)


@pytest.fixture
def place(tmp_path):
    """A workspace with everything laid out, and how to build in it."""
    return Place(tmp_path, tmp_path / "work")


class Place:
    def __init__(self, folder, root):
        self.store = Store(folder / "objects")
        self.build = recipe(self.store, folder)
        self.root = root
        self.told = []
        stand_in(root / "cuda")

    def run(self, jobs=1, python=sys.executable):
        with workspace.opened(self.root) as space:
            workspace.lay_source(self.build, self.store, space)
            return compiling.build_wheel(
                self.build,
                space,
                python=Path(python),
                jobs=jobs,
                environment=os.environ,
                progress=self.told.append,
            )

    def objects(self):
        return sorted((self.root / "source/build").rglob("*.o"))


def test_a_wheel_comes_out_and_every_unit_is_told(place):
    made = place.run()
    assert made.wheel.name.startswith("flash_attn-1.0+cu130torch2.13cxx11abitrue.sm80-cp")
    assert made.units == UNITS
    assert place.told == [1] * UNITS + [0]


def test_what_was_compiled_is_not_compiled_again(place):
    place.run()
    times = {path: path.stat().st_mtime_ns for path in place.objects()}
    place.told.clear()
    again = place.run()
    assert again.units == 0
    assert sum(place.told) == UNITS
    assert {path: path.stat().st_mtime_ns for path in place.objects()} == times


def test_the_same_source_gives_the_same_bytes(place, tmp_path):
    first = place.run().wheel.read_bytes()
    shutil.rmtree(place.root / "source")
    time.sleep(1.1)  # a zip archive's clock ticks every two seconds
    assert place.run().wheel.read_bytes() == first


def test_there_is_no_network_and_no_secret(place, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        stand_in(
            place.root / "cuda",
            f'{sys.executable} -c "{reach}" 2>/dev/null && echo REACHED\nenv; cat /proc/net/dev',
        )
        place.run()
    said = (place.root / "build.log").read_text()
    assert "very-secret" not in said
    assert "proxy.example" not in said
    assert "REACHED" not in said
    assert "lo:" in said
    assert "eth0" not in said
    for line in ("FLASH_ATTENTION_FORCE_BUILD=TRUE", "FLASH_ATTN_CUDA_ARCHS=80", "NVCC_THREADS=1"):
        assert line in said
    assert "TORCH_CUDA_ARCH_LIST=8.0" in said


def test_without_namespaces_a_machine_that_has_routes_is_refused(monkeypatch):
    monkeypatch.setattr(isolation.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(isolation, "has_routes", lambda: True)
    with pytest.raises(UsageError, match="can't be cut off from the network") as caught:
        isolation.isolated()
    assert "unshare" in caught.value.why
    monkeypatch.setattr(isolation, "has_routes", lambda: False)
    assert isolation.isolated() == ()


def test_routes_of_loopback_lead_nowhere(tmp_path):
    assert not isolation.has_routes(tmp_path)
    (tmp_path / "route").write_text("Iface Destination\nlo 00000000\n")
    (tmp_path / "ipv6_route").write_text("00000000 00 0000 00 0000 ffffffff 1 0 00200200 lo\n")
    assert not isolation.has_routes(tmp_path)
    (tmp_path / "ipv6_route").write_text("00000000 00 0000 00 0000 00000400 1 0 00000001 eth0\n")
    assert isolation.has_routes(tmp_path)
    (tmp_path / "ipv6_route").unlink()
    (tmp_path / "route").write_text("Iface Destination\neth0 00000000\n")
    assert isolation.has_routes(tmp_path)


def test_an_ordinary_user_gets_the_same_namespaces():
    command = isolation.isolated(root=False)
    done = subprocess.run([*command, "id", "-u"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0\n")


_KILLED = """
import os, sys
from pathlib import Path
from manifests.lock import Build
from wheelhouse.flashattn import compiling, workspace
from tests.unit.test_wheelhouse_flashattn_build import recipe
from wheelhouse.store import Store
folder, root = Path(sys.argv[1]), Path(sys.argv[2])
store = Store(folder / "objects")
build = recipe(store, folder)
with workspace.opened(root) as space:
    workspace.lay_source(build, store, space)
    compiling.build_wheel(build, space, python=Path(sys.executable), jobs=1,
                          environment=os.environ, progress=lambda n: print("unit", flush=True))
"""


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_build_leaves_nobody_behind_and_is_continued(place, tmp_path, ending):
    # The third unit's object is half written, and its compiler waits, when the kill comes.
    stand_in(
        place.root / "cuda",
        'case "$*" in *unit2.c*) for last; do :; done\n'
        'head -c 100 /proc/self/exe >"$last"; echo $$ >"$last.pid"; exec sleep 600;; esac',
    )
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(tmp_path), str(place.root)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 30
    while not list(place.root.rglob("unit2.o.pid")):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.05)
    with pytest.raises(UsageError, match="another `bundle` is building"):
        place.run()
    process.send_signal(ending)
    process.wait()
    deadline = time.monotonic() + 10
    while _sleepers(place.root):
        assert time.monotonic() < deadline, "compilers outlive the kill"
        time.sleep(0.05)
    assert len(place.objects()) == 3
    stand_in(place.root / "cuda")
    # The command is the same text as before, so only what was not finished is compiled.
    made = place.run()
    assert made.units == UNITS - 2
    assert sum(place.told) == UNITS
    assert all(objects.sound(path) for path in place.objects())


def _sleepers(root):
    """Processes that still hold the workspace's lock."""
    try:
        with workspace.opened(root):
            return False
    except UsageError:
        return True


def test_half_written_objects_are_removed(tmp_path):
    whole, cut_off, empty = (tmp_path / f"{name}.o" for name in ("whole", "cut", "empty"))
    (tmp_path / "a.c").write_text("int a(void) { return 1; }\n")
    subprocess.run(["cc", "-c", tmp_path / "a.c", "-o", whole], check=True)
    cut_off.write_bytes(whole.read_bytes()[:-1])
    empty.touch()
    assert objects.drop_broken(tmp_path) == (cut_off, empty)
    assert whole.exists()


@pytest.mark.parametrize("name", ["my cache", "a$b", 'a"b', "a,b"])
def test_a_folder_that_would_fall_apart_in_a_command_line_is_refused(tmp_path, name):
    with (
        pytest.raises(UsageError, match="compilers can't work") as caught,
        workspace.opened(tmp_path / name),
    ):
        pass
    assert "--cache" in caught.value.mend
    assert not (tmp_path / name).exists()


def failing(place, before, error):
    stand_in(place.root / "cuda", before)
    with pytest.raises(error) as caught:
        place.run()
    assert any("build.log" in line for line in caught.value.findings)
    assert caught.value.mend
    return caught.value


def test_the_compilers_own_words_are_quoted(place):
    wrong = 'case "$*" in *unit1.c*) set -- -DX -include /nowhere.h "$@";; esac'
    error = failing(place, wrong, UsageError)
    assert any("/nowhere.h: No such file" in line for line in error.findings)
    # What was compiled before is kept.
    stand_in(place.root / "cuda")
    assert place.run().units == UNITS - 1


def test_a_compiler_that_the_kernel_kills_is_told_as_lack_of_memory(place, tmp_path):
    # GCC's own driver reports its own compiler proper, which kills itself as the kernel would.
    (tmp_path / "gcc").mkdir()
    killed = tmp_path / "gcc/cc1"
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    killed.chmod(0o755)
    error = failing(place, f'set -- -B{killed.parent} "$@"', UsageError)
    assert "killed the compiler (cc1)" in error.what
    assert "MAX_JOBS=1" in error.mend


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "killed the compiler (cicc)"),
        ("nvcc error   : 'ptxas' died due to signal 11 (Invalid memory reference)", "(ptxas)"),
        ("cudafe++: not found", "compilers is missing: cudafe++"),
        ("#error -- unsupported GNU version! gcc later than 15", "does not accept this machine's"),
    ],
)
def test_what_nvcc_says_is_understood(place, says, words):
    assert words in failing(place, f'echo "{says}" >&2; exit 1', UsageError).what


def test_a_compiler_that_crashes_without_a_word_is_told_with_what_ninja_says(place):
    error = failing(place, "kill -SEGV $$", UsageError)
    assert error.what == "flash-attn could not be compiled"
    assert any("FAILED" in line for line in error.findings)


def test_a_compiler_that_is_not_there_is_named(place):
    (place.root / "cuda/bin/nvcc").unlink()
    with pytest.raises(UsageError, match="missing: nvcc"):
        place.run()


def test_a_missing_build_tool_is_named(place, tmp_path):
    python = tmp_path / "empty/bin/python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "empty"], check=True)
    with pytest.raises(SourceError, match="lacks the Python module setuptools"):
        place.run(python=python)


@needs_root
def test_a_full_disk_is_told_and_the_build_continues_with_more(tmp_path):
    with ExitStack() as stack:
        small = stack.enter_context(tmpfs(tmp_path / "small", "size=2m"))
        place = Place(tmp_path, small / "work")
        stand_in(
            place.root / "cuda", 'case "$*" in *unit2.c*) cat /dev/zero >fill || exit 1;; esac'
        )
        with pytest.raises(FilesystemError, match="disk became full") as caught:
            place.run()
        assert "continues" in caught.value.mend
        for path in small.rglob("fill"):
            path.unlink()
        stand_in(place.root / "cuda")
        assert place.run().units == UNITS - 2


def test_a_patch_is_applied_and_its_result_compared(place, tmp_path):
    sha256 = workspace.hash_file
    old, new = "return 1;", "return 11;"
    text = f"int number1(void) {{ {new} }}\n"
    expected = tmp_path / "expected"
    expected.write_text(text)
    patch = Patch("unit1.c", old, new, "a reason", sha256(expected))
    place.build = recipe(place.store, tmp_path, (patch,))
    place.run()
    assert (place.root / "source/unit1.c").read_text() == text
    for wrong in (
        Patch("unit1.c", "absent", new, "", "0" * 64),
        Patch("unit1.c", old, new, "", "0" * 64),
    ):
        shutil.rmtree(place.root / "source")
        place.build = recipe(place.store, tmp_path, (wrong,))
        with pytest.raises(IntegrityError):
            place.run()
        assert not (place.root / "source").exists()
        (place.root / "source").mkdir()
