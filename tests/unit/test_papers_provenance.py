"""What a bundle's provenance states, and that nothing else passes for it."""

import dataclasses
import json
from pathlib import Path

import pytest
from google.protobuf import json_format
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from in_toto_attestation.predicates.provenance.v1 import provenance_pb2
from in_toto_attestation.v1 import statement as in_toto
from in_toto_attestation.v1 import statement_pb2

from bundler import rehearsal, signing
from bundler.commands import provenance as commands
from bundler.papers import (
    dsse,
    provenance,
    provenance_check,
    provenance_inputs,
    provenance_proof,
    provenance_reading,
)
from manifests import bundle, canonical, lock
from manifests.delta import Delta
from manifests.errors import FilesystemError, IntegrityError, SourceError, UsageError
from manifests.lock import Adapter, Build, Model, ModelFile, Patch, Target
from manifests.overlay import Overlay, Provided
from manifests.risks import PICKLE, Risk
from tests.support.locked import DERIVED, Locked, a_lock, conda, wheel
from tests.support.simulator import MODEL, Simulator, archive_of

BIG = {"config.json": b"{}", "weights.safetensors": bytes(range(256)) * 1500}
COMMIT = "c" * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return Locked().write(tmp_path_factory.mktemp("media"))[0]


@pytest.fixture(scope="module")
def made(folder):
    return provenance_reading.look(folder)[0]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return signing.write_pair(tmp_path_factory.mktemp("keys"))


def proof_of(digest, **changes):
    proof = rehearsal.Proof(
        "tiny",
        digest,
        "tiny",
        (*provenance_proof._NEEDED, "every byte of the medium"),
        ("without compilers",),
        {"ready": 3},
    )
    return json.dumps({**proof.as_record(), **changes}).encode()


def definition(stated):
    return stated["predicate"]["buildDefinition"]


def checked(made, value, **options):
    data = value if isinstance(value, bytes) else canonical.dumps(value)
    return provenance_check.check(provenance_check.parse(data, "file"), made, **options)


def run(*words):
    """The command, in this process."""
    commands.command.main([*map(str, words)], prog_name="bundle provenance", standalone_mode=False)


@pytest.fixture
def told(capsys):
    """Runs the command; gives what it says as JSON."""

    def ask(*words):
        run(*words, "--json")
        return json.loads(capsys.readouterr().out)

    return ask


# What it states


def test_the_official_library_reads_it(made, folder):
    proof = provenance_proof.descriptor(made, proof_of(made.digest), "proof")
    data = provenance.dump(provenance.statement(made, proof, "https://ci.example/builder"))
    found = json_format.Parse(data, statement_pb2.Statement())
    in_toto.Statement.copy_from_pb(found).validate()
    assert {one.name: one.digest["sha256"] for one in found.subject} == {
        "bundle.json": made.digest,
        "SHA256SUMS": bundle.digest_of((folder / "SHA256SUMS").read_bytes()),
        **made.listed,
    }
    told = json_format.ParseDict(
        json_format.MessageToDict(found.predicate), provenance_pb2.Provenance()
    )
    assert told.build_definition.build_type == provenance.BUILD_TYPE
    assert told.run_details.builder.id == "https://ci.example/builder"
    assert told.run_details.metadata.started_on.seconds == made.manifest.created
    assert told.run_details.metadata.invocation_id == f"sha256:{made.lock.digest()}"
    assert len(told.build_definition.resolved_dependencies) == 9
    (first, last) = told.run_details.byproducts
    assert first.digest["sha256"] == made.lock.digest()
    assert last.annotations["verdict"] == provenance_proof.ANSWERED


def test_every_input_has_a_digest_and_a_place(made):
    found = {one["name"]: one for one in provenance_inputs.inputs(made.lock, made.manifest)}
    assert list(found) == sorted(found)
    assert found["a-1-py3-none-any.whl"]["downloadLocation"] == (
        "https://files.example/a-1-py3-none-any.whl"
    )
    local = found["b-2-py3-none-any.whl"]
    assert "downloadLocation" not in local
    assert local["annotations"]["digestFrom"] == lock.COMPUTED
    origin = found[DERIVED.origin]
    assert origin["digest"] == {"sha256": DERIVED.sha256}
    assert origin["uri"].startswith("pkg:pypi/c@3?")
    assert origin["annotations"]["changes"] == ["x"]
    assert origin["annotations"]["became"]["name"] == "c-3+repaired-py3-none-any.whl"
    both = found["python-3.11.9-h0_0.conda"]
    assert both["annotations"]["usedIn"] == ["environment", "runtime"]
    assert {f"tiny/{path}" for path in MODEL} < set(found)


