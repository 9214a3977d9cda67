import dataclasses
import json
import os
import shutil

import jsonschema
import pytest
import zstandard

from bundler import inspecting, schemas
from bundler.inspecting import licences, text
from manifests import lock, placement
from manifests.bundle import release_id
from manifests.errors import Damage, IntegrityError, SourceError, UsageError
from manifests.placement import Receipt
from tests.support.locked import Locked, a_lock, conda, wheel
from tests.support.simulator import ENVIRONMENT, MODEL, Simulator, archive_of, sha256

WEIGHTS = {"config.json": b"{}", "weights.safetensors": bytes(range(256)) * 1500}
SIZE = 100_000
PURE = "lib/python3.11/site-packages"
METADATA = {
    "a": "Metadata-Version: 2.4\nName: a\nVersion: 1\nLicense-Expression: MIT\n\ntext",
    "b": "Metadata-Version: 2.1\nName: B\nVersion: 2\n",
}


def look(path, *volumes_in, **options):
    """The record, as a machine reads it, and the screen."""
    found = inspecting.inspect(inspecting.find(path, volumes_in), **options)
    record = json.loads(json.dumps(found.as_record()))
    jsonschema.validate(record, json.loads(schemas.text("inspect")))
    return record, text.render(found)


def installed(prefix, bundle, digest, in_service=True):
    """The papers that an install leaves."""
    manifest = bundle.manifest()
    release = release_id(manifest.name, digest)
    folder = prefix / placement.RELEASES / release
    folder.mkdir(parents=True)
    (folder / "bundle.json").write_bytes(manifest.dump())
    (folder / "bundle.lock").write_bytes(bundle.contents()["bundle.lock"])
    receipt = placement.receipt_path(prefix, release)
    receipt.parent.mkdir(parents=True, exist_ok=True)
    receipt.write_bytes(Receipt(1, release, digest, str(prefix), 0, "test").dump())
    if in_service:
        (prefix / placement.CURRENT).symlink_to(folder)
    return folder


@pytest.fixture
def bundle(tmp_path):
    return Locked().write(tmp_path / "media")[0]


@pytest.fixture
def split(tmp_path):
    return Locked(model=WEIGHTS).write(tmp_path / "split", volume_size=SIZE)[0]


def volumes(folder):
    return sorted(folder.glob("*.tar.*"))


def test_a_bundle(tmp_path):
    folder, digest = Locked().write(tmp_path)
    record, screen = look(folder)
    assert record["kind"] == "media"
    assert record["identity"] == {
        "name": folder.name,
        "manifest_sha256": digest,
        "format": 1,
        "sequence": 1,
        "created": 1_760_000_000,
        "created_utc": "2025-10-09T08:53:20Z",
        "tool": "vllm-bundle test",
    }
    assert record["model"]["licence"] == "apache-2.0"
    assert {f["path"]: f["sha256"] for f in record["model"]["files"]} == {
        path: sha256(data) for path, data in MODEL.items()
    }
    assert [member["path"] for member in record["members"]] == list(Locked().contents())
    assert record["unpacked"]["env.tar.zst"] == {"files": 4, "links": 1, "size": 58}
    packages = record["packages"]
    assert [(p["name"], p["version"], p["digest_from"]) for p in packages["wheels"]] == [
        ("a", "1", "published"),
        ("b", "2", "computed here"),
        ("c", "3+repaired", "published"),
    ]
    assert packages["wheels"][2]["repaired"]["changes"] == ["x"]
    assert packages["conda"][0]["version"] == "3.11.9 h0_0"
    assert record["repaired"][0]["origin"] == "c-3-py3-none-any.whl"
    assert record["provenance"]["channel"] == "https://channel.example"
    assert record["provenance"]["lock_sha256"] == a_lock().digest()
    assert record["provenance"]["sources"] == {"derived": 1, "file": 1, "files.example": 2}
    assert record["size"] == (folder / f"{folder.name}.tar").stat().st_size
    assert record["checked"] == ["install.sh", "bundle.json", "bundle.lock"]
    assert "bundle audit" in record["unchecked"]
    for told in (digest, "4.29 GB of free memory", "avx2 or avx512f", "3 wheels", "1.0 kB"):
        assert told in screen


def test_one_screen_by_default_and_everything_on_demand(tmp_path):
    many = a_lock(
        wheels=tuple(wheel(f"wheel-{n}", size=n) for n in range(300)),
        conda=tuple(conda(f"conda-{n}") for n in range(100)),
    )
    model = {f"{n}.bin": bytes([n]) for n in range(200)}
    unpublished = tuple(f"wheel-{n}: computed here" for n in range(50))
    bundle = Locked(lock=many, model=model, changes={"unpublished": unpublished})
    found = inspecting.inspect(inspecting.find(bundle.write(tmp_path)[0]))
    short, long = text.render(found).split("\n"), text.render(found, everything=True)
    assert len(short) <= 40
    assert all(len(line) <= 100 for line in short)
    assert "wheel-299 1 299 B" in "\n".join(short)
    for name in ("wheel-7 ", "conda-7 ", "7.bin", "wheel-49: computed here"):
        assert name not in "\n".join(short)
        assert name in long


