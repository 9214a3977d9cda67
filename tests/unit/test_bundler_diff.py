import dataclasses
import json

import jsonschema
import pytest

from bundler import inspecting, schemas
from bundler.inspecting import difftext
from manifests import lock
from manifests.errors import UsageError
from manifests.lock import Target
from tests.support.locked import Locked, a_lock, conda, wheel
from tests.support.simulator import MODEL, Simulator


def compare(*places):
    """The record, as a machine reads it, and the screen."""
    found = inspecting.compare(*map(inspecting.find_or_lock, places))
    record = json.loads(json.dumps(found.as_record()))
    jsonschema.validate(record, json.loads(schemas.text("diff")))
    return record, difftext.render(found)


def told(record):
    return [(c["area"], c["name"], c["change"]) for c in record["changes"]]


@pytest.fixture
def old(tmp_path):
    return Locked().write(tmp_path / "old")[0]


def new(tmp_path, **changes):
    return Locked(**changes).write(tmp_path / "new")[0]


def test_a_bundle_is_the_same_as_itself_in_volumes_and_made_later(old, tmp_path):
    later = a_lock(created=1_760_000_100)
    other = Locked(name="other", lock=later, changes={"created": 1_760_000_100, "sequence": 2})
    folder, _ = other.write(tmp_path / "new", volume_size=70_000)
    record, screen = compare(old, folder)
    assert record["same"]
    assert not record["not_compared"]
    assert record["after"]["created_utc"] == "2025-10-09T08:55:00Z"
    assert screen.endswith("nothing differs")


@pytest.mark.parametrize(
    ("change", "expected", "line"),
    [
        ({"wheels": ()}, [("wheel", n, "removed") for n in "abc"], "  - a 1 (1.0 kB)"),
        (
            {"wheels": (*a_lock().wheels, wheel("d", "4"))},
            [("wheel", "d", "added")],
            "  + d 4 (1.0 kB)",
        ),
        (
            {"wheels": (wheel("a", "2", size=3000), *a_lock().wheels[1:])},
            [("wheel", "a", "changed")],
            "  ~ a 1 -> 2 (3.0 kB, +2.0 kB)",
        ),
        (
            {"wheels": (wheel("a", digit="7"), *a_lock().wheels[1:])},
            [("wheel", "a", "replaced")],
            "  ~ a 1: other bytes, sha256 000000000000 -> 777777777777",
        ),
        (
            {"conda": (conda("python", "3.11.9", "h1_1"), conda("libgcc", "15"))},
            [("conda_package", "python", "changed")],
            "  ~ python 3.11.9 h0_0 -> 3.11.9 h1_1",
        ),
        ({"runtime_conda": ()}, [("runtime_conda_package", "python", "removed")], "  - python"),
        (
            {"runtime_wheels": (wheel("zstandard", "0.26"),)},
            [("runtime_wheel", "zstandard", "changed")],
            "  ~ zstandard 0.25.0 -> 0.26",
        ),
        (
            {"target": Target(("sm_86",), "2.28", "3.11", driver="535.1")},
            [("target", "driver", "changed"), ("target", "gpus", "changed")],
            "  ~ driver none -> 535.1",
        ),
        ({"stack": "other"}, [("stack", "stack", "changed")], "  ~ stack test -> other"),
        (
            {"channel": "host"},
            [("sources", "conda channel", "changed")],
            "  ~ conda channel https://channel.example -> host",
        ),
    ],
)
def test_what_a_lock_decides(old, tmp_path, change, expected, line):
    made = new(tmp_path, lock=a_lock(**change))
    record, screen = compare(old, made)
    assert told(record) == expected
    assert not record["same"]
    assert line in screen
    # The same between locks, and between a lock and a bundle.
    for name, lock_of in (("a.lock", a_lock()), ("b.lock", a_lock(**change))):
        (tmp_path / name).write_bytes(lock_of.dump())
    for before, after in (
        (tmp_path / "a.lock", tmp_path / "b.lock"),
        (tmp_path / "a.lock", made),
        (old, tmp_path / "b.lock"),
    ):
        assert told(compare(before, after)[0]) == expected


def test_a_build(old, tmp_path):
    build = lock.Build(
        "flash-attn", "2.8.3", "cu128", "f.tar.gz", "u", "5" * 64, ("80",), 72, "2", "12.8", ()
    )
    record, screen = compare(old, new(tmp_path, lock=a_lock(builds=(build,))))
    assert told(record) == [("build", "flash-attn", "added")]
    assert "+ flash-attn 2.8.3+cu128" in screen


def test_what_a_manifest_decides(old, tmp_path):
    server = dataclasses.replace(
        Simulator().manifest().server, arguments=("--x", "1"), environment={"KEY": "value"}
    )
    record, screen = compare(old, new(tmp_path, changes={"server": server, "thinking": False}))
    assert told(record) == [
        ("server", "arguments", "changed"),
        ("server", "environment.KEY", "added"),
        ("server", "thinking", "changed"),
    ]
    assert "  ~ arguments none -> --x 1" in screen
    assert "  ~ thinking on -> off" in screen


def test_model_files_and_members(old, tmp_path):
    model = {"config.json": b"[]", "other.safetensors": b"123"}
    made = new(tmp_path, model=model, environment={"bin": None, "bin/python": b"other"})
    record, screen = compare(old, made)
    assert told(record) == [
        ("model_file", "config.json", "replaced"),
        ("model_file", "other.safetensors", "added"),
        ("model_file", "sub/weights.safetensors", "removed"),
        ("member", "env.tar.zst", "replaced"),
    ]
    assert "model file: 1 replaced, 1 added, 1 removed" in screen
    assert "- sub/weights.safetensors (1.3 kB)" in screen


def test_a_lock_does_not_know_everything(old, tmp_path):
    (tmp_path / "bundle.lock").write_bytes(a_lock().dump())
    record, screen = compare(tmp_path / "bundle.lock", old)
    assert record["same"]
    assert record["not_compared"] == ["server", "needs", "member"]
    assert record["before"]["size"] is None
    assert "nothing differs in what both know" in screen
    assert "not compared, because one side does not say: server, needs, member" in screen


def test_a_lock_with_git_blobs_only(old, tmp_path):
    """A Hub publishes no sha256 for small files; nothing can be said of their bytes then."""
    model = a_lock().model
    blobs = [dataclasses.replace(f, sha256="", git_blob="1" * 40) for f in model.files]
    for name, files in (
        ("a.lock", blobs),
        ("b.lock", [dataclasses.replace(f, git_blob="2" * 40) for f in blobs]),
    ):
        locked = a_lock(model=dataclasses.replace(model, files=tuple(files)))
        (tmp_path / name).write_bytes(locked.dump())
    assert compare(tmp_path / "a.lock", old)[0]["same"]
    record, screen = compare(tmp_path / "a.lock", tmp_path / "b.lock")
    assert told(record) == [("model_file", path, "replaced") for path in sorted(MODEL)]
    assert "config.json: other bytes, git_blob 111111111111 -> 222222222222" in screen


def test_a_bundle_whose_lock_can_t_be_read(old, tmp_path):
    plain, _ = Simulator().write(tmp_path / "plain")
    record, _ = compare(old, plain)
    assert {"wheel", "conda_package", "sources"} <= set(record["not_compared"])


def test_what_is_no_lock(old, tmp_path):
    (tmp_path / "x.lock").write_text("{}\n")
    with pytest.raises(UsageError, match=r"x\.lock: schema None"):
        compare(tmp_path / "x.lock", old)
