"""`bundle inspect`, `diff` and `schema` on a bundle that `bundle create` made."""

import hashlib
import json
import subprocess
import sys

import jsonschema
import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import bundle, environment
from tests.support.variants import variant

#: First bytes of the packed environment (RFC 8878, 3.1.1).
ZSTANDARD = bytes.fromhex("28b52ffd")


def schema(name):
    done = bundle("schema", name)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def asked(*words):
    done = bundle(*words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_manifest_that_create_wrote_fits_its_schema(small_bundle):
    raw = bundle("inspect", str(small_bundle), "--raw", "manifest").stdout
    jsonschema.validate(json.loads(raw), schema("manifest"))
    record = asked("inspect", str(small_bundle))
    assert record["identity"]["manifest_sha256"] == hashlib.sha256(raw.encode()).hexdigest()


def test_a_bundle_and_its_installation(small_bundle, host):
    form = schema("inspect")
    on_media, installed = asked("inspect", str(small_bundle)), asked("inspect", str(host))
    for record in (on_media, installed):
        jsonschema.validate(record, form)
    apart = ("kind", "path", "files", "checked")
    assert {**on_media, **dict.fromkeys(apart)} == {**installed, **dict.fromkeys(apart)}
    assert "stub-vllm" in {package["name"] for package in on_media["packages"]["wheels"]}
    assert on_media["provenance"]["channel"] == "file"


def test_licences(small_bundle, host):
    for place in (small_bundle, host):
        wheels = asked("inspect", str(place), "--licences")["packages"]["wheels"]
        assert all(package["licence"] is not None for package in wheels)


def test_a_screen(small_bundle):
    done = bundle("inspect", str(small_bundle))
    assert done.returncode == 0, done.stderr
    assert small_bundle.name in done.stdout
    assert len(done.stdout.splitlines()) <= 40
    everything = bundle("inspect", str(small_bundle), "--all").stdout
    assert everything.startswith(done.stdout[:200])
    assert "model.safetensors" in everything


def test_a_medium_that_can_t_be_written(small_bundle, namespace):
    folder = small_bundle
    script = (
        f"mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}' && "
        f"! touch '{folder}/x' 2>/dev/null && exec \"$@\""
    )
    words = (sys.executable, "-c", "from bundler.cli import main; main()", "inspect", str(folder))
    command = [*namespace, "sh", "-c", script, "sh", *words]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_diff(small_bundle, newer_bundle, host, tmp_path):
    form = schema("diff")
    same = asked("diff", str(small_bundle), str(host))
    assert same["same"]
    later = asked("diff", str(host), str(newer_bundle))
    assert later["same"]  # another name and sequence alone
    lock = tmp_path / "bundle.lock"
    lock.write_text(bundle("inspect", str(small_bundle), "--raw", "lock").stdout)
    locked = asked("diff", str(lock), str(small_bundle))
    assert locked["same"]
    assert "server" in locked["not_compared"]
    for record in (same, later, locked):
        jsonschema.validate(record, form)


def test_a_difference_is_no_failure(small_bundle, tmp_path):
    other = variant(small_bundle, tmp_path, name="other", thinking=False)
    done = bundle("diff", str(small_bundle), str(other))
    assert done.returncode == 0, done.stderr
    assert "  ~ thinking on -> off" in done.stdout
    record = asked("diff", str(small_bundle), str(other))
    jsonschema.validate(record, schema("diff"))
    assert not record["same"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("inspect", "/nowhere"), ExitCode.USAGE),
        (("inspect", "/"), ExitCode.USAGE),
        (("diff", "/nowhere", "/"), ExitCode.USAGE),
        (("diff", "/"), ExitCode.USAGE),
        (("schema", "other"), ExitCode.USAGE),
    ],
)
def test_usage(words, code):
    done = bundle(*words)
    assert done.returncode == code
    assert "mend:" in done.stderr
    assert "Traceback" not in done.stderr


def test_damage_in_what_is_read(own_bundle):
    path = own_bundle / f"{own_bundle.name}.tar"
    data = bytearray(path.read_bytes())
    data[700] ^= 1
    path.write_bytes(data)
    done = bundle("inspect", str(own_bundle))
    assert done.returncode == ExitCode.INTEGRITY
    assert "bundle.json: expected" in done.stderr


def test_a_look_is_no_audit(own_bundle):
    """The environment is passed over, not read; and that is said."""
    path = own_bundle / f"{own_bundle.name}.tar"
    data = bytearray(path.read_bytes())
    data[data.index(ZSTANDARD) + 1_000_000] ^= 1
    path.write_bytes(data)
    record = asked("inspect", str(own_bundle))
    assert record["checked"] == ["install.sh", "bundle.json", "bundle.lock"]
    assert "`bundle audit` checks all" in record["unchecked"]
    assert bundle("audit", str(own_bundle)).returncode == ExitCode.INTEGRITY
    done = bundle("inspect", str(own_bundle), "--licences")
    assert done.returncode == ExitCode.INTEGRITY
