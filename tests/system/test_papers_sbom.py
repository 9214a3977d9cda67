"""`bundle sbom` on a bundle that `bundle create` made: the same bytes by all three ways."""

import hashlib
import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from manifests.exitcodes import ExitCode
from tests.support.connected import refused
from tests.support.small import bundle
from tests.support.variants import manifest_of

MEMBER = "papers/sbom.cdx.json"


@pytest.fixture(scope="module")
def of_lock(bench):
    """The words that say where a lock's packages are."""
    place = bench.place
    return (
        *("--channel", bench.channel, "--stack", str(bench.stack), "--model", str(place.model)),
        *("--find-links", str(place.links), "--cache", str(place.cache)),
    )


def asked(*words):
    done = bundle("sbom", *map(str, words))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def carried(small_bundle):
    return asked(small_bundle)


def test_the_same_from_a_lock_a_medium_and_an_installation(
    bench, small_bundle, host, of_lock, carried
):
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(carried) is None
    assert asked(small_bundle, "--recompute") == carried
    assert asked(host, "--recompute") == carried
    assert asked(bench.lock, *of_lock, "--offline") == carried


def test_it_is_a_member_and_a_file_of_the_release(small_bundle, host, carried):
    members = {one.path: one for one in manifest_of(small_bundle)[0].members}
    data = (host / "current" / MEMBER).read_bytes()
    assert hashlib.sha256(data).hexdigest() == members[MEMBER].sha256
    assert data.decode() == carried
    paths = list(members)
    assert paths.index("runtime.tar.gz") < paths.index(MEMBER) < paths.index("env.tar.zst")


def test_into_a_file(host, tmp_path, carried):
    path = tmp_path / "sbom.json"
    record = json.loads(asked(host, "--output", path, "--json"))
    assert record["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.read_text() == carried


def test_what_is_in_it(carried):
    found = {one["bom-ref"].partition("@")[0]: one for one in json.loads(carried)["components"]}
    assert {
        "environment/wheel/stub-vllm",
        "runtime/wheel/h11",
        "runtime/code/vllm-bundle",
    } <= found.keys()
    (model,) = (one for one in found.values() if one["type"] == "machine-learning-model")
    assert "model.safetensors" in {file["name"] for file in model["components"]}


def test_what_is_no_bundle(tmp_path, bench):
    refused(bundle("sbom", str(tmp_path)), ExitCode.USAGE, "no bundle")
    refused(bundle("sbom", str(bench.lock), "--cache", str(tmp_path)), ExitCode.USAGE, "--channel")


def test_one_that_was_altered(own_bundle):
    path = own_bundle / f"{own_bundle.name}.tar"
    data = bytearray(path.read_bytes())
    data[data.index(b'"bomFormat"') + 3] ^= 1
    path.write_bytes(data)
    refused(bundle("sbom", str(own_bundle)), ExitCode.INTEGRITY, MEMBER)
