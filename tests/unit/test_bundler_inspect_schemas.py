"""The published schemas are those of the records, and refuse anything else."""

import copy
import dataclasses
import json

import jsonschema
import pytest

from bundler import schemas
from bundler.inspecting import comparing, inspection, subject
from manifests import bundle, delta, lock, overlay, stack, tree
from manifests.fit import shape
from tests.support.locked import Locked

ROOTS = {"inspect": inspection.Inspection, "manifest": bundle.Manifest, "diff": None}
MODULES = (inspection, comparing, subject, bundle, delta, lock, overlay, stack, tree, shape)
#: What a form leaves out of a record.
INTERNAL = {comparing.Side: {"areas"}}


def load(name):
    return json.loads(schemas.text(name))


def record_of(schema, title):
    """The dataclass that a definition describes."""
    found = {getattr(module, title, None) for module in MODULES} - {None}
    in_manifest = schema == "manifest"
    rooms = ("manifests",) if in_manifest else ("bundler", "manifests")
    return next(c for room in rooms for c in found if c.__module__.startswith(room))


@pytest.mark.parametrize("name", schemas.NAMES)
def test_each_schema_is_one(name):
    jsonschema.Draft202012Validator.check_schema(load(name))


@pytest.mark.parametrize("name", schemas.NAMES)
def test_a_schema_has_the_fields_of_the_records(name):
    schema = load(name)
    described = {title: record_of(name, title) for title in schema["$defs"]}
    definitions = dict(schema["$defs"])
    if ROOTS[name] is not None:
        described[""], definitions[""] = ROOTS[name], schema
    for title, cls in described.items():
        fields = [f for f in dataclasses.fields(cls) if f.name not in INTERNAL.get(cls, ())]
        assert list(definitions[title]["properties"]) == [field.name for field in fields], title
        # A manifest leaves out what is at its default; what is printed leaves out nothing.
        required = [
            field.name
            for field in fields
            if name != "manifest" or field.default is field.default_factory is dataclasses.MISSING
        ]
        assert definitions[title]["required"] == required, title
        assert definitions[title]["additionalProperties"] is False


def test_the_areas_and_kinds_of_changes():
    change = load("diff")["$defs"]["Change"]["properties"]
    assert change["area"]["enum"] == list(comparing.AREAS)
    kinds = {comparing.ADDED, comparing.REMOVED, comparing.CHANGED, comparing.REPLACED}
    assert set(change["change"]["enum"]) == kinds


def manifest():
    return json.loads(Locked().manifest().dump())


def test_a_manifest_fits():
    jsonschema.validate(manifest(), load("manifest"))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schema",), 2),
        (("surprise",), 1),
        (("target", "gpus"), "cpu"),
        (("members", 0, "sha256"), "0" * 63),
        (("members", 0, "role"), "other"),
        (("members", 0, "size"), -1),
        (("environment", 0, "kind"), "device"),
        (("created",), "now"),
        (("thinking",), None),
    ],
)
def test_what_is_no_manifest_does_not_fit(path, value):
    data = copy.deepcopy(manifest())
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, load("manifest"))