def test_models_builds_overlays_and_deltas(made):
    files = (ModelFile("a b/w.safetensors", 3, "1" * 64, "2" * 40),)
    built = Build(
        "flash-attn",
        "2.8.3",
        "cu128",
        "flash_attn-2.8.3.tar.gz",
        "https://files.example/flash_attn-2.8.3.tar.gz",
        "3" * 64,
        ("80",),
        5,
        "2.11.0",
        "12.8",
        (wheel("torch", "2.11.0", "4"),),
        (wheel("nvcc", "12.8", "5"),),
        (Patch("setup.py", "a", "b", "why", "6" * 64),),
    )
    locked = a_lock(
        model=Model("m", "hf:Org/M", COMMIT, files, "mit", (Risk(PICKLE, "x.bin"),)),
        others=(Model("n", "folder:n", "7" * 64, files),),
        adapters=(Adapter("style", "hf:Org/style", COMMIT, "m", 8, files),),
        builds=(built,),
        overlay=Overlay("3.11.9", "cpython-311", (Provided("numpy", "2.0", "8" * 64),)),
        target=Target(("sm_80", "sm_90"), "2.28", "3.11", driver="535.104"),
    )
    manifest = dataclasses.replace(
        made.manifest,
        overlay=locked.overlay,
        delta=Delta("older", "9" * 64, "a" * 64, made.manifest.members),
        members=(
            *made.manifest.members,
            bundle.Member("caches/x.caches.zst", bundle.DOCUMENT, 1, "b" * 64),
            bundle.Member("papers/sbom.cdx.json", bundle.DOCUMENT, 1, "d" * 64),
        ),
        thinking=False,
    )
    one = dataclasses.replace(made, lock=locked, manifest=manifest)
    stated = provenance.statement(one)
    found = {item["name"]: item for item in definition(stated)["resolvedDependencies"]}
    assert found["m"]["uri"] == f"pkg:huggingface/Org/M@{COMMIT}"
    assert found["m"]["digest"] == {"gitCommit": COMMIT}
    assert found["m/a b/w.safetensors"]["digest"] == {"sha256": "1" * 64, "gitBlob": "2" * 40}
    assert found["m/a b/w.safetensors"]["uri"].endswith(f"{COMMIT}#a%20b/w.safetensors")
    assert "digest" not in found["n"]
    assert found["style"]["annotations"]["changesModel"] == "m"
    source = found["flash_attn-2.8.3.tar.gz"]
    assert source["annotations"]["usedIn"] == ["build of flash-attn"]
    assert source["annotations"]["patched"] == [{"path": "setup.py", "sha256": "6" * 64}]
    assert found["torch-2.11.0-py3-none-any.whl"]["digest"] == {"sha256": "4" * 64}
    assert found["nvcc-12.8-py3-none-any.whl"]["annotations"]["usedIn"] == ["build of flash-attn"]
    assert found["numpy"]["annotations"] == {"usedIn": ["provided"], "recordSha256": "8" * 64}
    assert found["older/bundle.json"]["digest"] == {"sha256": "9" * 64}
    assert found["caches/x.caches.zst"]["digest"] == {"sha256": "b" * 64}
    products = [item["name"] for item in stated["predicate"]["runDetails"]["byproducts"]]
    assert products == ["bundle.lock", "papers/sbom.cdx.json"]
    options = definition(stated)["externalParameters"]["options"]
    assert options["built"] == ["flash-attn"]
    assert options["allowPickle"] and options["overlay"] and options["delta"]
    assert not options["allowRemoteCode"] and not options["parity"]
    words = " ".join(definition(stated)["internalParameters"]["commands"][1])
    for part in (
        f"--model Org/M@{COMMIT} --model ./n --lora Org/style@{COMMIT}=style",
        "--gpu sm_80,sm_90 --python 3.11 --glibc 2.28 --driver 535.104",
        "--thinking off --with-flash-attn --allow-pickle --caches x.caches.zst "
        "--overlay inventory.json --base older",
    ):
        assert part in words
    in_toto.Statement.copy_from_pb(
        json_format.Parse(provenance.dump(stated), statement_pb2.Statement())
    ).validate()


