"""install.sh and signatures: everything that is not right is refused before the medium is read."""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundler import signing
from manifests import signature, sums
from manifests.audit import audit
from manifests.exitcodes import ExitCode
from tests.support import killing
from tests.support.simulator import Simulator
from tests.support.small import bundle, environment, install
from tests.support.variants import manifest_of, variant

SHELLS = {"dash": ("dash",), "bash": ("bash", "--posix"), "busybox": ("busybox", "ash")}
#: What install.sh needs besides; see test_install_shells.py.
TOOLS = ("tar", "gzip", "sha256sum", "mktemp", "mkdir", "rm", "head", "uname", "wc")
#: Stands in for Python, and says what it is called with.
ECHO = {"bin": None, "bin/python": b'#!/bin/sh\nprintf "<%s>" "$@"\n'}
NOT_GOOD = "SHA256SUMS.sig: the signature is not good"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ours.key", "stranger.key"):
        signing.write_pair(folder / name)
    for name in ("ssh", "ssh-stranger"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", folder / name]
        subprocess.run(command, check=True)
    public = (folder / "ssh.pub").read_text()
    (folder / "allowed").write_text(f"# ours\nops@example,joe {public}")
    (folder / "allowed-for-git").write_text(f'joe namespaces="git" {public}')
    (folder / "allowed-others").write_text(f"joe {(folder / 'ssh-stranger.pub').read_text()}")
    return folder


def sign(folder: Path, key: Path, form: str = "") -> None:
    signer = signing.load_signer(key, lambda: "", form)
    signing.sign(folder, signer, replace=True)


@pytest.fixture
def folder(tmp_path):
    """A tiny bundle, not signed; its runtime only says how it is called."""
    return Simulator(runtime=ECHO).write(tmp_path / "media")[0]


@pytest.fixture
def signed(folder, keys):
    """Signed for openssl."""
    sign(folder, keys / "ours.key")
    return folder


@pytest.fixture
def ssh_signed(folder, keys):
    sign(folder, keys / "ssh")
    return folder


@pytest.fixture
def only(tmp_path):
    """Makes a folder for PATH with the needed tools and those named."""

    def make(*names: str) -> Path:
        path = tmp_path / "bin"
        path.mkdir()
        for name in (*TOOLS, *names):
            (path / name).symlink_to(str(shutil.which(name)))
        return path

    return make


def with_key(folder: Path, key: Path, *words: str, **options) -> subprocess.CompletedProcess[str]:
    return install(folder, "--key", str(key), *words, **options)


def refused(done, told: str = NOT_GOOD, status: int = ExitCode.INTEGRITY) -> None:
    assert done.returncode == status, done.stderr
    assert told in done.stderr
    assert done.stdout == "", "something of the medium was started"


def started(done) -> None:
    assert done.returncode == 0, done.stderr
    assert "<bundlectl>" in done.stdout


@pytest.mark.parametrize("shell", SHELLS)
def test_a_good_signature(folder, keys, shell):
    if shutil.which(shell) is None:
        pytest.skip(f"this machine lacks {shell}")
    for key, public in (
        ("ours.key", "ours.pub.pem"),
        ("ssh", "allowed"),
        ("ssh", "ssh.pub"),
    ):
        sign(folder, keys / key)
        done = with_key(folder, keys / public, shell=SHELLS[shell])
        started(done)
        assert "Good" in done.stderr
        refused(with_key(folder, keys / "stranger.pub.pem", shell=SHELLS[shell]), "SHA256SUMS.sig")
    sign(folder, keys / "ours.key", signature.SSH)
    started(with_key(folder, keys / "ours.allowed_signers", shell=SHELLS[shell]))


@pytest.mark.parametrize("word", ["--quiet", "--json"])
def test_a_good_signature_is_no_news_where_silence_is_wanted(signed, keys, word):
    done = with_key(signed, keys / "ours.pub.pem", word)
    started(done)
    assert done.stderr == ""


def test_the_other_words_reach_bundlectl_as_they_are(signed, keys):
    words = ("ask", "two  words", "", "*", "--thinking", "off")
    done = install(signed, f"--key={keys / 'ours.pub.pem'}", *words)
    started(done)
    assert done.stdout.endswith("<ask><two  words><><*><--thinking><off>")
    done = install(signed, *words, "--key", str(keys / "ours.pub.pem"))
    assert done.stdout.endswith("<ask><two  words><><*><--thinking><off>")


def test_a_signature_without_a_key_is_said_to_be_unchecked(signed):
    done = install(signed)
    started(done)
    assert done.stderr.count("\n") == 1
    assert "NOT verified" in done.stderr
    assert "--key FILE" in done.stderr


def test_a_key_and_no_signature(folder, keys):
    for public in ("ours.pub.pem", "allowed"):
        refused(with_key(folder, keys / public), "SHA256SUMS.sig: missing")


def test_a_bit_of_every_byte(signed, keys):
    path = signed / signature.FILE_NAME
    data = path.read_bytes()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        refused(with_key(signed, keys / "ours.pub.pem"))


def test_bits_of_an_ssh_signature(ssh_signed, keys):
    path = ssh_signed / signature.FILE_NAME
    begin, *lines, end = path.read_bytes().splitlines()
    data = base64.b64decode(b"".join(lines))
    for place in range(0, len(data), 5):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(b"\n".join([begin, base64.b64encode(changed), end, b""]))
        refused(with_key(ssh_signed, keys / "allowed"))


@pytest.mark.parametrize("content", ["", "nonsense\n", "cut", "longer", "armour", "nul"])
def test_what_is_no_signature(signed, keys, content):
    path = signed / signature.FILE_NAME
    good = longest = path.read_bytes()
    while len(longest) < 72:  # a quarter of all signatures; openssl reads no further
        sign(signed, keys / "ours.key")
        longest = path.read_bytes()
    data = {
        "cut": good[:-1],
        "longer": longest + b"\n",
        "armour": b"-----BEGIN SSH SIGNATURE-----\n",
        "nul": bytes(71),
    }
    path.write_bytes(data.get(content, content.encode()))
    for public in ("ours.pub.pem", "allowed", "ssh.pub"):
        refused(with_key(signed, keys / public), "SHA256SUMS.sig")


@pytest.mark.parametrize(
    ("public", "told"),
    [
        ("stranger.pub.pem", "is for ssh-keygen, or damaged"),
        ("ssh-stranger.pub", NOT_GOOD),
        ("allowed-others", NOT_GOOD),
        ("allowed-for-git", NOT_GOOD),
        ("ours.allowed_signers", NOT_GOOD),
    ],
)
def test_an_ssh_key_that_is_not_trusted_for_this(ssh_signed, keys, public, told):
    refused(with_key(ssh_signed, keys / public), told)


def test_a_key_of_another(signed, keys):
    refused(with_key(signed, keys / "stranger.pub.pem"))
    refused(with_key(signed, keys / "allowed"), "is for openssl, or damaged")


def test_a_signature_for_something_else(folder, keys):
    words = ("-q", "-Y", "sign", "-n", "git", "-f", keys / "ssh", "SHA256SUMS")
    subprocess.run(["ssh-keygen", *words], cwd=folder, check=True, capture_output=True)
    for public in ("allowed", "ssh.pub", "allowed-for-git"):
        refused(with_key(folder, keys / public))


@pytest.mark.parametrize("name", ["ours.key", "ssh"])
def test_the_signature_of_another_list(folder, tmp_path, keys, name):
    public = keys / {"ours.key": "ours.pub.pem", "ssh": "allowed"}[name]
    other, _ = Simulator(model={"config.json": b"{ }"}).write(tmp_path / "other")
    sign(other, keys / name)
    shutil.copy(other / signature.FILE_NAME, folder)
    refused(with_key(folder, public))
    sign(folder, keys / name)
    started(with_key(folder, public))
    # A list that is right in itself: only the signature knows that it is another one.
    (folder / "install.sh").write_text((folder / "install.sh").read_text() + "# added\n")
    listed = sums.parse((folder / sums.FILE_NAME).read_bytes())
    script = (folder / "install.sh").read_bytes()
    listed["install.sh"] = signing_digest(script)
    (folder / sums.FILE_NAME).write_bytes(sums.render(listed))
    started(install(folder))
    refused(with_key(folder, public))


def signing_digest(data: bytes) -> str:
    done = subprocess.run(["sha256sum"], input=data, capture_output=True, check=True)
    return done.stdout.decode().split()[0]


@pytest.mark.parametrize("name", [signature.FILE_NAME, sums.FILE_NAME, signature.SIDECAR])
def test_links_are_refused_with_a_key_or_without(signed, tmp_path, keys, name):
    if name == signature.SIDECAR:
        (signed / name).write_text("{}")
        started(install(signed))
    shutil.move(signed / name, tmp_path / "elsewhere")
    (signed / name).symlink_to(tmp_path / "elsewhere")
    refused(with_key(signed, keys / "ours.pub.pem"), name)
    refused(install(signed), name)
    (signed / name).unlink()
    (signed / name).mkdir()
    refused(with_key(signed, keys / "ours.pub.pem"), name)
    refused(install(signed), name)


def test_the_signature_is_looked_at_before_anything_else(signed, keys):
    """A pipe in the place of every other file: who reads one waits for ever."""
    for path in list(signed.iterdir()):
        if path.name not in (sums.FILE_NAME, signature.FILE_NAME, "install.sh"):
            path.unlink()
            os.mkfifo(path)
    (signed / sums.FILE_NAME).write_text("malformed, and so is the signature\n")
    command = ["sh", str(signed / "install.sh"), "--key", str(keys / "ours.pub.pem")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    refused(done)


@pytest.mark.parametrize("name", ["ours.key", "ssh"])
def test_a_private_key_in_the_place_of_a_public_one(signed, keys, name):
    done = with_key(signed, keys / name)
    refused(done, "holds a private key", ExitCode.USAGE)
    assert (keys / name).read_text().splitlines()[1] not in done.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "no key file that can be read"),
        ("", "no public key"),
        ("nonsense\n", "no public key"),
        ("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "can't read it"),
        ("crlf ssh-ed25519 AAAA\r\n", "CR LF"),
        ("ssh-ed25519 AAAA\r\n", "CR LF"),
    ],
)
def test_what_is_no_key(signed, tmp_path, content, told):
    key = tmp_path / "key"
    if content is not None:
        key.write_text(content, newline="")
    refused(with_key(signed, key), told, ExitCode.USAGE)
    refused(with_key(signed, tmp_path), "no key file", ExitCode.USAGE)


