"""Bundles of format version 1 are read, audited and installed by this and every later release."""

import hashlib
import shutil
import signal
import subprocess
from contextlib import closing

import pytest

from bundlectl import cli
from manifests.audit import audit
from manifests.bundle import digest_of
from manifests.medium import ArchiveStream, Medium
from manifests.reader import BundleReader
from tests.support import golden

#: sha256 of the manifests and of SHA256SUMS, as they were when the format was made.
DIGESTS = {
    golden.WHOLE: (
        "b79a6710566f7eab9c3d35130621f7daa772ea49df58177f5d9b5329f1574e06",
        "6fbf20c3d3d5065a76799a4f8e040ed9bde1ab06d4916492a66e0b6e9e80a82a",
    ),
    golden.SPLIT: (
        "caa9984d6c496a569716801c4427d4659f4c0572b20f0e460c3b1ec19b35ab66",
        "9b2b8f708ace03f9a6792d8e386a8abef073efbfeac9ef3ce8b815d515d6f5a7",
    ),
}

pytestmark = pytest.mark.parametrize("name", DIGESTS)


@pytest.fixture(autouse=True)
def _signals():
    kept = {number: signal.getsignal(number) for number in (1, 2, 15)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


def test_nothing_in_the_repository_has_changed(name):
    listed = (golden.FOLDER / name / "SHA256SUMS").read_bytes()
    assert hashlib.sha256(listed).hexdigest() == DIGESTS[name][1]


def test_the_reader_accepts_it(name):
    digest = DIGESTS[name][0]
    contents = {}
    with closing(ArchiveStream(Medium(golden.FOLDER / name, (), digest))) as stream:
        reader = BundleReader(stream, digest)
        for member in reader.manifest.members:
            with reader.member(member) as data:
                contents[member.path] = data.read()
        reader.finish()
    assert reader.manifest.schema == 1
    assert contents == golden.Golden(name).contents()


def test_the_audit_finds_it_intact(name):
    report = audit(golden.FOLDER / name)
    assert report.intact, report.text()
    assert report.manifest_sha256 == (DIGESTS[name][0],)


def test_its_own_script_accepts_it(name, tmp_path):
    """The runtime in it does nothing, so all of this is the script of that release."""
    folder = golden.FOLDER / name
    done = subprocess.run(
        ["sh", str(folder / "install.sh"), "--prefix", str(tmp_path / "host")],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    # sh, in the place of Python, does not find the module bundlectl: everything before was right.
    assert done.stderr.count("error:") == 0, done.stderr
    assert not (tmp_path / "host").exists()


def test_it_is_installed_and_audited_there(name, tmp_path):
    host = tmp_path / "host"
    words = ["--media", str(golden.FOLDER / name), "--manifest", DIGESTS[name][0]]
    words += ["--prefix", str(host), "--ignore", "port", "--quiet", "install", "--no-start"]
    assert cli.main(words) == 0
    (release,) = (host / "releases").iterdir()
    assert (release / "env/etc/text").read_text() == f"prefix = {release}/env\n"
    report = audit(host)
    assert report.intact, report.text()
    (release / "env/etc/text").write_text("prefix = /elsewhere\n")
    assert [finding.path for finding in audit(host).findings] == [
        f"releases/{release.name}/env/etc/text"
    ]


def test_the_same_content_still_gives_the_same_archive(name, tmp_path):
    """Today's writer makes the bytes that the first one made, apart from its newer install.sh."""
    golden.write(tmp_path)
    ours, theirs = tmp_path / name, golden.FOLDER / name
    names = sorted(path.name for path in theirs.iterdir())
    assert sorted(path.name for path in ours.iterdir()) == names
    for file in names:
        if file not in ("install.sh", "SHA256SUMS"):
            assert (ours / file).read_bytes() == (theirs / file).read_bytes(), file
    manifest = golden.Golden(name).manifest().dump()
    assert digest_of(manifest) == DIGESTS[name][0]


def test_a_copy_with_one_bit_flipped_is_not_intact(name, tmp_path):
    folder = shutil.copytree(golden.FOLDER / name, tmp_path / name)
    for path in sorted(folder.iterdir()):
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        assert not audit(folder).intact, path.name
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    assert audit(folder).intact