def test_no_secret_of_a_lock_gets_into_it(made):
    """Locks hold none; a lock that somebody edited may."""
    url = "https://me:hunter2@index.example/t/abcdef123456/ch/linux-64/p-1-0.conda?token=hunter2"
    locked = a_lock(
        channel="https://me:hunter2@index.example/t/abcdef123456/ch",
        conda=(dataclasses.replace(conda("p"), url=url),),
        wheels=(
            wheel("a", url="https://me:hunter2@index.example/a.whl#hunter2"),
            wheel("c", derived=dataclasses.replace(DERIVED, url="https://me:hunter2@i.example/c")),
        ),
    )
    data = provenance.dump(provenance.statement(dataclasses.replace(made, lock=locked)))
    for secret in (b"hunter2", b"me:", b"abcdef123456"):
        assert secret not in data
    assert b"https://index.example/a.whl" in data


def test_it_follows_from_the_bundle_alone(folder, made, tmp_path, monkeypatch):
    first = provenance.dump(provenance.statement(made))
    elsewhere = Locked().write(tmp_path / "elsewhere")[0]
    for name, value in {"TZ": "Pacific/Auckland", "USER": "eve", "HOSTNAME": "secret-host"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    again, _ = provenance_reading.look(Path(elsewhere.relative_to(tmp_path)))
    assert provenance.dump(provenance.statement(again)) == first
    for text in (str(folder.parent), str(tmp_path)):
        assert text.encode() not in first


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("https://ci.example/builder@v1", True),
        ("urn:uuid:1", True),
        ("mailto:ops@example.org", True),
        ("https://me:pw@ci.example/b", False),
        ("urn:\ud800", False),
        ("two words", False),
        ("urn:with blank", False),
        ("plain", False),
        ("1:x", False),
        ("urn:", False),
        ("urn:é", False),
        ("", False),
        (None, False),
    ],
)
def test_a_builders_id_is_a_public_uri(text, good):
    assert provenance.is_builder(text) is good


# The rehearsal's proof


def test_the_proof_of_another_manifest(made):
    with pytest.raises(IntegrityError, match="the proof of another bundle") as caught:
        provenance_proof.descriptor(made, proof_of("0" * 64), "proof")
    assert made.digest in caught.value.why


def test_a_delta_is_proved_by_what_it_installs(made):
    cut = Delta("older", "9" * 64, "a" * 64, made.manifest.members)
    one = dataclasses.replace(made, manifest=dataclasses.replace(made.manifest, delta=cut))
    assert provenance_proof.descriptor(one, proof_of("a" * 64), "proof")
    with pytest.raises(IntegrityError):
        provenance_proof.descriptor(made, proof_of("a" * 64), "proof")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rehearsed": ["installation"]}, "did not come to its end"),
        ({"rehearsed": "all"}, "no list"),
        ({"not_rehearsed": [1]}, "no list"),
        ({"not_rehearsed": ["a\nb"]}, "no list"),
        ({"manifest_sha256": None}, "no proof"),
    ],
)
def test_what_is_no_proof(made, change, told):
    with pytest.raises(IntegrityError, match=told):
        provenance_proof.descriptor(made, proof_of(made.digest, **change), "proof")


def test_a_proof_that_is_not_there(made, tmp_path):
    with pytest.raises(UsageError, match="no such proof"):
        provenance_proof.look(made, tmp_path / "none")
    (tmp_path / "cut").write_bytes(proof_of(made.digest)[:-5])
    with pytest.raises(IntegrityError, match="not JSON"):
        provenance_proof.look(made, tmp_path / "cut")
    with pytest.raises((FilesystemError, IntegrityError)):
        provenance_proof.look(made, tmp_path)