def test_line_ends_of_a_pem_file_do_not_matter(signed, keys, tmp_path):
    key = tmp_path / "crlf.pem"
    key.write_bytes((keys / "ours.pub.pem").read_bytes().replace(b"\n", b"\r\n"))
    started(with_key(signed, key))


@pytest.mark.parametrize("public", ["allowed", "ssh.pub"])
def test_lines_of_an_ssh_file_may_not_end_in_cr_lf(ssh_signed, keys, tmp_path, public):
    key = tmp_path / "crlf"
    key.write_bytes((keys / public).read_bytes().replace(b"\n", b"\r\n"))
    refused(with_key(ssh_signed, key), "CR LF", ExitCode.USAGE)


def test_names_of_keys_that_look_like_options(signed, keys, tmp_path, monkeypatch):
    shutil.copy(keys / "ours.pub.pem", tmp_path / "-in")
    monkeypatch.chdir(tmp_path)
    started(with_key(signed, Path("-in")))


@pytest.mark.parametrize("words", [("--key",), ("--key", ""), ("--key=",), ("--trust-digest",)])
def test_half_an_option_is_not_none(signed, words):
    refused(install(signed, *words), "error:", ExitCode.USAGE)


# --- keys that the operator has put into the prefix ---


@pytest.mark.parametrize("named", ["--prefix DIR", "--prefix=DIR", "XDG_DATA_HOME"])
def test_a_key_of_the_prefix_is_always_used(signed, keys, tmp_path, named):
    prefix = tmp_path / "vllm-bundle"
    (prefix / "etc").mkdir(parents=True)
    words = [word.replace("DIR", str(prefix)) for word in named.split()]
    options = {}
    if named == "XDG_DATA_HOME":
        if os.geteuid() == 0:
            pytest.skip("root's default prefix is /opt/vllm-bundle")
        words, options = [], {"env": {"PATH": "/usr/bin:/bin", named: str(tmp_path)}}
    key = prefix / "etc/trusted-key.pem"
    shutil.copy(keys / "stranger.pub.pem", key)
    refused(install(signed, *words, **options))
    shutil.copy(keys / "ours.pub.pem", key)
    done = install(signed, *words, **options)
    started(done)
    assert str(key) in done.stderr
    (signed / signature.FILE_NAME).unlink()
    refused(install(signed, *words, **options), "SHA256SUMS.sig: missing")
    digest = signing_digest((signed / sums.FILE_NAME).read_bytes())
    refused(install(signed, *words, "--trust-digest", digest, **options), "SHA256SUMS.sig: missing")


