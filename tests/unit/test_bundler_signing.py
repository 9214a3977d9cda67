import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from bundler import signing
from bundler.signing import newkey
from manifests import signature, sums
from manifests.errors import BundleError, FilesystemError, IntegrityError, UsageError
from tests.support.simulator import Simulator

NAMESPACE = signature.NAMESPACE


def nobody():
    raise AssertionError("asked for a passphrase")


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """One pair of ours, and one key of each kind that ssh-keygen makes."""
    folder = tmp_path_factory.mktemp("keys")
    signing.write_pair(folder)
    for kind, size in (("ed25519", 256), ("rsa", 2048), ("ecdsa", 384), ("ecdsa", 521)):
        command = ["ssh-keygen", "-q", "-t", kind, "-b", str(size), "-N", ""]
        subprocess.run([*command, "-f", folder / f"{kind}{size}"], check=True)
    return folder


@pytest.fixture
def folder(tmp_path):
    return Simulator().write(tmp_path)[0]


@pytest.fixture
def ours(keys):
    return signing.load_signer(keys / "vllm-bundle.key", nobody)


@pytest.fixture
def trusted(keys):
    return signing.load_public(keys / "vllm-bundle.pub.pem")


def openssl(folder: Path, key: Path) -> subprocess.CompletedProcess[str]:
    words = ("-verify", key, "-signature", "SHA256SUMS.sig", "SHA256SUMS")
    return subprocess.run(
        ["openssl", "dgst", "-sha256", *words], cwd=folder, capture_output=True, text=True
    )


def ssh_keygen(folder: Path, allowed: Path, who: str) -> subprocess.CompletedProcess[str]:
    words = ("-f", allowed, "-I", who, "-n", NAMESPACE, "-s", "SHA256SUMS.sig")
    with (folder / sums.FILE_NAME).open() as stdin:
        return subprocess.run(
            ["ssh-keygen", "-Y", "verify", *words],
            cwd=folder,
            stdin=stdin,
            capture_output=True,
            text=True,
        )


def test_a_new_pair_is_three_files_of_one_key(keys, ours, trusted):
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in keys.glob("vllm-bundle*")}
    assert modes == {
        "vllm-bundle.key": 0o600,
        "vllm-bundle.pub.pem": 0o644,
        "vllm-bundle.allowed_signers": 0o644,
    }
    (same,) = signing.load_public(keys / "vllm-bundle.allowed_signers")
    assert same.blob == trusted[0].blob == ours.public.blob
    assert same.namespaces == NAMESPACE
    command = ["openssl", "pkey", "-in", keys / "vllm-bundle.key", "-pubout"]
    public = subprocess.run(command, capture_output=True, check=True).stdout
    assert public == (keys / "vllm-bundle.pub.pem").read_bytes()


@pytest.mark.parametrize("there", ["k.key", "k.pub.pem", "k.allowed_signers"])
def test_no_key_is_overwritten(tmp_path, there):
    (tmp_path / there).symlink_to("nowhere")
    with pytest.raises(UsageError, match="never overwritten"):
        signing.write_pair(tmp_path / "k.key")
    assert [path.name for path in tmp_path.iterdir()] == [there]


def test_a_failing_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(newkey.os, "fsync", full)
    with pytest.raises(FilesystemError, match="No space left"):
        signing.write_pair(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FilesystemError):
        signing.write_pair(tmp_path / "missing" / "k")


def test_a_passphrase_locks_the_key(tmp_path):
    pair = signing.write_pair(tmp_path, "open sesame")
    assert b"ENCRYPTED PRIVATE KEY" in pair.private.read_bytes()
    assert signing.load_signer(pair.private, lambda: "open sesame").public.fingerprint
    with pytest.raises(UsageError, match="can't be opened") as caught:
        signing.load_signer(pair.private, lambda: "open barley")
    assert "barley" not in caught.value.render()
    command = ["openssl", "pkey", "-in", pair.private, "-passin", "pass:open sesame", "-noout"]
    assert subprocess.run(command, check=False).returncode == 0


def test_a_locked_ssh_key(tmp_path):
    key = tmp_path / "key"
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "open sesame", "-f", key]
    subprocess.run(command, check=True)
    assert signing.load_signer(key, lambda: "open sesame").form == signature.SSH
    with pytest.raises(UsageError, match="can't be opened"):
        signing.load_signer(key, lambda: "other")


def test_openssl_accepts_ours(folder, keys, ours, trusted):
    made = signing.sign(folder, ours)
    assert made.tool == "openssl"
    assert openssl(folder, keys / "vllm-bundle.pub.pem").stdout == "Verified OK\n"
    assert signing.verify(folder, trusted) == made


def test_we_accept_openssls(folder, keys, trusted):
    words = ("-sign", keys / "vllm-bundle.key", "-out", "SHA256SUMS.sig", "SHA256SUMS")
    subprocess.run(["openssl", "dgst", "-sha256", *words], cwd=folder, check=True)
    assert signing.verify(folder, trusted).fingerprint == trusted[0].fingerprint


