import base64
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import signature
from manifests.errors import BundleError, IntegrityError, UsageError
from manifests.signature import OPENSSL, SSH, Envelope, PublicKey

BLOB = signature.wire(b"ssh-ed25519", bytes(range(32)))
TEXT = base64.b64encode(BLOB).decode()
ENVELOPE = Envelope(BLOB, "vllm-bundle", "sha512", "ssh-ed25519", bytes(64))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A key of ssh-keygen, and a signature that it made."""
    folder = tmp_path_factory.mktemp("ssh")
    message = folder / "message"
    message.write_text("text\n")
    for words in (
        ("-q", "-t", "ed25519", "-N", "", "-C", "a comment", "-f", "key"),
        ("-q", "-Y", "sign", "-n", "file", "-f", "key", "message"),
    ):
        subprocess.run(["ssh-keygen", *words], cwd=folder, check=True, capture_output=True)
    return folder


def test_ssh_keygens_own_output(made):
    data = (made / "message.sig").read_bytes()
    envelope = signature.parse(data)
    assert envelope.armoured() == data
    assert (envelope.namespace, envelope.hashed) == ("file", "sha512")
    (key,) = signature.parse_ssh((made / "key.pub").read_bytes(), "key.pub")
    assert key.blob == envelope.blob
    command = ["ssh-keygen", "-l", "-f", "key.pub"]
    shown = subprocess.run(command, cwd=made, capture_output=True, text=True, check=True).stdout
    assert key.fingerprint == shown.split()[1]
    assert key.kind == "ssh-ed25519"


def test_every_flipped_byte_of_the_text_is_refused_or_read_as_something_else(made):
    """One envelope has one text."""
    data = (made / "message.sig").read_bytes()
    envelope = signature.parse(data)
    for place in range(len(data)):
        for bit in (1, 4, 32):
            changed = bytearray(data)
            changed[place] ^= bit
            try:
                found = signature.parse(bytes(changed))
            except IntegrityError:
                continue
            assert found != envelope


def test_every_truncation_is_refused(made):
    data = (made / "message.sig").read_bytes()
    for length in range(len(data) - 1):  # without the last newline it is still whole
        with pytest.raises(IntegrityError):
            signature.parse(data[:length])


envelopes = st.builds(
    Envelope,
    st.binary(max_size=300),
    st.text(st.characters(codec="utf-8"), max_size=20),
    st.sampled_from(["sha256", "sha512"]),
    st.text(st.characters(codec="ascii"), max_size=20),
    st.binary(max_size=600),
)


@given(envelope=envelopes)
def test_an_envelope_survives_its_armour(envelope):
    assert signature.parse(envelope.armoured()) == envelope


@given(data=st.binary(max_size=200))
def test_no_bytes_end_in_a_traceback(data):
    armoured = (
        b"-----BEGIN SSH SIGNATURE-----\n"
        + base64.b64encode(b"SSHSIG\0\0\0\1" + data)
        + b"\n-----END SSH SIGNATURE-----\n"
    )
    for parse in (
        lambda: signature.parse(data),
        lambda: signature.parse(armoured),
        lambda: signature.form_of(data),
        lambda: signature.parse_ssh(data, "key"),
        lambda: signature.parse_ssh(b"ssh-ed25519 " + base64.b64encode(data), "key"),
    ):
        try:
            parse()
        except BundleError as error:
            assert error.what


@given(parts=st.lists(st.binary(max_size=40)))
def test_wire_strings(parts):
    assert signature.unwire(signature.wire(*parts)) == parts


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"MEUCIQ==",
        b"-----BEGIN PGP SIGNATURE-----",
        b"\x31\x00",
        b"{}",
        b"\x30" * 70000,
    ],
)
def test_an_unknown_form_is_refused(data):
    with pytest.raises(IntegrityError, match=r"SHA256SUMS\.sig"):
        signature.form_of(data)


def test_forms():
    assert signature.form_of(b"\x30\x45\x02") == OPENSSL
    assert signature.form_of(ENVELOPE.armoured()) == SSH


def test_a_namespace_and_a_hash_belong_to_what_is_signed():
    other = Envelope(BLOB, "git", "sha512", "ssh-ed25519", b"")
    assert ENVELOPE.message(b"data") != other.message(b"data")
    assert ENVELOPE.message(b"data") != ENVELOPE.message(b"data ")


@pytest.mark.parametrize(
    ("line", "principals", "namespaces"),
    [
        (f"ssh-ed25519 {TEXT}", "", "*"),
        (f"ssh-ed25519 {TEXT} joe's key\n", "", "*"),
        (f"# comment\n\nops@example ssh-ed25519 {TEXT}\n", "ops@example", "*"),
        (f'"a b,*@c" ssh-ed25519 {TEXT} c', "a b,*@c", "*"),
        (f'ops namespaces="git, x,vllm-*" ssh-ed25519 {TEXT}', "ops", "git, x,vllm-*"),
    ],
)
def test_lines_that_ssh_knows(line, principals, namespaces):
    (key,) = signature.parse_ssh(line.encode(), "keys")
    assert key == PublicKey(SSH, BLOB, namespaces, principals)
    assert key.allows("vllm-bundle")


@pytest.mark.parametrize(
    ("namespaces", "allowed"),
    [
        ("git", False),
        ("vllm-bundle", True),
        ("*,!vllm-bundle", False),
        ("vllm-?undle", True),
        ("", False),
    ],
)
def test_namespaces(namespaces, allowed):
    assert PublicKey(SSH, BLOB, namespaces).allows("vllm-bundle") is allowed


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no public key"),
        ("# nothing\n", "no public key"),
        ("nonsense\n", "line 1: no public key"),
        ("ssh-ed25519 !!!\n", "no public key"),
        (f"ssh-rsa {TEXT}\n", "no public key"),
        (f"ssh-ed25519 {TEXT[:-4]}\n", "no public key"),
        (f"ssh-ed25519 {TEXT}\r\n", "CR LF"),
        (f"ops cert-authority ssh-ed25519 {TEXT}\n", "only ssh-keygen knows"),
        (f'ops namespaces="*",valid-before="2020" ssh-ed25519 {TEXT}\n', "only ssh-keygen knows"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\nSECRET\n", "holds a private key"),
        ("\xff\xfe", "no public key"),
    ],
)
def test_what_is_no_key_is_said_and_never_shown(text, told):
    with pytest.raises(UsageError, match=told) as caught:
        signature.parse_ssh(text.encode("latin-1"), "keys")
    assert "SECRET" not in caught.value.render()
    assert caught.value.mend
