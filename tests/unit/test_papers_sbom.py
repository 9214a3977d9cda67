"""The CycloneDX document: valid, one text for one bill, and understood by others."""

import json
import random
import time
from dataclasses import replace

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from hypothesis import given, settings
from hypothesis import strategies as st
from lib4sbom.parser import SBOMParser
from packageurl import PackageURL

from bundler.papers import bill as bills
from bundler.papers import members, sbom
from bundler.plan.licences import of_text
from tests.support.bills import PROSE, bill, wheel

VALIDATOR = JsonStrictValidator(SchemaVersion.V1_6)


def document(made=None):
    return json.loads(sbom.render(made or bill()))


def by_ref(found):
    return {one["bom-ref"]: one for one in found["components"]}


def properties(one):
    return {item["name"].removeprefix("vllm-bundle:"): item["value"] for item in one["properties"]}


def test_it_is_valid():
    assert VALIDATOR.validate_str(sbom.render(bill()).decode()) is None


def test_each_component_is_there_with_digest_and_purl():
    made, found = bill(), document()
    assert list(by_ref(found)) == [one.ref for one in made.components]
    for one in made.components:
        told = by_ref(found)[one.ref]
        assert (told["name"], told["version"]) == (one.name, one.version)
        assert told["hashes"] == [{"alg": "SHA-256", "content": one.sha256}]
        assert PackageURL.from_string(told["purl"]) == PackageURL.from_string(one.purl)
        assert properties(told)["scope"] == one.scope
    assert found["metadata"]["component"]["name"] == made.name
    assert found["metadata"]["timestamp"] == "2025-12-01T00:00:00+00:00"


def test_it_says_what_it_does_not_hold():
    told = properties(document()["metadata"]["component"])["not-held"]
    assert "compile caches" in told and "caches/" in told and "bundle.json" in told


def test_two_of_one_name_stay_two():
    refs = by_ref(document())
    twins = [refs[f"{scope}/wheel/zstandard@0.25.0"] for scope in ("environment", "runtime")]
    assert twins[0]["hashes"] != twins[1]["hashes"]
    same = bill()
    one = next(one for one in same.components if one.ref == "environment/wheel/mit@1.0")
    twin = replace(one, ref="runtime/wheel/mit@1.0", scope=bills.RUNTIME)
    more = replace(same, components=tuple(sorted((*same.components, twin), key=lambda c: c.ref)))
    assert len(document(more)["components"]) == len(more.components)


def test_the_text_follows_from_the_bill_alone():
    made, first = bill(), sbom.render(bill())
    mixed = list(made.components)
    for seed in range(3):
        random.Random(seed).shuffle(mixed)
        again = [replace(one, requires=tuple(reversed(one.requires))) for one in mixed]
        assert sbom.render(replace(made, components=tuple(again))) == first
    assert sbom.render(replace(made, lock_sha256="0" * 64)) != first


def test_no_clock_and_a_serial_number_that_follows_from_the_content(monkeypatch):
    first = document()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert document() == first
    assert document(bill(stack="other"))["serialNumber"] != first["serialNumber"]


def test_licences_are_what_was_declared():
    refs = by_ref(document())

    def stated(ref):
        return refs[ref].get("licenses", [])

    (mit,) = stated("environment/wheel/mit@1.0")
    assert mit == {"license": {"id": "MIT", "acknowledgement": "declared"}}
    (gpl,) = stated("environment/conda/libstdcxx@15.2.0")
    assert gpl["expression"] == "GPL-3.0-only WITH GCC-exception-3.1"
    (prose,) = stated("environment/wheel/prosaic@1.0")
    assert prose["license"]["text"]["content"] == PROSE
    assert len(prose["license"]["name"]) <= 80
    assert stated("environment/wheel/unstated@1.0") == []
    (model,) = [one for ref, one in refs.items() if ref.startswith("models/model/")]
    assert model["licenses"][0]["license"]["id"] == "Apache-2.0"  # stated as "apache-2.0"


