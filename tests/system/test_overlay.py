"""A server on top of an environment of the host, and what becomes of it when that is upgraded."""

import dataclasses
import hashlib
from pathlib import Path

import pytest
import zstandard

from bundler import media
from manifests import bundle
from manifests.reader import BundleReader
from tests.support import bases
from tests.support.bases import CARRIED, PACKAGES
from tests.support.simulator import archive_of, entries
from tests.support.small import ROOT, control, free_port, install

pytestmark = pytest.mark.e2e


def overlay(small: Path, output: Path, python: Path) -> Path:
    """The small bundle with the stub alone in its environment, which imports what the host has."""
    stub = (ROOT / "tests/support/stub_vllm.py").read_bytes()
    content = {**CARRIED, f"{PACKAGES}/stub_vllm.py": stub + b"\nimport carried\n"}
    packed = zstandard.compress(archive_of(content))
    contents = {}
    with (small / f"{small.name}.tar").open("rb", buffering=0) as raw:
        reader = BundleReader(raw)
        for member in reader.manifest.members:
            with reader.member(member) as stream:
                contents[member.path] = stream.read()
    contents[bundle.ENVIRONMENT_MEMBER] = packed
    manifest = dataclasses.replace(
        reader.manifest,
        name="small+overlay",
        environment=entries(content),
        overlay=bases.overlay(python, "given"),
        members=tuple(
            dataclasses.replace(one, size=len(packed), sha256=hashlib.sha256(packed).hexdigest())
            if one.path == bundle.ENVIRONMENT_MEMBER
            else one
            for one in reader.manifest.members
        ),
    )
    openers = {path: media.bytes_opener(data) for path, data in contents.items()}
    media.write(output / manifest.name, manifest, openers, lambda count: None)
    return output / manifest.name


def test_a_server_outlives_an_upgrade_below_it_and_the_next_start_is_refused(
    small_bundle, tmp_path, prefix
):
    folder = tmp_path / "the host's own"
    python = bases.base(folder)
    (tmp_path / "media").mkdir()
    medium = overlay(small_bundle, tmp_path / "media", python)
    before = bases.digest(folder)
    words = ("--prefix", str(prefix), "--port", str(free_port()))
    assert "--into-python" in install(medium, *words).stderr
    assert not prefix.exists()
    done = install(medium, *words, "--into-python", str(python))
    assert done.returncode == 0, done.stderr
    for command in (("ask", "Hello"), ("audit",), ("restart",), ("rehearse",)):
        done = control(prefix, *command)
        assert done.returncode == 0, done.stderr
    assert bases.digest(folder) == before
    bases.put(folder, "given", "2.0", {"given.py": "whose = 'the host'\n"})
    done = control(prefix, "restart")
    assert done.returncode == 5
    assert "given is 2.0, needed is 1.0" in done.stderr
    assert control(prefix, "ask", "Hello").returncode == 0
    done = control(prefix, "doctor")
    assert done.returncode == 5
    assert "base-environment" in done.stdout
    assert control(prefix, "stop").returncode == 0
    assert control(prefix, "start").returncode == 5
    before = bases.digest(folder)
    assert control(prefix, "uninstall", "--yes").returncode == 0
    assert not prefix.exists()
    assert bases.digest(folder) == before