def test_of_two_keys_of_the_prefix_the_one_that_fits_is_used(folder, keys, tmp_path):
    (tmp_path / "etc").mkdir()
    words = ("--prefix", str(tmp_path))
    shutil.copy(keys / "allowed", tmp_path / "etc/allowed_signers")
    sign(folder, keys / "ours.key")
    refused(install(folder, *words), "is for openssl, or damaged")
    shutil.copy(keys / "ours.pub.pem", tmp_path / "etc/trusted-key.pem")
    started(install(folder, *words))
    sign(folder, keys / "ssh")
    started(install(folder, *words))
    started(with_key(folder, keys / "ssh.pub", *words))
    (tmp_path / "etc/trusted-key.pem").unlink()
    (tmp_path / "etc/trusted-key.pem").symlink_to("nowhere")
    (tmp_path / "etc/allowed_signers").unlink()
    refused(install(folder, *words), "no key file", ExitCode.USAGE)


# --- the digest ---


@pytest.mark.parametrize("with_signature", [True, False])
def test_a_digest_that_came_by_another_road(folder, keys, with_signature):
    if with_signature:
        sign(folder, keys / "ours.key")
    digest = signing_digest((folder / sums.FILE_NAME).read_bytes())
    for words in (("--trust-digest", digest), (f"--trust-digest={digest}",)):
        done = install(folder, *words)
        started(done)
        assert done.stderr == ""
    wrong = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    refused(install(folder, "--trust-digest", wrong), "not the one that is trusted")


