"""A server that hashes its API key into what it compiles is started without it; see `command`."""

import subprocess
import sys

from bundlectl.command import program
from manifests.stack import Server

ENVS = (
    'import os\nenvironment_variables = {"VLLM_API_KEY": lambda: os.environ.get("VLLM_API_KEY")}\n'
)
SERVER = """\
import multiprocessing, os, sys
from vllm import envs

def tell(where):
    value = envs.environment_variables["VLLM_API_KEY"]()
    print(where, value, os.environ.get("VLLM_API_KEY"), flush=True)

if __name__ == "__main__":
    print(*sys.argv[1:], flush=True)
    tell("server")
    for kind in ("fork", "spawn"):
        process = multiprocessing.get_context(kind).Process(target=tell, args=(kind,))
        process.start()
        process.join()
"""


def run(tmp_path, server):
    package = tmp_path / "vllm"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "envs.py").write_text(ENVS)
    (package / "server.py").write_text(SERVER)
    words = program(sys.executable, server)
    variables = {"VLLM_API_KEY": "the-key", "PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [*words, "--model", "m"], env=variables, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_only_the_process_that_compares_keys_has_it(tmp_path):
    words, own, forked, spawned = run(tmp_path, Server("vllm.server", hashes_api_key=True))
    assert words == "--model m"
    assert own == "server the-key hidden"
    assert forked == "fork hidden hidden"
    assert spawned == "spawn hidden hidden"


def test_other_servers_are_started_as_they_are(tmp_path):
    assert run(tmp_path, Server("vllm.server"))[1] == "server the-key the-key"
