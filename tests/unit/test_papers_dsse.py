"""Envelopes: what others read of ours, and what is refused of others'."""

import base64
import json
import subprocess

import pytest
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st
from securesystemslib.dsse import Envelope as TheirEnvelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from bundler import signing
from bundler.papers import dsse
from manifests.errors import IntegrityError, UsageError

BODY = b'{"hello":"world"}\n'


def ssh_key(folder, *words):
    path = folder / "ssh"
    command = ["ssh-keygen", "-q", "-N", "", "-C", "", "-f", path, *words]
    subprocess.run(command, check=True)
    return path


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return signing.write_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    return signing.write_pair(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def written(pair):
    return dsse.sign(BODY, dsse.signer_of(pair.private, str))


def parsed(data):
    return dsse.parse(dsse.loads(data, "file"), "file")


def test_the_encoding_is_the_one_of_the_specification():
    # The example of https://github.com/secure-systems-lab/dsse/blob/master/protocol.md.
    found = dsse.pae("http://example.com/HelloWorld", b"hello world")
    assert found == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"


@given(st.text(), st.binary())
def test_the_encoding_is_securesystemslibs(kind, payload):
    try:
        kind.encode()
    except UnicodeEncodeError:
        return
    assert dsse.pae(kind, payload) == TheirEnvelope(payload, kind, {}).pae()


def test_what_is_signed_comes_back(written, pair):
    found = parsed(written)
    assert (found.payload, found.kind) == (BODY, dsse.IN_TOTO)
    signer = dsse.signed_by(found, dsse.keys_of(pair.public), "file")
    assert signer.fingerprint == pair.fingerprint
    assert dsse.signed_by(found, dsse.keys_of(pair.allowed), "file").blob == signer.blob


def test_securesystemslib_accepts_it(written, pair, stranger):
    theirs = TheirEnvelope.from_dict(json.loads(written))
    assert theirs.payload == BODY
    for key, good in ((pair, True), (stranger, False)):
        public = load_pem_public_key(key.public.read_bytes())
        trusted = SSlibKey.from_crypto(public, keyid=pair.fingerprint)
        if good:
            assert list(theirs.verify([trusted], 1)) == [pair.fingerprint]
        else:
            with pytest.raises(VerificationError):
                theirs.verify([trusted], 1)


def test_another_hint_or_none_changes_nothing(written, pair):
    value = json.loads(written)
    keys = dsse.keys_of(pair.public)
    value["signatures"][0]["keyid"] = "SHA256:somebody"
    assert dsse.signed_by(dsse.parse(value, "file"), keys, "file")
    del value["signatures"][0]["keyid"]
    value["signatures"].insert(0, {"sig": "AAAA"})
    value["more"] = 1
    assert dsse.signed_by(dsse.parse(value, "file"), keys, "file")


def test_url_safe_base64_is_taken(pair):
    body = bytes(range(256))
    value = json.loads(dsse.sign(body, dsse.signer_of(pair.private, str)))
    assert "+" in value["payload"]
    value["payload"] = base64.urlsafe_b64encode(body).decode()
    assert dsse.parse(value, "file").payload == body


def test_another_key_or_a_changed_byte_is_refused(written, pair, stranger):
    found = parsed(written)
    with pytest.raises(IntegrityError, match="signature is not good"):
        dsse.signed_by(found, dsse.keys_of(stranger.public), "file")
    keys = dsse.keys_of(pair.public)
    for place in range(len(BODY)):
        body = bytearray(BODY)
        body[place] ^= 1
        changed = dsse.Envelope(bytes(body), found.kind, found.signatures)
        with pytest.raises(IntegrityError):
            dsse.signed_by(changed, keys, "file")
    with pytest.raises(IntegrityError):
        dsse.signed_by(dsse.Envelope(BODY, "text/plain", found.signatures), keys, "file")


@pytest.mark.parametrize(
    "change",
    [
        {"payload": "a"},
        {"payload": "a b="},
        {"payload": None},
        {"payloadType": 1},
        {"signatures": []},
        {"signatures": {}},
        {"signatures": [{}]},
        {"signatures": ["sig"]},
        {"signatures": [{"sig": "é"}]},
        {"signatures": [{"sig": "AAAA"}] * 17},
    ],
)
def test_what_is_no_envelope(written, change):
    with pytest.raises(IntegrityError, match="no DSSE envelope") as caught:
        dsse.parse({**json.loads(written), **change}, "file")
    assert caught.value.mend


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"a":1,"a":2}', b"[" * 100_000, b"{} x"])
def test_what_is_no_object(data):
    with pytest.raises(IntegrityError, match=r"^file: "):
        dsse.loads(data, "file")


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data):
    try:
        dsse.parse(dsse.loads(data, "file"), "file")
    except IntegrityError as error:
        assert error.mend


def test_a_key_of_ssh_keygen_signs_where_its_curve_is_openssls(tmp_path):
    path = ssh_key(tmp_path, "-t", "ecdsa", "-b", "256")
    found = parsed(dsse.sign(BODY, dsse.signer_of(path, str)))
    assert dsse.signed_by(found, dsse.keys_of(tmp_path / "ssh.pub"), "file")
    assert found.signatures[0][:1] == b"\x30"  # DER, as openssl reads it


@pytest.mark.parametrize("words", [("-t", "ed25519"), ("-t", "ecdsa", "-b", "384")])
def test_another_key_of_ssh_keygen_is_refused(tmp_path, words):
    path = ssh_key(tmp_path, *words)
    with pytest.raises(UsageError, match="can't sign this") as caught:
        dsse.signer_of(path, str)
    assert "bundle keygen" in caught.value.mend
    with pytest.raises(UsageError, match="no key that signs this"):
        dsse.keys_of(tmp_path / "ssh.pub")


def test_a_curve_that_nobody_signs_with(tmp_path):
    path = tmp_path / "odd.key"
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:secp256k1"]
    subprocess.run([*command, "-out", path], check=True, capture_output=True)
    with pytest.raises(UsageError, match="can't sign this"):
        dsse.signer_of(path, str)


def test_a_key_that_is_trusted_for_something_else_is_none(pair, tmp_path):
    public = pair.allowed.read_text().replace('namespaces="vllm-bundle"', 'namespaces="git"')
    (tmp_path / "allowed").write_text(public)
    with pytest.raises(UsageError, match="no key that signs this"):
        dsse.keys_of(tmp_path / "allowed")


def test_the_halves_of_a_key_are_not_taken_for_each_other(pair):
    with pytest.raises(UsageError, match="no private key"):
        dsse.signer_of(pair.public, str)
    with pytest.raises(UsageError, match="holds a private key"):
        dsse.keys_of(pair.private)
    with pytest.raises(UsageError, match="no such key file"):
        dsse.keys_of(pair.public.with_name("none"))


def test_the_steps_by_hand(written, pair, stranger, tmp_path):
    """Of the help, word by word: sed, coreutils and openssl."""
    (tmp_path / "FILE").write_bytes(written)
    for key, status in ((pair, 0), (stranger, 1)):
        (tmp_path / "PUB.pem").write_bytes(key.public.read_bytes())
        done = subprocess.run(
            ["sh", "-ec", dsse.BY_HAND], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        assert ("Verified OK" in done.stdout) is (status == 0)
        assert (tmp_path / "statement").read_bytes() == BODY