@pytest.mark.parametrize(
    "digest", ["", "abc", "A" * 64, "a" * 63, "a" * 65, "g" * 64, " " + "a" * 63, "a" * 63 + "\n"]
)
def test_what_is_no_digest(folder, digest):
    refused(install(folder, "--trust-digest", digest), "not 64 hex digits", ExitCode.USAGE)


def test_a_digest_does_not_heal_a_signature(signed, keys):
    digest = signing_digest((signed / sums.FILE_NAME).read_bytes())
    refused(with_key(signed, keys / "stranger.pub.pem", "--trust-digest", digest))


# --- the host's tools ---


@pytest.mark.parametrize("kind", ["openssl", "ssh-keygen"])
def test_a_host_without_the_tool(folder, keys, only, kind):
    key, public, other = {
        "openssl": ("ours.key", "ours.pub.pem", "ssh-keygen"),
        "ssh-keygen": ("ssh", "allowed", "openssl"),
    }[kind]
    sign(folder, keys / key)
    env = {"PATH": str(only(other))}
    shell = (str(shutil.which("dash")),)
    done = with_key(folder, keys / public, env=env, shell=shell)
    refused(done, f"this host has no {kind}", ExitCode.TARGET)
    assert "--trust-digest HEX" in done.stderr
    digest = signing_digest((folder / sums.FILE_NAME).read_bytes())
    words = ("--trust-digest", digest)
    started(with_key(folder, keys / public, *words, env=env, shell=shell))
    started(install(folder, *words, env=env, shell=shell))