def test_a_key_as_openssl_has_made_them_for_ever(folder, tmp_path):
    key, public = tmp_path / "old.pem", tmp_path / "old.pub"
    for words in (
        ("ecparam", "-name", "prime256v1", "-genkey", "-out", key),
        ("ec", "-in", key, "-pubout", "-out", public),
    ):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    assert b"EC PARAMETERS" in key.read_bytes()
    signing.sign(folder, signing.load_signer(key, nobody))
    assert openssl(folder, public).returncode == 0


@pytest.mark.parametrize("name", ["ed25519256", "rsa2048", "ecdsa384", "ecdsa521"])
def test_ssh_keygen_and_we_accept_each_other(folder, keys, tmp_path, name):
    public = signing.load_public(keys / f"{name}.pub")
    made = signing.sign(folder, signing.load_signer(keys / name, nobody))
    assert (made.form, made.fingerprint) == (signature.SSH, public[0].fingerprint)
    allowed = tmp_path / "allowed"
    allowed.write_text(f"joe {public[0].line()}\n")
    done = ssh_keygen(folder, allowed, "joe")
    assert done.returncode == 0, done.stderr
    assert made.fingerprint in done.stdout
    assert signing.verify(folder, signing.load_public(allowed)).principals == "joe"

    (folder / signature.FILE_NAME).unlink()
    command = ["ssh-keygen", "-q", "-Y", "sign", "-n", NAMESPACE, "-f", keys / name, "SHA256SUMS"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    assert signing.verify(folder, public).fingerprint == made.fingerprint


def test_our_key_in_ssh_keygens_form(folder, keys):
    signer = signing.load_signer(keys / "vllm-bundle.key", nobody, signature.SSH)
    signing.sign(folder, signer)
    allowed = keys / "vllm-bundle.allowed_signers"
    assert ssh_keygen(folder, allowed, "vllm-bundle").returncode == 0
    assert signing.verify(folder, signing.load_public(allowed)).kind == "ecdsa-sha2-nistp256"


def test_every_flipped_bit_is_refused(folder, keys, ours, trusted):
    path = folder / signature.FILE_NAME
    signing.sign(folder, ours)
    cases = [(path.read_bytes(), trusted)]
    signing.sign(folder, signing.load_signer(keys / "ed25519256", nobody), replace=True)
    cases.append((path.read_bytes(), signing.load_public(keys / "ed25519256.pub")))
    for data, public in cases:
        for place in range(len(data)):
            changed = bytearray(data)
            changed[place] ^= 1 << place % 8
            path.write_bytes(changed)
            with pytest.raises(IntegrityError, match=r"SHA256SUMS\.sig"):
                signing.verify(folder, public)
        for length in range(len(data) - 1):
            path.write_bytes(data[:length])
            with pytest.raises(IntegrityError, match=r"SHA256SUMS\.sig"):
                signing.verify(folder, public)
        path.write_bytes(data + b"\0")
        with pytest.raises(IntegrityError):
            signing.verify(folder, public)


def test_whose_list_it_is_decides(folder, tmp_path, ours, trusted):
    other, _ = Simulator(model={"config.json": b"{ }"}).write(tmp_path / "other")
    signing.sign(other, ours)
    shutil.copy(other / signature.FILE_NAME, folder)
    with pytest.raises(IntegrityError, match="not good"):
        signing.verify(folder, trusted)
    signing.sign(folder, ours, replace=True)
    assert signing.verify(folder, trusted)
    listed = folder / sums.FILE_NAME
    listed.write_bytes(listed.read_bytes().replace(b"install.sh", b"install2sh"))
    with pytest.raises(IntegrityError, match="not good"):
        signing.verify(folder, trusted)


def test_another_key(folder, tmp_path, keys, ours):
    signing.sign(folder, ours)
    stranger = signing.write_pair(tmp_path / "stranger")
    with pytest.raises(IntegrityError, match="not good"):
        signing.verify(folder, signing.load_public(stranger.public))
    signing.sign(folder, signing.load_signer(keys / "ed25519256", nobody), replace=True)
    with pytest.raises(IntegrityError, match="not good") as caught:
        signing.verify(folder, signing.load_public(stranger.allowed))
    assert signing.load_public(keys / "ed25519256.pub")[0].fingerprint in caught.value.why


def test_one_of_several_keys_is_enough(folder, keys, tmp_path):
    names = ("rsa2048.pub", "ed25519256.pub", "ecdsa384.pub")
    allowed = tmp_path / "allowed"
    allowed.write_text("".join(f"{name} {(keys / name).read_text()}" for name in names))
    signing.sign(folder, signing.load_signer(keys / "ed25519256", nobody))
    assert signing.verify(folder, signing.load_public(allowed)).principals == "ed25519256.pub"


@pytest.mark.parametrize("restricted", [True, False])
def test_a_namespace_is_no_other(folder, keys, tmp_path, restricted):
    public = signing.load_public(keys / "ed25519256.pub")
    made_for = NAMESPACE if restricted else "git"
    words = ("-q", "-Y", "sign", "-n", made_for, "-f", keys / "ed25519256", "SHA256SUMS")
    subprocess.run(["ssh-keygen", *words], cwd=folder, check=True, capture_output=True)
    if restricted:
        allowed = tmp_path / "allowed"
        allowed.write_text(f'joe namespaces="git" {public[0].line()}\n')
        public = signing.load_public(allowed)
    with pytest.raises(IntegrityError, match="not good") as caught:
        signing.verify(folder, public)
    assert "namespaces" in caught.value.why or "'git'" in caught.value.why


def test_a_key_for_the_other_tool(folder, keys, ours, trusted):
    signing.sign(folder, ours)
    with pytest.raises(IntegrityError, match="is for openssl") as caught:
        signing.verify(folder, signing.load_public(keys / "vllm-bundle.allowed_signers"))
    assert "PEM" in caught.value.mend
    signing.sign(folder, signing.load_signer(keys / "ed25519256", nobody), replace=True)
    with pytest.raises(IntegrityError, match="is for ssh-keygen"):
        signing.verify(folder, trusted)


def test_a_signature_that_is_not_there_or_not_a_file(folder, tmp_path, ours, trusted):
    with pytest.raises(IntegrityError, match="not signed"):
        signing.verify(folder, trusted)
    signing.sign(folder, ours)
    path = folder / signature.FILE_NAME
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(IntegrityError, match="not good"):
        signing.verify(folder, trusted)
    path.unlink()
    path.mkdir()
    with pytest.raises(IntegrityError, match="not good"):
        signing.verify(folder, trusted)


def test_a_signature_is_replaced_only_where_that_is_wanted(folder, ours):
    signing.sign(folder, ours)
    before = (folder / signature.FILE_NAME).read_bytes()
    with pytest.raises(UsageError, match="signed already"):
        signing.sign(folder, ours)
    assert (folder / signature.FILE_NAME).read_bytes() == before
    (folder / ".SHA256SUMS.sig.new").write_text("left by a kill")
    signing.sign(folder, ours, replace=True)
    assert not (folder / ".SHA256SUMS.sig.new").exists()


def test_what_is_no_bundle_is_not_signed(tmp_path, ours, trusted):
    for work in (lambda: signing.sign(tmp_path, ours), lambda: signing.verify(tmp_path, trusted)):
        with pytest.raises(UsageError, match="not a bundle"):
            work()
    (tmp_path / sums.FILE_NAME).write_text("nonsense\n")
    with pytest.raises(IntegrityError, match="malformed"):
        signing.sign(tmp_path, ours)


@pytest.mark.parametrize("name", ["vllm-bundle.key", "ed25519256", "rsa2048"])
def test_a_private_key_in_the_place_of_a_public_one(keys, name):
    secret = (keys / name).read_text().splitlines()[1]
    with pytest.raises(UsageError, match="holds a private key") as caught:
        signing.load_public(keys / name)
    assert secret not in caught.value.render()
    with pytest.raises(UsageError, match="no private key"):
        signing.load_signer(keys / "vllm-bundle.pub.pem", nobody)


def test_an_open_key_shows_nothing_of_itself(keys, ours):
    number = ours.private.private_numbers().private_value
    assert str(number) not in repr(ours)
    assert format(number, "x") not in repr(ours)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "no public key"),
        (b"hello\n", "no public key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "not a public key"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "not a public key"),
        (b"A" * 70_000, "too long"),
        (None, "no such key file"),
    ],
)
def test_what_is_no_key(tmp_path, content, told):
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=told):
        signing.load_public(path)
    with pytest.raises(BundleError):
        signing.load_signer(path, nobody)


def test_a_pem_file_with_crlf_is_the_same_key(keys, tmp_path, trusted):
    path = tmp_path / "crlf.pem"
    path.write_bytes((keys / "vllm-bundle.pub.pem").read_bytes().replace(b"\n", b"\r\n"))
    assert signing.load_public(path) == trusted


@pytest.mark.parametrize("algorithm", ["ED25519", "RSA", "EC"])
def test_keys_that_openssl_does_not_check_everywhere(tmp_path, algorithm):
    path, public = tmp_path / "key", tmp_path / "pub"
    words = ["-algorithm", algorithm]
    words += ["-pkeyopt", "ec_paramgen_curve:secp384r1"] if algorithm == "EC" else []
    subprocess.run(["openssl", "genpkey", *words, "-out", path], check=True, capture_output=True)
    subprocess.run(["openssl", "pkey", "-in", path, "-pubout", "-out", public], check=True)
    for work in (lambda: signing.load_signer(path, nobody), lambda: signing.load_public(public)):
        with pytest.raises(UsageError, match="P-256"):
            work()
    assert signing.load_signer(path, nobody, signature.SSH).form == signature.SSH
    with pytest.raises(UsageError, match="P-256"):
        signing.load_signer(path, nobody, signature.OPENSSL)
