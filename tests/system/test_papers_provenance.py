"""Provenance of a real bundle: rehearsed, signed, checked by openssl, made again by its words."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bundler import signing
from bundler.papers import dsse, provenance_reading
from manifests.exitcodes import ExitCode
from tests.support.connected import refused
from tests.support.small import bundle
from tests.support.variants import manifest_of


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return signing.write_pair(tmp_path_factory.mktemp("keys"))


def test_a_bundle_is_stated_signed_and_checked(small_bundle, pair, tmp_path):
    out = tmp_path / "stated.json"
    done = bundle("provenance", str(small_bundle), "--key", str(pair.private), "--output", str(out))
    assert done.returncode == 0, done.stderr
    words = ("provenance", str(small_bundle), "--verify", str(out), "--key")
    done = bundle(*words, str(pair.public))
    assert done.returncode == 0, done.stderr
    assert f"signed by the key {pair.fingerprint}" in done.stdout
    envelope = dsse.parse(json.loads(out.read_text()), "file")
    _nothing_of_this_machine(envelope.payload, small_bundle)
    _inputs_are_the_locks(json.loads(envelope.payload), small_bundle)
    changed = envelope.payload.replace(b'"thinking":true', b'"thinking":null')
    out.write_bytes(dsse.sign(changed, dsse.signer_of(pair.private, str)))
    done = bundle(*words, str(pair.public))
    refused(done, ExitCode.INTEGRITY, "externalParameters.thinking: None, of this bundle True")


def _nothing_of_this_machine(data: bytes, folder: Path) -> None:
    for text in (os.uname().nodename, str(Path.home()), str(folder.parent), "/tmp/"):
        if len(text) > 4:  # a host may have the name `vm`
            assert text.encode() not in data, text


def _inputs_are_the_locks(stated: dict, folder: Path) -> None:
    """Every digest of the lock is there, and no other."""
    definition = stated["predicate"]["buildDefinition"]
    locked = provenance_reading.look(folder)[0].lock
    found = {
        one["digest"]["sha256"]
        for one in definition["resolvedDependencies"]
        if "sha256" in one.get("digest", {})
    }
    packages = (*locked.wheels, *locked.runtime_wheels, *locked.conda, *locked.runtime_conda)
    published = {
        one.derived.sha256 if getattr(one, "derived", None) else one.sha256 for one in packages
    }
    assert found == published | {file.sha256 for part in locked.parts for file in part.files}


@pytest.mark.e2e
def test_rehearsed_stated_and_checked_with_openssl(small_bundle, pair, tmp_path):
    folder = Path(shutil.copytree(small_bundle, tmp_path / small_bundle.name))
    done = bundle("rehearse", str(folder))
    assert done.returncode == 0, done.stderr
    done = bundle("provenance", str(folder), "--key", str(pair.private), "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    (proof,) = (
        one
        for one in told["statement"]["predicate"]["runDetails"]["byproducts"]
        if one["name"].endswith(".rehearsal.json")
    )
    assert {"cold start", "one completion"} <= set(proof["annotations"]["rehearsed"])
    shutil.copy(told["file"], tmp_path / "FILE")
    shutil.copy(pair.public, tmp_path / "PUB.pem")
    done = subprocess.run(
        ["sh", "-ec", dsse.BY_HAND], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "Verified OK" in done.stdout, done.stderr
    assert json.loads((tmp_path / "statement").read_bytes()) == told["statement"]


@pytest.mark.e2e
def test_its_words_make_the_bundle_again(bench, small_bundle, tmp_path):
    """In another folder; what a person has to know beside is where the wheels and the stack lie."""
    done = bundle("provenance", str(small_bundle), "--output", str(tmp_path / "x"), "--json")
    definition = json.loads(done.stdout)["statement"]["predicate"]["buildDefinition"]
    first, second = definition["internalParameters"]["commands"]
    done = bundle(*first[1:], cwd=small_bundle.parent)
    assert done.returncode == 0, done.stderr
    (tmp_path / "bundle.lock").write_text(done.stdout)
    (tmp_path / bench.place.model.name).symlink_to(bench.place.model)
    known = {"--stack": str(bench.stack), "--channel": bench.channel}
    for option, value in known.items():
        second[second.index(option) + 1] = value
    beside = ("--find-links", str(bench.place.links), "--cache", str(bench.place.cache))
    done = bundle(*second[1:], *beside, "--output", "again", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (again,) = (tmp_path / "again").iterdir()
    assert manifest_of(again)[1] == manifest_of(small_bundle)[1]
