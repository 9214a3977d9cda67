"""All papers of one bundle: the same bytes wherever they are made, and one story in all of them."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.connected import COMMAND
from tests.support.small import ROOT, environment
from tests.support.variants import manifest_of

pytestmark = pytest.mark.e2e
_VULNS = (
    "vulns",
    "NAME",
    "--database",
    str(ROOT / "tests/data/vulns/osv"),
    "--today",
    "2026-12-01",
)
#: File → the command whose standard output it is, run beside the bundle's folder.
PAPERS = {
    "sbom.cdx.json": ("sbom", "NAME"),
    "sbom-again.cdx.json": ("sbom", "NAME", "--recompute"),
    "licences.txt": ("licences", "NAME"),
    "licences.json": ("licences", "NAME", "--format", "json"),
    "licences.md": ("licences", "NAME", "--format", "md", "--language", "zh"),
    "licences.html": ("licences", "NAME", "--format", "html"),
    "vulns.json": (*_VULNS, "--format", "json"),
    "vulns.md": (*_VULNS, "--format", "md"),
    "vulns.html": (*_VULNS, "--format", "html", "--language", "zh"),
    "approval.json": ("record", "NAME", "--json"),
    "audit.json": ("audit", "NAME", "--format", "json"),
    "audit.html": ("audit", "NAME", "--format", "html", "--lang", "zh"),
    "audit.xml": ("audit", "NAME", "--format", "junit"),
    "audit.sarif": ("audit", "NAME", "--format", "sarif"),
    "inspect.json": ("inspect", "NAME", "--json"),
}
#: Papers that a command writes beside its answer.
WRITTEN = {
    "approval.html": ("record", "NAME", "--language", "both", "--html", "approval.html"),
    "provenance.json": ("provenance", "NAME", "--output", "provenance.json"),
}


def made(folder: Path, work: Path, **variables: str) -> dict[str, bytes]:
    """Every paper; `work` gets a link to the bundle, so that its place has no name of its own."""
    (work / folder.name).symlink_to(folder)
    found = {}
    for name, words in (PAPERS | WRITTEN).items():
        command = [folder.name if word == "NAME" else word for word in words]
        done = subprocess.run(
            [*COMMAND, *command],
            env=environment(**variables),
            cwd=work,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (name, done.stderr.decode())
        found[name] = (work / name).read_bytes() if name in WRITTEN else done.stdout
    return found


@pytest.fixture(scope="module")
def here(small_bundle, tmp_path_factory):
    work = tmp_path_factory.mktemp("here")
    return made(small_bundle, work, TZ="UTC", LC_ALL="C.UTF-8", PYTHONHASHSEED="0")


def test_the_same_bytes_wherever_they_are_made(here, small_bundle, tmp_path):
    elsewhere = tmp_path / "far away" / "médias"
    elsewhere.mkdir(parents=True)
    (elsewhere / "home").mkdir()
    copy = Path(shutil.copytree(small_bundle, elsewhere / "copy" / small_bundle.name))
    there = made(
        copy,
        elsewhere,
        TZ="Asia/Kathmandu",
        HOME=str(elsewhere / "home"),
        USER="mallory",
        LOGNAME="mallory",
        PYTHONHASHSEED="7",
    )
    for name, data in here.items():
        assert data == there[name], name


def test_none_of_them_knows_this_machine(here, small_bundle):
    told = (str(small_bundle.parent), str(Path.home()), sys.prefix, os.uname().nodename)
    for name, data in here.items():
        for text in told:
            if len(text) > 5:  # /root, or a host that is called `vm`
                assert text.encode() not in data, (name, text)


def test_all_tell_of_one_bundle(here, small_bundle):
    manifest, digest = manifest_of(small_bundle)
    stated = json.loads(here["provenance.json"])
    subjects = {one["name"]: one["digest"]["sha256"] for one in stated["subject"]}
    assert subjects["bundle.json"] == digest
    for name in ("approval.json", "audit.json", "inspect.json", "approval.html"):
        assert digest.encode() in here[name], name
    for name in ("approval.json", "approval.html"):  # the one number that people compare
        assert subjects["SHA256SUMS"].encode() in here[name], name
    for name in ("sbom.cdx.json", "approval.json", "provenance.json"):
        assert manifest.lock_sha256.encode() in here[name], name


def test_the_bill_and_the_inputs_are_one(here):
    """Each artefact of the SBOM is an input of the provenance by the same purl and digest."""
    stated = json.loads(here["provenance.json"])
    inputs = {
        (one.get("uri"), one.get("digest", {}).get("sha256"))
        for one in stated["predicate"]["buildDefinition"]["resolvedDependencies"]
    }
    components = json.loads(here["sbom.cdx.json"])["components"]
    seen = 0
    for one in components:
        sums = {entry["content"] for entry in one.get("hashes", ()) if entry["alg"] == "SHA-256"}
        if one["purl"].startswith(("pkg:pypi/", "pkg:conda/")):
            assert any((one["purl"], digest) in inputs for digest in sums), one["purl"]
            seen += 1
    assert seen > 5
    assert here["sbom.cdx.json"] == here["sbom-again.cdx.json"]
