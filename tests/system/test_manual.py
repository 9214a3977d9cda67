"""The manual as it is carried: on the medium, in the installed tree, audited and mended."""

import subprocess

import pytest

from manifests.manual import topics
from manifests.manual.documents import documents
from tests.support.small import control, install

CLEAN = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


@pytest.fixture(scope="module")
def prefix(small_bundle, tmp_path_factory):
    prefix = tmp_path_factory.mktemp("manual") / "llm"
    done = install(small_bundle, "--prefix", str(prefix), "--no-start", "--quiet")
    assert done.returncode == 0, done.stderr
    return prefix


def test_it_is_read_from_the_medium_before_anything_is_installed(small_bundle):
    done = install(small_bundle, "help", "doctor", env=CLEAN | {"LANG": "zh_CN.UTF-8"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(topics.topic("doctor", "zh").title)


def test_tar_alone_takes_it_from_the_archive(small_bundle):
    (archive,) = small_bundle.glob("*.tar")
    for path, data in documents().items():
        done = subprocess.run(["tar", "-xOf", archive, path], capture_output=True, check=True)
        assert done.stdout == data


def test_it_lies_in_the_release_and_is_audited_and_mended(small_bundle, prefix):
    (release,) = (prefix / "releases").iterdir()
    lying = {path: release / path for path in documents()}
    assert {path: file.read_bytes() for path, file in lying.items()} == documents()
    page = lying["docs/manual.html"]
    page.chmod(0o644)
    page.write_bytes(page.read_bytes().replace(b"sha256", b"sha255"))
    lying["docs/manual.zh.txt"].unlink()
    found = control(prefix, "audit")
    assert found.returncode == 1
    assert "docs/manual.html" in found.stdout and "docs/manual.zh.txt" in found.stdout
    assert control(prefix, "repair", "--from", str(small_bundle)).returncode == 0
    assert control(prefix, "audit").returncode == 0


def test_the_installed_command_has_it(prefix):
    done = control(prefix, "help", "wsl2", "--lang", "en")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(topics.topic("wsl2", "en").title)
