"""Preflight as a person runs it: from the medium, from the installation, in a bare network."""

import json
import os
import subprocess

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import control, free_port, install


def found(done):
    return {one["name"]: one for one in json.loads(done.stdout)["findings"]}


def test_what_install_sh_changes_is_told_all_the_same(small_bundle, tmp_path):
    """It sets umask and locale and removes the loader's variables before Python starts."""
    words = ("preflight", "--prefix", str(tmp_path / "h"), "--port", str(free_port()), "--json")
    env = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/",
        "LD_LIBRARY_PATH": "/secret/cuda/lib64",
        "LANG": "C",
    }
    masked = ("sh", "-c", 'umask 077; exec sh "$0" "$@"')
    done = install(small_bundle, *words, shell=masked, env=env)
    assert done.returncode == 0, done.stderr
    told = found(done)
    assert told["umask"]["found"].startswith("0077")
    assert told["locale"]["found"].startswith("C;")
    assert told["home"]["passed"] is False
    assert told["loader"]["found"] == "LD_LIBRARY_PATH set; the server does not get it"
    assert "secret" not in done.stdout


def test_from_the_installation_without_a_medium(small_bundle, prefix):
    words = ("--prefix", str(prefix), "--port", str(free_port()), "--no-start")
    ignored = ("--ignore", "swap", "--ignore", "loopback")
    assert install(small_bundle, *words, *ignored).returncode == 0
    done = control(prefix, "preflight", "--json")
    assert done.returncode == 0, done.stderr
    record = json.loads(done.stdout)
    assert record["subject"].startswith(small_bundle.name)
    one = record["findings"][-1]
    assert set(one) == {"name", "level", "passed", "found", "needed", "mend", "ignored"}
    told = control(prefix, "preflight").stdout.splitlines()
    assert told[-1].endswith("checks passed")
    assert len(control(prefix, "preflight", "--all").stdout.splitlines()) > len(told) + 40
    lines = control(prefix, "preflight", "--list").stdout.splitlines()
    assert len(lines) == len(record["findings"]) >= 40
    assert control(prefix, "preflight", "--ignore", "prot").returncode == ExitCode.USAGE
    # No network but a loopback that is down: a stop, were it not ignored at the installation.
    command = ["unshare", "--net", str(prefix / "bin/bundlectl"), "preflight", "--json"]
    bare = subprocess.run(command, env={"PATH": os.defpath}, capture_output=True, text=True)
    if "unshare" in bare.stderr:
        pytest.skip("new namespaces are not allowed here")
    assert bare.returncode == 0, bare.stderr
    told = found(bare)["loopback"]
    assert (told["passed"], told["ignored"]) == (False, True)


def test_a_bare_network_is_refused_with_its_mend(small_bundle, tmp_path):
    words = ("preflight", "--prefix", str(tmp_path / "h"), "--port", str(free_port()))
    done = install(small_bundle, *words, shell=("unshare", "--net", "sh"))
    if "unshare" in done.stderr:
        pytest.skip("new namespaces are not allowed here")
    assert done.returncode == ExitCode.TARGET
    assert done.stdout.startswith("stops:\n  ")
    assert "mend: run: ip link set lo up" in done.stderr or "loopback: " in done.stderr
    assert not (tmp_path / "h").exists()
