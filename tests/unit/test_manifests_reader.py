import dataclasses
import io
import shutil

import pytest

from manifests import archive, bundle
from manifests.audit import audit
from manifests.errors import BundleError, Damage, IntegrityError
from manifests.reader import BundleReader
from tests.support.simulator import Simulator


@pytest.fixture
def folder(tmp_path):
    return Simulator().write(tmp_path)


def read_all(data: bytes, expected: str = "") -> dict[str, bytes]:
    reader = BundleReader(io.BytesIO(data), expected)
    contents = {}
    for member in reader.manifest.members:
        with reader.member(member) as stream:
            contents[member.path] = stream.read()
    reader.finish()
    return contents


def test_gives_back_what_was_written(folder):
    path, digest = folder
    contents = read_all((path / f"{path.name}.tar").read_bytes(), digest)
    assert contents == Simulator().contents()


def test_archive_is_what_tar_itself_reads(folder):
    import tarfile

    path, _ = folder
    with tarfile.open(path / f"{path.name}.tar") as tar:
        names = tar.getnames()
    assert names == [archive.MANIFEST_NAME, *Simulator().contents()]


def test_length_is_known_before_writing(folder):
    path, _ = folder
    manifest = Simulator().manifest()
    size = (path / f"{path.name}.tar").stat().st_size
    assert size == manifest.archive_length(len(manifest.dump()))


def test_another_manifest_than_expected_is_refused(folder):
    path, _ = folder
    with pytest.raises(Damage, match=archive.MANIFEST_NAME):
        read_all((path / f"{path.name}.tar").read_bytes(), "0" * 64)


def test_every_flipped_byte_is_refused(folder):
    path, digest = folder
    data = bytearray((path / f"{path.name}.tar").read_bytes())
    for place in range(0, len(data), 7):
        data[place] ^= 1
        with pytest.raises(IntegrityError):
            read_all(bytes(data), digest)
        data[place] ^= 1


def test_every_truncation_is_refused(folder):
    path, digest = folder
    data = (path / f"{path.name}.tar").read_bytes()
    for end in range(0, len(data), 97):
        with pytest.raises(IntegrityError):
            read_all(data[:end], digest)


@pytest.mark.parametrize("tail", [b"\0", b"\0" * 10240, b"more"])
def test_bytes_after_the_end_are_refused(folder, tail):
    path, digest = folder
    with pytest.raises(Damage, match="the end of the archive"):
        read_all((path / f"{path.name}.tar").read_bytes() + tail, digest)


def test_a_long_name_survives(tmp_path):
    name = "a" * 90 + "/" + "b" * 90
    simulator = Simulator(model={name: b"x"})
    path, digest = simulator.write(tmp_path)
    contents = read_all((path / f"{path.name}.tar").read_bytes(), digest)
    assert contents[f"model/{name}"] == b"x"
    assert audit(path).intact


def test_media_audit_sees_every_flipped_byte_in_every_file(folder):
    path, _ = folder
    assert audit(path).intact
    for name in sorted(item.name for item in path.iterdir()):
        target = path / name
        original = target.read_bytes()
        for place in range(0, len(original), max(1, len(original) // 60)):
            data = bytearray(original)
            data[place] ^= 1
            target.write_bytes(data)
            report = audit(path)
            assert not report.intact, (name, place)
            assert report.findings[0].path
        target.write_bytes(original)
    assert audit(path).intact


def test_media_audit_names_the_member(folder):
    path, _ = folder
    tar = path / f"{path.name}.tar"
    data = bytearray(tar.read_bytes())
    place = data.index(bytes(range(256)))
    data[place] ^= 1
    tar.write_bytes(data)
    findings = audit(path).findings
    assert any("model/sub/weights.safetensors" in finding.path for finding in findings)


@pytest.mark.parametrize("kind", ["file", "hidden", "folder", "link"])
def test_media_audit_sees_what_does_not_belong(folder, kind):
    path, _ = folder
    stranger = path / (".hidden" if kind == "hidden" else "stranger")
    if kind == "folder":
        stranger.mkdir()
    elif kind == "link":
        stranger.symlink_to("install.sh")
    else:
        stranger.write_bytes(b"")
    (finding,) = audit(path).findings
    assert (finding.problem, finding.path) == ("extra", stranger.name)


def test_media_audit_sees_a_link_in_the_place_of_a_file(folder, tmp_path):
    path, _ = folder
    elsewhere = tmp_path / "elsewhere"
    shutil.move(path / "install.sh", elsewhere)
    (path / "install.sh").symlink_to(elsewhere)
    (finding,) = audit(path).findings
    assert (finding.problem, finding.path) == ("link", "install.sh")


def test_media_audit_names_the_missing_file(folder):
    path, _ = folder
    (path / f"{path.name}.tar").unlink()
    problems = {(finding.problem, finding.path) for finding in audit(path).findings}
    assert ("missing", f"{path.name}.tar") in problems


def test_an_archive_of_another_bundle_is_noticed(tmp_path):
    first, _ = Simulator().write(tmp_path / "a")
    other, _ = Simulator(model={"config.json": b"{ }"}).write(tmp_path / "b")
    name = f"{first.name}.tar"
    shutil.copy(other / name, first / name)
    sums = (first / "SHA256SUMS").read_text().splitlines(keepends=True)
    swapped = (other / "SHA256SUMS").read_text().splitlines(keepends=True)
    kept = [line for line in sums if name not in line] + [line for line in swapped if name in line]
    (first / "SHA256SUMS").write_text("".join(sorted(kept, key=lambda line: line[66:])))
    paths = [finding.path for finding in audit(first).findings]
    assert paths == ["the manifest that install.sh names"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "../evil"}, "not a plain name"),
        ({"schema": 0}, "schema"),
        ({"members": ()}, "is missing"),
    ],
)
def test_a_dishonest_manifest_is_refused(change, message):
    manifest = dataclasses.replace(Simulator().manifest(), **change)
    with pytest.raises(IntegrityError, match=message):
        bundle.parse(manifest.dump())


def test_a_newer_format_is_named():
    manifest = dataclasses.replace(Simulator().manifest(), schema=99)
    with pytest.raises(BundleError, match="format 99"):
        bundle.parse(manifest.dump())


def test_the_manifest_survives_a_round_trip():
    manifest = Simulator().manifest()
    assert bundle.parse(manifest.dump()) == manifest