# What passes for it


def test_the_statement_itself_passes(made):
    found = checked(made, provenance.statement(made))
    assert (found.signer, found.subjects, found.inputs) == (None, 4, 9)
    assert found.notes == ("no signature was checked: give the signer's public key with --key",)
    found = checked(made, provenance.statement(made, None, "urn:us"))
    assert found.notes[1] == "the builder is whom the signer names: urn:us"


def test_a_proof_that_is_not_at_hand_is_said_to_be_unchecked(made):
    proof = provenance_proof.descriptor(made, proof_of(made.digest), "proof")
    stated = provenance.statement(made, proof)
    assert "not at hand" in checked(made, stated).notes[1]
    assert len(checked(made, stated, proof=proof).notes) == 1
    other = provenance_proof.descriptor(made, proof_of(made.digest, seconds={}), "proof")
    with pytest.raises(IntegrityError) as caught:
        checked(made, stated, proof=other)
    assert "byproducts[tiny+stack+cpu.rehearsal.json].digest.sha256" in caught.value.findings[0]
    with pytest.raises(IntegrityError, match="not the provenance of this bundle") as caught:
        checked(made, provenance.statement(made), proof=proof)
    assert caught.value.findings[0].endswith("[tiny+stack+cpu.rehearsal.json]: missing")


def altered(made, change):
    stated = json.loads(provenance.dump(provenance.statement(made)))
    change(stated)
    with pytest.raises(IntegrityError, match="not the provenance of this bundle") as caught:
        checked(made, stated)
    return caught.value.findings


def test_a_subject_is_missing(made):
    (found,) = altered(made, lambda stated: stated["subject"].pop(2))
    assert found == "subject[install.sh]: missing"


def test_a_subject_too_many(made):
    extra = {"name": "extra", "digest": {"sha256": "0" * 64}}
    (found,) = altered(made, lambda stated: stated["subject"].append(extra))
    assert found == "subject[extra]: not of this bundle"
    (found,) = altered(made, lambda stated: stated["subject"].append(stated["subject"][0]))
    assert found == "subject[SHA256SUMS (4)]: not of this bundle"


def test_a_subject_with_another_digest(made):
    def change(stated):
        stated["subject"][1]["digest"]["sha256"] = "0" * 64

    (found,) = altered(made, change)
    assert found.startswith("subject[bundle.json].digest.sha256: '000")
    assert made.digest in found


def test_an_input_that_is_hidden_or_invented(made):
    def hide(stated):
        del definition(stated)["resolvedDependencies"][0]

    def invent(stated):
        definition(stated)["externalParameters"]["thinking"] = 0

    (found,) = altered(made, hide)
    assert found.endswith("resolvedDependencies[a-1-py3-none-any.whl]: missing")
    (found,) = altered(made, invent)
    assert found == (
        "predicate.buildDefinition.externalParameters.thinking: 0, of this bundle True"
    )


def test_the_statement_of_another_bundle(made, tmp_path):
    other = Locked(name="other", model=BIG).write(tmp_path)[0]
    stated = provenance.statement(provenance_reading.look(other)[0])
    with pytest.raises(IntegrityError, match="not the provenance of this bundle") as caught:
        checked(made, stated)
    assert any("subject[bundle.json].digest" in finding for finding in caught.value.findings)
    assert "subject[other.tar]: not of this bundle" in caught.value.findings


def test_many_differences_are_counted(made):
    def change(stated):
        stated["subject"] += [{"name": f"x{number}"} for number in range(100)]

    found = altered(made, change)
    assert len(found) == 21
    assert found[-1] == "and 80 more"


def test_the_same_in_another_form_is_not_the_same(made):
    data = json.dumps(provenance.statement(made), indent=2).encode()
    with pytest.raises(IntegrityError) as caught:
        checked(made, data)
    assert "another form" in caught.value.findings[0]