def test_volumes(split):
    names = [path.name for path in volumes(split)]
    for named in (split, volumes(split)[0]):
        record, screen = look(named)
        assert [file["name"] for file in record["files"]] == names
        assert all(file["size"] <= SIZE for file in record["files"])
        assert record["packages"] is not None
        assert f"({len(names)} volumes of up to 100.0 kB" in " ".join(screen.split())


def test_volumes_in_several_folders(split, tmp_path):
    disc = tmp_path / "disc"
    disc.mkdir()
    shutil.move(volumes(split)[1], disc)
    record, _ = look(split, disc)
    assert record["files"][1]["place"] == str(disc)


def test_a_lock_out_of_reach_is_told(tmp_path):
    environment = {**ENVIRONMENT, "lib/large": bytes(range(256)) * 4000}
    packed = bytes(range(256)) * 1500  # what it unpacks to does not matter here
    bundle = Locked(environment=environment, environment_archive=packed)
    folder, _ = bundle.write(tmp_path, volume_size=SIZE)
    for path in volumes(folder)[1:]:
        path.unlink()
    record, screen = look(folder)
    assert record["packages"] is None
    assert record["files"][1]["size"] is None
    assert "the packages are not known" in record["notes"][0]
    assert ".tar.001 is not at hand" in screen
    assert "bundle.lock" not in record["checked"]


def test_the_first_volume_is_needed(split):
    volumes(split)[0].unlink()
    with pytest.raises(SourceError, match=r"\.tar\.000: not on this medium"):
        inspecting.find(split)


def test_a_lock_of_another_release_is_told(tmp_path):
    record, _ = look(Simulator().write(tmp_path)[0])  # its lock is `{}`
    assert record["packages"] is None
    assert "schema None, this release reads 1" in record["notes"][0]


def test_an_installation(bundle, tmp_path):
    prefix, digest = tmp_path / "prefix", look(bundle)[0]["identity"]["manifest_sha256"]
    folder = installed(prefix, Locked(), digest)
    for named in (prefix, folder, prefix / placement.CURRENT):
        record, screen = look(named)
        assert record["kind"] == "release"
        assert record["path"] == str(folder)
        assert record["identity"]["manifest_sha256"] == digest
        assert len(record["packages"]["wheels"]) == 3
        assert "installed" in screen


def test_one_of_several_releases(tmp_path):
    prefix = tmp_path / "prefix"
    folders = []
    for name in ("one", "two"):
        _, digest = Locked(name=name).write(tmp_path / "media")
        folders.append(installed(prefix, Locked(name=name), digest, in_service=False))
    with pytest.raises(UsageError, match="2 releases are installed and none is in service") as e:
        inspecting.find(prefix)
    assert folders[0].name in e.value.mend
    assert look(folders[1])[0]["identity"]["name"] == "two"
    (prefix / placement.CURRENT).symlink_to(folders[0])
    assert look(prefix)[0]["identity"]["name"] == "one"


@pytest.mark.parametrize("name", ["bundle.json", "bundle.lock"])
def test_altered_papers_of_an_installation(bundle, tmp_path, name):
    digest = look(bundle)[0]["identity"]["manifest_sha256"]
    folder = installed(tmp_path / "prefix", Locked(), digest)
    (folder / name).write_bytes((folder / name).read_bytes() + b" ")
    with pytest.raises(IntegrityError, match=name):
        inspecting.find(folder)
    (folder / name).unlink()
    with pytest.raises(IntegrityError, match=name):
        inspecting.find(folder)


@pytest.mark.parametrize("old", [b'"thinking":true', b'"flavour":"test"'])
def test_bytes_that_are_read_are_checked(bundle, old):
    """The flavour stands in the manifest and, last, in the lock."""
    path = bundle / f"{bundle.name}.tar"
    data = path.read_bytes()
    place = data.rindex(old)
    path.write_bytes(data[:place] + old.upper() + data[place + len(old) :])
    with pytest.raises(Damage, match=r"bundle\.(json|lock): expected"):
        inspecting.find(bundle)


def test_an_installer_that_names_another_manifest(bundle):
    path = bundle / "install.sh"
    path.write_bytes(path.read_bytes().replace(b"MANIFEST_SHA256=", b"MANIFEST_SHA256=0", 1))
    with pytest.raises(Damage, match=r"install\.sh: expected"):
        inspecting.find(bundle)