def test_an_expression_stays_whole_however_long_it_is():
    words = " AND ".join(["MIT", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause", "Zlib"] * 4)
    (one,) = document(bill(components=(wheel("torch", declared=words),)))["components"]
    assert one["licenses"] == [{"expression": words, "acknowledgement": "declared"}]


def test_a_model_with_its_files_and_facts():
    refs, made = by_ref(document()), bill()
    (one,) = (one for one in made.components if one.kind == bills.MODEL)
    told = refs[one.ref]
    assert told["type"] == "machine-learning-model"
    assert [file["name"] for file in told["components"]] == sorted(f.path for f in one.files)
    for file in told["components"]:
        assert file["type"] == "file" and len(file["hashes"][0]["content"]) == 64
    assert properties(told)["base-model"] == "Qwen/Qwen3.5-9B-Base"
    assert properties(told)["commit"] == one.version
    (base,) = told["pedigree"]["ancestors"]
    assert base["purl"] == "pkg:huggingface/Qwen/Qwen3.5-9B-Base"
    (adapter,) = (told for ref, told in refs.items() if ref.startswith("models/adapter/"))
    assert "licenses" not in adapter


def test_where_repaired_and_built_wheels_come_from():
    refs = by_ref(document())
    repaired = refs["environment/wheel/numba@0.64.0+repaired"]["pedigree"]
    (origin,) = repaired["ancestors"]
    assert origin["version"] == "0.64.0"
    assert origin["externalReferences"][0]["url"].startswith("https://files.example/numba-")
    assert repaired["notes"] == "requires numpy<2.5 instead of numpy<2.4"
    (built,) = (one for ref, one in refs.items() if "/flash-attn@" in ref)
    assert built["pedigree"]["ancestors"][0]["hashes"] != built["hashes"]
    (patch,) = built["pedigree"]["patches"]
    assert "+++ b/setup.py" in patch["diff"]["text"]["content"]
    assert properties(built)["built-for"] == "sm_80"


def test_edges_and_what_nobody_needs():
    found, made = document(), bill()
    edges = {one["ref"]: one.get("dependsOn", []) for one in found["dependencies"]}
    for one in made.components:
        assert edges[one.ref] == sorted(one.requires)
    top = edges["bundle"]
    needed = {ref for one in made.components for ref in one.requires}
    assert top == sorted({one.ref for one in made.components} - needed)


def test_a_circle_is_reached_too():
    a = wheel("a", requires=("environment/wheel/b@1.0",))
    b = wheel("b", requires=("environment/wheel/a@1.0",))
    edges = {
        one["ref"]: one.get("dependsOn", [])
        for one in document(bill(components=(a, b)))["dependencies"]
    }
    assert edges["bundle"] == ["environment/wheel/a@1.0"]


def test_an_independent_reader_understands_it(tmp_path):
    path = tmp_path / "sbom.cdx.json"
    path.write_bytes(sbom.render(bill()))
    parser = SBOMParser()
    parser.parse_file(str(path))
    assert parser.get_type() == "cyclonedx"
    # It keeps one of each name and version.
    read = {(one["name"], one.get("version")): one for one in parser.get_packages()}
    made = {(one.name, one.version): one for one in bill().components}
    assert made.keys() <= read.keys()
    for key, one in made.items():
        purls = [purl for _, kind, purl in read[key]["externalreference"] if kind == "purl"]
        assert PackageURL.from_string(purls[0]).name.lower() == one.name.lower()
    assert read["mit", "1.0"]["licensedeclared"] == "MIT"
    assert read["mit", "1.0"]["checksum"] == [["SHA256", made["mit", "1.0"].sha256]]
    pairs = {(one["source_id"], one["target_id"]) for one in parser.get_relationships()}
    edge = ("environment/wheel/torch@2.13.0", "environment/wheel/nvidia-cublas-cu12@12.8.4.1")
    assert edge in pairs


@settings(max_examples=15, deadline=None)
@given(st.text(max_size=200), st.text(max_size=40))
def test_any_words_in_a_licence(declared, name):
    strange = wheel("strange", declared=declared, licence=of_text(declared), filename=name)
    data = sbom.render(bill(components=(strange,)))
    assert VALIDATOR.validate_str(data.decode()) is None


def test_what_a_bundle_carries():
    papers = members.members(bill())
    assert list(papers) == sorted(papers)
    assert papers["papers/sbom.cdx.json"] == sbom.render(bill())
    assert all(path.startswith("papers/") for path in papers)


@pytest.mark.parametrize("secret", ["token", "/root/", "/home/"])
def test_nothing_of_this_machine(secret):
    assert secret not in sbom.render(bill()).decode()
