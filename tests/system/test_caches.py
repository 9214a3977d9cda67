"""Compile caches from a rehearsal to the first start elsewhere; the stub compiles one kernel."""

import json

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import bundle, control, free_port, install

pytestmark = pytest.mark.e2e


def test_what_a_rehearsal_compiled_is_not_compiled_at_the_first_start(
    workplace, small_bundle, tmp_path, prefix
):
    kept = tmp_path / "kept.caches"
    proof = tmp_path / "proof.json"
    done = bundle("rehearse", str(small_bundle), "--keep-caches", str(kept), "--proof", str(proof))
    assert done.returncode == 0, done.stderr
    told = json.loads(proof.read_text())
    assert {"cold start", "one completion", "audit of the installation"} <= set(told["rehearsed"])
    assert {"without a network", "without compilers"} <= set(told["rehearsed"])
    assert told["not_rehearsed"] == []
    assert told["caches"]["files"] == 3
    carrying = workplace.create(tmp_path / "media", "--caches", str(kept))
    done = install(carrying, "--prefix", str(prefix), "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    assert "compile caches: 2 files carried for" in done.stderr
    assert "took a kernel from the cache" in control(prefix, "logs").stdout
    status = json.loads(control(prefix, "status", "--json").stdout)
    assert "used" in status["caches"][0]
    assert set(status["milliseconds"]) == {"checks", "listening", "answer"}
    assert control(prefix, "audit").returncode == 0
    refused = control(prefix, "rehearse", "--keep-caches", str(tmp_path / "another"))
    assert refused.returncode == ExitCode.USAGE
    assert "a server runs" in refused.stderr


def test_a_rehearsal_takes_no_folder_that_is_there(small_bundle, tmp_path):
    done = bundle("rehearse", str(small_bundle), "--prefix", str(tmp_path))
    assert done.returncode == ExitCode.USAGE
    assert "would be removed" in done.stderr
    assert tmp_path.is_dir()


def test_a_medium_that_is_damaged_is_told_as_its_installer_tells_it(own_bundle):
    with next(own_bundle.glob("*.tar")).open("r+b") as archive:
        archive.seek(4_000_000)
        archive.write(b"damage")
    done = bundle("rehearse", str(own_bundle))
    assert done.returncode == ExitCode.INTEGRITY, done.stderr
    assert list(own_bundle.parent.glob("*.rehearsal.json")) == []