def test_an_archive_that_is_cut_off_is_named_without_reading_it(bundle):
    path = bundle / f"{bundle.name}.tar"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(Damage, match=r"\.tar: expected 20480 bytes, found 20479 bytes"):
        inspecting.find(bundle)


def test_a_foreign_volume(split, tmp_path):
    other, _ = Locked(model={**WEIGHTS, "config.json": b"[]"}).write(
        tmp_path / "other", volume_size=SIZE
    )
    shutil.copy(volumes(other)[1], volumes(split)[1])
    with pytest.raises(Damage, match="the bundle that it belongs to"):
        inspecting.find(split)


def test_nothing_to_look_at(tmp_path):
    with pytest.raises(UsageError, match="no bundle"):
        inspecting.find(tmp_path)
    with pytest.raises(UsageError, match="no such file or folder"):
        inspecting.find(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="no bundle"):
        inspecting.find(tmp_path / "file")


def with_metadata():
    environment = {**ENVIRONMENT, "lib/python3.11": None, PURE: None}
    for name, content in METADATA.items():
        environment |= {f"{PURE}/{name}.dist-info": None}
        environment |= {f"{PURE}/{name}.dist-info/METADATA": content.encode()}
    return environment


def test_licences_are_read_in_the_packed_environment(tmp_path):
    folder, _ = Locked(environment=with_metadata()).write(tmp_path)
    stated = licences.stated(inspecting.find(folder))
    assert stated == {"a": "MIT", "b": ""}
    record, screen = look(folder, licences=stated)
    assert [p["licence"] for p in record["packages"]["wheels"]] == ["MIT", "", None]
    assert "1 MIT, 1 nothing stated" in screen


def test_licences_are_read_in_the_installed_environment_and_checked(tmp_path):
    bundle = Locked(environment=with_metadata())
    _, digest = bundle.write(tmp_path)
    folder = installed(tmp_path / "prefix", bundle, digest)
    for name, content in METADATA.items():
        path = folder / "env" / PURE / f"{name}.dist-info/METADATA"
        path.parent.mkdir(parents=True)
        path.write_text(content)
    subject = inspecting.find(folder)
    assert licences.stated(subject) == {"a": "MIT", "b": ""}
    path.write_text(content + "License: proprietary\n")
    with pytest.raises(Damage, match=r"b\.dist-info/METADATA"):
        licences.stated(subject)


def test_licences_in_another_environment_than_the_manifest_s(tmp_path):
    environment = with_metadata()
    other = {**environment, f"{PURE}/a.dist-info/METADATA": METADATA["a"].replace("MIT", "BSD")}
    other = {
        path: v.encode() if "METADATA" in path and isinstance(v, str) else v
        for path, v in other.items()
    }
    packed = zstandard.compress(archive_of(other))
    folder, _ = Locked(environment=environment, environment_archive=packed).write(tmp_path)
    with pytest.raises(Damage, match=r"a\.dist-info/METADATA"):
        licences.stated(inspecting.find(folder))


def test_a_gpu_target_and_a_build(tmp_path):
    target = lock.Target(
        ("sm_86",), "2.31", "3.11", driver="535.1", gpu_memory=24 << 30, gpu_count=2
    )
    build = lock.Build(
        "flash-attn", "2.8.3", "cu128", "flash_attn-2.8.3.tar.gz", "https://x.example/f.tar.gz",
        "5" * 64, ("80",), 72, "2.10.0", "12.8", (wheel("torch"),),
        patches=(lock.Patch("setup.py", "a", "b", "c", "6" * 64),),
    )  # fmt: skip
    needs = {"glibc": "2.31", "cpu_flags": (), "memory": 0, "gpus": ("sm_86",), "driver": "525.60"}
    plain = Locked(lock=a_lock(target=target, builds=(build,)))
    changed = dataclasses.replace(plain.manifest().needs, **needs)
    folder, _ = Locked(lock=plain.lock, changes={"needs": changed}).write(tmp_path)
    record, screen = look(folder)
    assert record["provenance"]["builds"][0]["patched"] == ["setup.py"]
    for told in (
        "sm_86, 2 GPUs, 25.77 GB of GPU memory, driver 535.1",
        "a GPU of sm_86",
        "driver 525.60",
        "flash-attn 2.8.3+cu128: compiled from flash_attn",
    ):
        assert told in screen


def test_a_volume_of_many_gigabytes_is_not_read_to_see_that_it_is_no_lock(split):
    volume = min(split.glob("*.tar.*"))
    os.truncate(volume, 1 << 40)
    with pytest.raises(IntegrityError, match="expected 100000 bytes, found 1099511627776"):
        inspecting.find_or_lock(volume)