@pytest.mark.parametrize(
    ("value", "kind", "told"),
    [
        ({}, IntegrityError, "no provenance"),
        ({"_type": provenance.STATEMENT, "predicateType": "x"}, IntegrityError, "no provenance"),
        (
            {"_type": provenance.STATEMENT, "predicateType": provenance.PREDICATE},
            UsageError,
            "buildType is None",
        ),
        (
            {
                "_type": provenance.STATEMENT,
                "predicateType": provenance.PREDICATE,
                "predicate": {"buildDefinition": {"buildType": "urn:vllm-bundle:create:2"}},
            },
            UsageError,
            "this release knows",
        ),
        ({"payload": "", "payloadType": "text/plain", "signatures": [{"sig": ""}]}, None, "holds"),
        ({"payload": "e30=", "payloadType": dsse.IN_TOTO, "signatures": []}, None, "no DSSE"),
        (
            {"payload": "W10=", "payloadType": dsse.IN_TOTO, "signatures": [{"sig": ""}]},
            None,
            "no object",
        ),
    ],
)
def test_what_is_no_provenance(value, kind, told):
    with pytest.raises(kind or IntegrityError, match=told):
        provenance_check.parse(json.dumps(value).encode(), "file")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    value=JSON,
    place=st.sampled_from(
        [
            ("subject",),
            ("predicate", "runDetails"),
            ("predicate", "runDetails", "builder", "id"),
            ("predicate", "runDetails", "byproducts"),
            ("predicate", "buildDefinition", "resolvedDependencies"),
        ]
    ),
    named=st.booleans(),
)
def test_whatever_stands_in_a_statement_is_compared_or_refused(made, value, place, named):
    stated = provenance.statement(made)
    *path, last = place
    inner = stated
    for key in path:
        inner = inner[key]
    inner[last] = [{"name": made.proof_name, "annotations": value}] if named else value
    try:
        found = checked(made, json.dumps(stated).encode())
    except IntegrityError as error:
        assert error.findings
    else:
        assert found.builder == stated["predicate"]["runDetails"]["builder"]["id"]


# Reading


def test_volumes_that_are_missing(tmp_path):
    folder, _ = Locked(model=BIG).write(tmp_path / "split", volume_size=100_000)
    volumes = sorted(folder.glob("*.tar.*"))
    made, _ = provenance_reading.look(folder)
    whole = provenance.statement(made)
    assert definition(whole)["externalParameters"]["options"]["volumes"] == len(volumes) > 2
    volumes[-1].rename(tmp_path / volumes[-1].name)  # after the lock: nothing of it is needed
    assert provenance.statement(provenance_reading.look(folder)[0]) == whole
    (tmp_path / "disc").mkdir()
    volumes[0].rename(tmp_path / "disc" / volumes[0].name)
    with pytest.raises(SourceError):
        provenance_reading.look(folder)
    assert provenance.statement(provenance_reading.look(folder, [tmp_path / "disc"])[0]) == whole


def test_a_lock_in_a_missing_volume(tmp_path):
    environment = {"share": None, "share/large": bytes(range(256)) * 2000}
    bundle_ = Locked(environment=environment, environment_archive=archive_of(environment))
    folder, _ = bundle_.write(tmp_path, volume_size=100_000)
    for volume in sorted(folder.glob("*.tar.*"))[1:]:
        volume.unlink()
    with pytest.raises(SourceError, match="names every input") as caught:
        provenance_reading.look(folder)
    assert "--volumes-in" in caught.value.mend


def test_a_lock_that_is_none(tmp_path):
    folder, _ = Simulator().write(tmp_path)
    with pytest.raises(UsageError, match="names every input") as caught:
        provenance_reading.look(folder)
    assert "volume" not in caught.value.mend


# The command