def test_no_tool_of_the_medium_is_run(signed, keys, only, tmp_path, monkeypatch):
    trap = signed / "openssl"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho Verified OK\n")
    trap.chmod(0o755)
    shell = (str(shutil.which("dash")),)
    rest = only()
    monkeypatch.chdir(signed)
    for first in (signed, "."):
        env = {"PATH": f"{first}:{rest}"}
        done = with_key(signed, keys / "ours.pub.pem", env=env, shell=shell)
        refused(done, "this host has no openssl", ExitCode.TARGET)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("tool", "script", "status"),
    [
        ("ssh-keygen", 'echo "ssh-keygen: unknown option -- Y" >&2; exit 1', ExitCode.TARGET),
        ("ssh-keygen", "exit 255", ExitCode.INTEGRITY),
        ("openssl", 'echo "Verification Failure"', ExitCode.INTEGRITY),
        ("openssl", 'case $1 in dgst) echo "Verified OK"; exit 1; esac', ExitCode.INTEGRITY),
        ("openssl", "case $1 in dgst) kill -9 $$; esac", ExitCode.INTEGRITY),
        ("openssl", "exit 127", ExitCode.USAGE),
    ],
)
def test_tools_that_are_old_or_broken(folder, keys, only, tool, script, status):
    sign(folder, keys / {"openssl": "ours.key", "ssh-keygen": "ssh"}[tool])
    path = only()
    (path / tool).write_text(f"#!/bin/sh\n{script}\n")
    (path / tool).chmod(0o755)
    public = keys / {"openssl": "ours.pub.pem", "ssh-keygen": "allowed"}[tool]
    shell = (str(shutil.which("dash")),)
    refused(with_key(folder, public, env={"PATH": str(path)}, shell=shell), "error:", status)


def test_nothing_is_left_in_the_folder_for_temporary_files(ssh_signed, keys, tmp_path):
    (tmp_path / "tmp").mkdir()
    env = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path / "tmp")}
    for public in ("ssh-stranger.pub", "allowed-others"):
        refused(with_key(ssh_signed, keys / public, env=env))
        assert list((tmp_path / "tmp").iterdir()) == []


# --- the commands ---


def test_keygen_sign_verify(folder, tmp_path):
    home = tmp_path / "keys"
    home.mkdir()
    (tmp_path / "passphrase").write_text("open sesame\n")
    lock = ("--passphrase-file", str(tmp_path / "passphrase"))
    made = bundle("keygen", "--out", str(home), *lock, "--json")
    assert made.returncode == 0, made.stderr
    record = json.loads(made.stdout)

    key = ("--key", record["private_key"])
    alone = bundle("sign", str(folder), *key)
    assert alone.returncode == ExitCode.USAGE
    assert "--passphrase-file" in alone.stderr
    done = bundle("sign", str(folder), *key, *lock)
    assert done.returncode == 0, done.stderr
    assert record["fingerprint"] in done.stdout

    public = ("--key", record["public_key"])
    done = bundle("verify", str(folder), *public, "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["signature"]["key"] == record["fingerprint"]
    assert answer["intact"] is True

    archive = folder / f"{folder.name}.tar"
    data = bytearray(archive.read_bytes())
    data[-2000] ^= 1
    archive.write_bytes(data)
    done = bundle("verify", str(folder), *public)
    assert done.returncode == ExitCode.INTEGRITY
    assert "NOT intact" in done.stdout
    assert f"signed by: ecdsa-sha2-nistp256 key {record['fingerprint']}" in done.stdout
    done = bundle("verify", str(folder), "--key", record["private_key"])
    assert done.returncode == ExitCode.USAGE
    for output in (made, alone, done):
        assert "sesame" not in output.stdout + output.stderr


def test_a_key_that_others_can_read_is_noted(folder, tmp_path):
    pair = signing.write_pair(tmp_path / "k")
    pair.private.chmod(0o644)
    assert "chmod 600" in bundle("sign", str(folder), "--key", str(pair.private)).stderr


def test_a_signed_bundle_is_as_intact_as_before(signed):
    (signed / signature.SIDECAR).write_text("{}")
    assert audit(signed).intact
    assert bundle("audit", str(signed)).returncode == 0


def test_openssf_model_signing(signed, keys, tmp_path):
    """Signed by ours, checked by theirs, with no network."""
    pytest.importorskip("model_signing", reason="the extra model-signing is not installed")
    (tmp_path / "passphrase").write_text("open sesame")
    pair = signing.write_pair(tmp_path / "locked.key", "open sesame")
    words = ("--key", str(pair.private), "--passphrase-file", str(tmp_path / "passphrase"))
    done = bundle("sign", str(signed), *words, "--model-signing")
    assert done.returncode == 0, done.stderr
    sidecar = signed / signature.SIDECAR
    again = bundle("sign", str(signed), *words, "--model-signing")
    assert again.returncode == ExitCode.USAGE

    def theirs(public: Path) -> int:
        words = ("verify", "key", str(signed), "--signature", str(sidecar))
        command = [sys.executable, "-m", "model_signing", *words, "--public_key", str(public)]
        offline = ["unshare", "--net"] if os.geteuid() == 0 else []
        return subprocess.run([*offline, *command], env=environment(), check=False).returncode

    assert theirs(pair.public) == 0
    assert theirs(keys / "ours.pub.pem") != 0
    started(with_key(signed, keys / "ours.pub.pem"))
    sign(signed, keys / "ours.key")  # the two signatures do not know each other
    assert theirs(pair.public) == 0
    assert audit(signed).intact
    with (signed / f"{signed.name}.tar").open("ab") as archive:
        archive.write(b"x")
    assert theirs(pair.public) != 0


# --- older bundles ---


@pytest.fixture(scope="module")
def releases(tmp_path_factory):
    """An older and a newer bundle of one model, whose installs can be killed at any step."""
    older = killing.make(tmp_path_factory.mktemp("older"))
    manifest, _ = manifest_of(older[0])
    output = tmp_path_factory.mktemp("newer")
    newer = variant(older[0], output, name="tiny+newer", sequence=manifest.sequence + 1)
    media = {"older": older, "newer": (newer, manifest_of(newer)[1])}
    log = tmp_path_factory.mktemp("log")
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(contextlib.closing(killing.Host(medium, log / name)))
            for name, medium in media.items()
        }


