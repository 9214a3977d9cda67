import dataclasses
import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from bundlectl import apikey, auditpaper, config
from bundlectl.arguments import parser
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundler import signing
from manifests import approval, approvalinstalled, approvalpage, placement, signature
from manifests.approval import Instance
from manifests.audit import audit_installation
from manifests.audit.report import EXTRA, INSTALLATION, LINK, Finding, Report
from manifests.bundle import digest_of, release_id
from manifests.errors import FilesystemError, UsageError
from manifests.placement import Receipt
from tests.support.locked import Locked

BUNDLE = Locked()
MANIFEST = BUNDLE.manifest()
DIGEST = digest_of(MANIFEST.dump())
RELEASE = release_id(MANIFEST.name, DIGEST)
REPORT = Report(INSTALLATION, "/somewhere", (DIGEST,), 7, 1000, ())
SPKI = (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


@pytest.fixture
def prefix(tmp_path):
    """The papers of an installation that serves, without what they list."""
    root = tmp_path / "prefix"
    layout = Layout(root)
    layout.create()
    folder = root / placement.RELEASES / RELEASE
    folder.mkdir(parents=True)
    (folder / "bundle.json").write_bytes(MANIFEST.dump())
    (folder / "bundle.lock").write_bytes(BUNDLE.contents()["bundle.lock"])
    receipt = placement.receipt_path(root, RELEASE)
    receipt.parent.mkdir(parents=True, exist_ok=True)
    told = Receipt(1, RELEASE, DIGEST, str(root), 0, "test", ("port",))
    receipt.write_bytes(told.dump())
    (root / placement.CURRENT).symlink_to(layout.link_to(RELEASE))
    layout.config_file.write_text(config.render_default(ServeConfig()))
    apikey.ensure(layout.api_key)
    return root


def record(prefix, report=REPORT, host=""):
    path = prefix.parent / "record.json"
    auditpaper.keep(path, prefix, report, host)
    return approvalpage.read(path.read_bytes(), "record")


def test_it_says_what_is_installed(prefix):
    found = record(prefix)
    (installed,) = found.releases
    assert installed.release.manifest_sha256 == DIGEST
    assert installed.release.members == MANIFEST.members
    assert installed.ignored == ("port",)
    assert found.audited == approval.Audited(True, 7, 1000)
    assert found.instances == (Instance("default", RELEASE, "tiny"),)
    assert found.trusted == ()
    assert record(prefix) == found


def test_the_page_is_in_both_languages(prefix):
    path = prefix.parent / "record.html"
    auditpaper.keep(path, prefix, REPORT, "")
    page = path.read_text("utf-8")
    assert "INTACT" in page and "完好" in page
    assert approvalpage.read(path.read_bytes(), "page") == record(prefix)


def test_no_secret_and_no_name_leaves_the_host(prefix):
    settings = Layout(prefix).config_file
    text = settings.read_text().replace('host = "127.0.0.1"', 'host = "10.20.30.40"')
    text = text.replace("allow_remote = false", "allow_remote = true")
    settings.write_text(f'{text}\nHF_TOKEN = "hf_secretsecret"\n')  # below [environment]
    found = record(prefix)
    assert found.instances == (Instance("default", RELEASE, "tiny", local=False),)
    written = (prefix.parent / "record.json").read_text()
    for secret in (
        Layout(prefix).api_key.read_text().strip(),
        *("hf_secretsecret", "10.20.30.40", str(prefix), os.uname().nodename),
    ):
        assert secret not in written
    assert record(prefix, host="rack 7").host == "rack 7"


def test_settings_that_can_t_be_read_are_told(prefix):
    Layout(prefix).config_file.write_text('host = "10.20.30.40.50"')
    (instance,) = record(prefix).instances
    assert "config check" in instance.problem
    assert "10.20" not in instance.problem


def test_an_installation_that_was_never_started(prefix):
    Layout(prefix).config_file.unlink()
    (prefix / placement.CURRENT).unlink()
    assert record(prefix).instances == (Instance("default", ""),)


def test_code_of_a_model_that_may_run_is_told(prefix):
    settings = Layout(prefix).config_file
    text = settings.read_text()
    settings.write_text(text.replace("trust_remote_code = false", "trust_remote_code = true"))
    assert record(prefix).instances[0].remote_code


def relink(layout, target):
    layout.current.unlink(missing_ok=True)
    layout.current.symlink_to(target)


def test_current_leads_to_a_release_of_this_installation(prefix, tmp_path):
    layout, elsewhere = Layout(prefix), tmp_path / "elsewhere" / RELEASE
    elsewhere.mkdir(parents=True)
    for target in (elsewhere, f"../elsewhere/{RELEASE}", f"releases/../{RELEASE}", "current"):
        relink(layout, target)
        (instance,) = record(prefix).instances
        assert "`current`" in instance.problem
        assert not instance.model
    layout.current.unlink()
    layout.current.mkdir()
    assert "`current`" in record(prefix).instances[0].problem
    assert str(tmp_path) not in approval.dump(record(prefix)).decode()


def test_a_named_instance_that_lies_elsewhere(prefix, tmp_path):
    layout = Layout(prefix, "second")
    layout.home.mkdir(parents=True)
    relink(layout, layout.link_to(RELEASE))
    assert record(prefix).instances[1] == Instance("second", RELEASE, "tiny")
    layout.home.rename(tmp_path / "moved")
    layout.home.symlink_to(tmp_path / "moved")  # whose ../../releases are others
    assert "`current`" in record(prefix).instances[1].problem


def test_a_prefix_that_is_reached_through_a_link(prefix, tmp_path):
    (tmp_path / "link").symlink_to(prefix)
    assert record(tmp_path / "link").instances == (Instance("default", RELEASE, "tiny"),)


def test_another_instance(prefix):
    Layout(prefix, "second").home.mkdir(parents=True)
    assert [one.name for one in record(prefix).instances] == ["default", "second"]


def test_a_real_audit_of_papers_without_files(prefix):
    report = audit_installation(prefix)
    found = record(prefix, report)
    assert not found.audited.clean
    assert found.audited.count == len(report.findings) > 0
    assert {one.problem for one in found.audited.problems} >= {"missing"}
    assert str(prefix) not in approval.dump(found).decode()


def test_papers_of_a_release_that_differ(prefix):
    (prefix / placement.RELEASES / RELEASE / "bundle.json").write_bytes(b"{}")
    found = record(prefix, audit_installation(prefix))
    assert found.releases == ()
    assert "PREFIX/releases" in found.audited.problems[0].found


def found_of(prefix, *findings):
    report = dataclasses.replace(REPORT, findings=findings)
    return approvalinstalled.installation(prefix, report).audited.problems


def test_findings_name_no_folder_of_the_host(prefix, tmp_path, monkeypatch):
    (tmp_path / "link").symlink_to(prefix)
    bad = prefix / placement.RELEASES / RELEASE / "bundle.json"
    bad.write_bytes(b"{}")
    lib = prefix / placement.RELEASES / RELEASE / "libx.so.1.2"
    links = (
        Finding(LINK, "releases/x.y", "libx.so.1", "/home/alice/x.so"),
        Finding(LINK, "releases/x.y", "../libx.so.1", str(lib)),
        Finding(LINK, "releases/x.y", "prefix/a", "../prefix/a"),
        Finding(LINK, "releases/x.y", "a", f"{prefix}-old/a"),
    )
    monkeypatch.chdir(tmp_path)
    for chdir, place in (
        (tmp_path, prefix),
        (tmp_path, tmp_path / "link"),
        (tmp_path, Path("prefix")),
        (tmp_path, Path("link")),
        (prefix, Path()),
        (prefix / "etc", Path("..")),
    ):
        monkeypatch.chdir(chdir)
        told = found_of(place, *audit_installation(place).findings, *links)
        start = f"{'PREFIX/' if place.name else ''}releases/{RELEASE}/bundle.json: sha256 "
        assert told[0].found.startswith(start)
        assert told[0].path == f"releases/{RELEASE}"
        assert [(one.path, one.expected, one.found) for one in told[-4:]] == [
            ("releases/x.y", "libx.so.1", "/…"),
            ("releases/x.y", "../libx.so.1", f"PREFIX/releases/{RELEASE}/libx.so.1.2"),
            ("releases/x.y", "prefix/a", "../prefix/a"),
            ("releases/x.y", "a", "/…"),
        ]


def test_a_lock_that_differs(prefix):
    (prefix / placement.RELEASES / RELEASE / "bundle.lock").write_bytes(b"{}")
    (installed,) = record(prefix).releases
    assert [layer.kind for layer in installed.release.layers] == ["host", "server", "model"]


def test_a_release_that_the_audit_did_not_read_is_not_told(prefix):
    report = dataclasses.replace(REPORT, manifest_sha256=(), findings=(Finding("altered", "x"),))
    assert record(prefix, report).releases == ()


def test_thousands_of_findings_are_counted(prefix):
    findings = tuple(Finding(EXTRA, f"releases/{n}\n", found="file") for n in range(5000))
    found = record(prefix, dataclasses.replace(REPORT, findings=findings))
    assert found.audited.count == 5000
    assert len(found.audited.problems) == 100
    assert found.audited.problems[0].path == "releases/0\\n"


# Trusted keys


def test_keys_are_named_as_ssh_keygen_names_them(prefix, tmp_path):
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.public_key().public_bytes(*SPKI)
    (prefix / "etc/trusted-key.pem").write_bytes(pem)
    (public,) = signing.load_public(prefix / "etc/trusted-key.pem")
    other = signing.Signer(ed25519.Ed25519PrivateKey.generate(), signature.SSH).public
    allowed = signature.allowed_line(other) + signature.allowed_line(public)
    (prefix / "etc/allowed_signers").write_text(allowed)
    assert record(prefix).trusted == (public.fingerprint, other.fingerprint)


@pytest.mark.parametrize("name", ["trusted-key.pem", "allowed_signers"])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        b"-----BEGIN PUBLIC KEY-----\nA\n-----END PUBLIC KEY-----\n",
        ec.generate_private_key(ec.SECP384R1()).public_key().public_bytes(*SPKI),
    ],
)
def test_what_is_no_key_is_told(prefix, name, content):
    (prefix / "etc" / name).write_bytes(content)
    assert record(prefix).trusted == (approvalinstalled.UNREADABLE,)


def test_a_pipe_in_the_place_of_a_key(prefix):
    os.mkfifo(prefix / "etc/trusted-key.pem")
    assert record(prefix).trusted == (approvalinstalled.UNREADABLE,)


# The option


def test_what_can_t_be_written_is_refused_before_the_audit(prefix, tmp_path):
    approvalinstalled.check(tmp_path / "a.html", prefix)
    approvalinstalled.check(tmp_path / "a.json", prefix)
    for name, error in (
        ("a.pdf", UsageError),
        ("prefix/a.html", UsageError),
        ("none/a.html", FilesystemError),
    ):
        with pytest.raises(error) as raised:
            approvalinstalled.check(tmp_path / name, prefix)
        assert raised.value.mend
    media, _ = BUNDLE.write(tmp_path / "media")
    with pytest.raises(UsageError, match="not an installation"):
        approvalinstalled.check(tmp_path / "a.html", media)


def test_the_option():
    given = parser().parse_args(["audit", "--report", "a.html", "--name", "rack 7"])
    assert (str(given.report), given.name) == ("a.html", "rack 7")
    assert parser().parse_args(["audit"]).report is None