def test_the_command_signs_and_verifies(folder, made, pair, tmp_path, told):
    out = tmp_path / "out.json"
    record = told(folder, "--key", pair.private, "--output", out)
    assert record["signed_by"] == pair.fingerprint
    assert record["statement"] == provenance.statement(made)
    record = told(folder, "--verify", out, "--key", pair.public)
    assert (record["signed_by"], record["notes"]) == (pair.fingerprint, [])
    assert told(folder, "--verify", out, "--key", pair.allowed)["signed_by"] == pair.fingerprint
    stranger = signing.write_pair(tmp_path)
    with pytest.raises(IntegrityError, match="signature is not good"):
        run(folder, "--verify", out, "--key", stranger.public)
    with pytest.raises(UsageError, match="holds a private key"):
        run(folder, "--verify", out, "--key", pair.private)
    with pytest.raises(UsageError, match="no private key"):
        run(folder, "--key", pair.public, "--output", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_key_with_a_passphrase(folder, tmp_path, told):
    pair = signing.write_pair(tmp_path, "secret words")
    (tmp_path / "phrase").write_text("secret words\n")
    words = ("--key", pair.private, "--passphrase-file", tmp_path / "phrase")
    assert told(folder, *words, "--output", tmp_path / "x")["signed_by"] == pair.fingerprint
    (tmp_path / "phrase").write_text("others\n")
    with pytest.raises(UsageError, match="can't be opened"):
        run(folder, *words, "--output", tmp_path / "y")


def test_a_flipped_byte_of_the_file(folder, pair, tmp_path):
    out = tmp_path / "out.json"
    run(folder, "--key", pair.private, "--output", out, "--quiet")
    data = out.read_bytes()
    for place in range(0, len(data), len(data) // 40):
        changed = bytearray(data)
        changed[place] ^= 1
        out.write_bytes(changed)
        with pytest.raises((IntegrityError, UsageError)):
            run(folder, "--verify", out, "--key", pair.public)


def test_an_altered_statement_with_a_good_signature(folder, made, pair, tmp_path):
    stated = provenance.statement(made)
    stated["subject"].pop()
    out = tmp_path / "out.json"
    out.write_bytes(dsse.sign(provenance.dump(stated), dsse.signer_of(pair.private, str)))
    with pytest.raises(IntegrityError, match="not the provenance of this bundle"):
        run(folder, "--verify", out, "--key", pair.public)


def test_an_unsigned_statement_says_so(folder, made, pair, tmp_path, capsys):
    out = tmp_path / "out.json"
    run(folder, "--output", out)
    assert "NOT signed" in capsys.readouterr().out
    assert out.read_bytes() == provenance.dump(provenance.statement(made))
    with pytest.raises(IntegrityError, match="not signed, and a key was given"):
        run(folder, "--verify", out, "--key", pair.public)
    run(folder, "--verify", out)
    assert "NOT checked" in capsys.readouterr().out


def test_it_lies_beside_the_bundle_with_the_proof(made, tmp_path, told):
    folder = Locked().write(tmp_path)[0]
    proof = tmp_path / f"{folder.name}.rehearsal.json"
    proof.write_bytes(proof_of(made.digest))
    record = told(folder)
    file = tmp_path / f"{folder.name}.provenance.json"
    assert record["file"] == str(file)
    assert record["statement"]["predicate"]["runDetails"]["byproducts"][-1]["name"] == proof.name
    with pytest.raises(UsageError, match="exists already"):
        run(folder)
    assert len(told(folder, "--verify", file)["notes"]) == 1
    proof.rename(tmp_path / "moved")
    assert len(told(folder, "--verify", file)["notes"]) == 2
    assert len(told(folder, "--verify", file, "--rehearsal", tmp_path / "moved")["notes"]) == 1
    proof.write_bytes(proof_of("0" * 64))
    with pytest.raises(IntegrityError, match="the proof of another bundle"):
        run(folder, "--force")
    with pytest.raises(IntegrityError, match="the proof of another bundle"):
        run(folder, "--verify", file)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--output", "{folder}/provenance.json"), "would lie in the bundle"),
        (("--output", "{folder}/none/provenance.json"), "would lie in the bundle"),
        (("--builder-id", "https://me:hunter2@ci.example"), "no URI"),
        (("--verify", "none"), "no such file"),
        (("--verify", "none", "--output", "x"), "--verify writes nothing"),
        (("--rehearsal", "none"), "no such proof"),
        (("--key", "none"), "no such key file"),
    ],
)
def test_what_is_not_taken(folder, words, why, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=why) as caught:
        run(folder, *(word.format(folder=folder) for word in words))
    assert "hunter2" not in caught.value.render()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_can_not_be_written(folder, tmp_path):
    with pytest.raises(FilesystemError, match="--output"):
        run(folder, "--output", tmp_path / "none" / "x.json")
