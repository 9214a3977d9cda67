"""On hosts without Python: BusyBox alone, and Debian's smallest."""

import json

import pytest

from manifests.exitcodes import ExitCode
from tests.support import roots


def the_whole_way(root: roots.Root) -> None:
    control = "/opt/vllm-bundle/bin/bundlectl"
    assert root.run(["sh", "-c", "command -v python3 || command -v python"]).returncode != 0
    done = root.run(["sh", "/media/bundle/install.sh"])
    assert done.returncode == 0, done.stderr
    assert "answers at http://127.0.0.1:8000" in done.stdout
    answers = [
        json.loads(root.run([control, "ask", "Hello", "--thinking", way, "--json"]).stdout)
        for way in ("on", "off")
    ]
    assert answers[0]["prompt_tokens"] != answers[1]["prompt_tokens"]
    for command in ([control, "audit"], ["sh", "/media/bundle/install.sh", "audit"]):
        done = root.run(command)
        assert done.returncode == 0, done.stdout + done.stderr
    assert root.run([control, "stop"]).returncode == 0
    assert root.run([control, "status"]).returncode == ExitCode.SERVER
    assert not list((root.folder / "tmp").glob("vllm-bundle.*"))


@pytest.fixture
def busybox(tmp_path, small_bundle):
    with roots.busybox_root(tmp_path / "root") as root:
        root.mount(small_bundle, "/media/bundle")
        yield root


def test_a_busybox_host(busybox):
    the_whole_way(busybox)


def test_a_host_without_proc(busybox):
    hidden = busybox.run(["umount", "/proc"])
    assert hidden.returncode == 0, hidden.stderr
    done = busybox.run(["sh", "/media/bundle/install.sh"])
    assert done.returncode == ExitCode.TARGET
    assert "/proc is not mounted" in done.stderr
    assert "mend: mount -t proc proc /proc" in done.stderr


@pytest.mark.parametrize("lacking", ["lib64/ld-linux-x86-64.so.2", "lib/libm.so.6"])
def test_a_host_without_glibc(busybox, lacking):
    (busybox.folder / lacking).unlink()
    done = busybox.run(["sh", "/media/bundle/install.sh"])
    assert done.returncode == ExitCode.TARGET
    assert "glibc" in done.stderr


@pytest.mark.e2e
def test_a_debian_host(tmp_path, small_bundle):
    with roots.debian_root(tmp_path / "root") as root:
        root.mount(small_bundle, "/media/bundle")
        the_whole_way(root)