def test_an_older_bundle(releases, prefix):
    older, newer = releases["older"], releases["newer"]
    assert older.install(prefix)[0] == 0, older.told()
    assert newer.install(prefix)[0] == 0, newer.told()
    assert newer.install(prefix)[0] == 0, newer.told()
    before = {path: path.stat().st_mtime_ns for path in prefix.rglob("*") if path.is_file()}
    assert older.install(prefix)[0] == ExitCode.USAGE
    assert "older than a bundle of tiny that was installed before" in older.told()
    assert "--allow-downgrade" in older.told()
    before.pop(prefix / "state/install.lock")
    assert before == {path: path.stat().st_mtime_ns for path in before}
    assert older.install(prefix, words=("--allow-downgrade",))[0] == 0, older.told()
    assert older.install(prefix)[0] == ExitCode.USAGE, "a downgrade must not lower the mark"
    assert newer.install(prefix)[0] == 0, newer.told()


def test_no_kill_makes_it_forget(releases, tmp_path):
    older, newer = releases["older"], releases["newer"]
    _, steps = newer.install(tmp_path / "whole")
    counted = 0
    for step in range(steps - 25, steps + 1):
        prefix = tmp_path / str(step)
        newer.install(prefix, step)
        complete = list(prefix.glob("state/receipts/tiny+newer-*.json"))
        record = prefix / "state/sequences.json"
        assert record.exists() or not complete
        if record.exists():
            counted += 1
            assert older.install(prefix)[0] == ExitCode.USAGE, older.told()
    assert counted > 2


def test_half_of_an_options_name_is_refused(small_bundle, tmp_path):
    """install.sh looks for a trusted key in the prefix, and knows whole names only."""
    done = install(small_bundle, "--pref", str(tmp_path / "h"), "--no-start")
    assert done.returncode == ExitCode.USAGE
    assert not (tmp_path / "h").exists()


def test_a_bundle_that_is_signed_as_it_is_made(bench, keys, tmp_path):
    missing = bench.follow(tmp_path, "--sign-key", str(tmp_path / "none.key"))
    assert missing.returncode == ExitCode.USAGE
    assert "none.key" in missing.stderr
    assert list(tmp_path.iterdir()) == []  # said before the long work
    done = bench.follow(tmp_path, "--sign-key", str(keys / "ours.key"), "--json")
    assert done.returncode == 0, done.stderr
    (folder,) = tmp_path.iterdir()
    verified = bundle("verify", str(folder), "--key", str(keys / "ours.pub.pem"), "--json")
    assert verified.returncode == 0, verified.stderr
    assert json.loads(done.stdout)["signed_by"] in verified.stdout
