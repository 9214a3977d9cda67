import dataclasses
import importlib
import json
import re

import pytest
import segno

from bundler import inspecting, signing
from bundler.commands import compare_records, record
from bundler.commands.licences import command as licences_command
from bundler.commands.sbom import command as sbom_command
from bundler.commands.vulns import command as vulns_command
from bundler.papers import approval as approving
from bundler.papers import approvallooked, approvalpdf, approvalshares, licences, outside, qr
from bundler.papers.approvalcompare import compare
from bundler.papers.approvalpictures import draw
from bundler.papers.bill import CONDA, ENVIRONMENT, WHEEL, Bill, Component
from bundler.plan.licences import of_text
from manifests import approval, approvalpage, signature
from manifests.approval import Amount, Audited, Count, Installed, Instance, Problem
from manifests.approvalwords import markup
from manifests.audit.sampling import Sampled
from manifests.bundle import digest_of, release_id
from manifests.errors import IntegrityError, SourceError, UsageError
from manifests.records import to_data
from manifests.vulns_report import NO_BYTES, NOT_HERE, Finding, Report, Source
from tests.support.approvals import a_manifest, an_approval, an_installation
from tests.support.deltas import NEW, OLD, write
from tests.support.locked import Locked, a_lock
from tests.support.simulator import Simulator

APPROVAL, INSTALLATION = an_approval(), an_installation()


@pytest.fixture
def folder(tmp_path):
    return Locked().write(tmp_path / "media")[0]


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    place = tmp_path_factory.mktemp("keys")
    pair = signing.write_pair(place / "ours")
    other = signing.write_pair(place / "others")
    return pair, other


def made(folder, *words, **options):
    return approving.record(inspecting.find(folder, *words), **options)


def test_it_says_what_the_media_hold(folder):
    found = made(folder)
    bundle = Locked()
    medium = found.medium
    assert medium.list_sha256 == digest_of((folder / "SHA256SUMS").read_bytes())
    assert medium.manifest_sha256 == digest_of(bundle.manifest().dump())
    (archive,) = medium.files
    data = (folder / archive.name).read_bytes()
    assert (archive.sha256, archive.size) == (digest_of(data), len(data))
    assert medium.signer is None
    assert found.release.lock_sha256 == a_lock().digest()
    assert found.sources.wheels == (
        Count("files.example", 2),
        Count("derived", 1),
        Count("file", 1),
    )
    assert (found.sources.conda, found.sources.repaired, found.sources.unpublished) == (3, 1, 1)
    assert {member.path for member in found.release.members} == set(bundle.contents())
    assert found == made(folder)
    assert str(folder.parent) not in approval.dump(found).decode()


def test_volumes(tmp_path):
    weights = {"config.json": b"{}", "weights.safetensors": bytes(range(256)) * 1500}
    folder, _ = Locked(model=weights).write(tmp_path / "split", volume_size=100_000)
    found = made(folder)
    sizes = {file.name: file.size for file in found.medium.files}
    assert sizes == {path.name: path.stat().st_size for path in folder.glob("*.tar.*")}
    last = max(folder.glob("*.tar.*"))
    last.rename(tmp_path / last.name)
    assert made(folder).medium == found.medium  # sizes follow from the others
    first = min(folder.glob("*.tar.*"))
    first.unlink()
    with pytest.raises(SourceError):
        made(folder)


def test_a_delta_is_told_as_what_it_installs(tmp_path):
    base, whole = Locked(environment=OLD), Locked(environment=NEW)
    folder, digest = write(whole, base, tmp_path)
    found = made(folder)
    assert found.medium.manifest_sha256 == digest
    assert found.release.manifest_sha256 == digest_of(whole.manifest().dump()) != digest
    assert found.medium.delta_on == base.manifest().name
    told = approvalpage.render(found, "en", draw)
    assert "Manifest, installed" in told and "Delta on" in told


def test_a_lock_that_can_t_be_read(tmp_path):
    folder, _ = Simulator().write(tmp_path)
    with pytest.raises(SourceError, match="lock is out of reach"):
        made(folder)


def test_a_lock_alone_is_nothing_to_approve(tmp_path):
    path = tmp_path / "bundle.lock"
    path.write_bytes(a_lock().dump())
    with pytest.raises(UsageError, match="not a bundle on its media"):
        approving.record(inspecting.find_or_lock(path))


# Who signed


def test_a_signature_is_checked_with_a_key_and_not_without(folder, keys, tmp_path):
    pair, other = keys
    signer = signing.load_signer(pair.private, lambda: "")
    signing.sign(folder, signer)
    assert made(folder).medium.signer == approval.Signer("openssl")
    trusted = signing.load_public(pair.public)
    checked = made(folder, trusted=trusted).medium.signer
    assert checked == approval.Signer("openssl", trusted[0].fingerprint, checked=True)
    with pytest.raises(IntegrityError):
        made(folder, trusted=signing.load_public(other.public))
    (folder / signature.FILE_NAME).write_bytes(b"")
    with pytest.raises(IntegrityError, match="empty"):
        made(folder)


def test_ssh_names_its_key(folder, tmp_path):
    from cryptography.hazmat.primitives.asymmetric import ed25519

    signer = signing.Signer(ed25519.Ed25519PrivateKey.generate(), signature.SSH)
    signing.sign(folder, signer)
    assert made(folder).medium.signer == approval.Signer("ssh", signer.public.fingerprint)


def test_a_key_and_no_signature(folder, keys):
    with pytest.raises(IntegrityError, match="not signed"):
        made(folder, trusted=signing.load_public(keys[0].public))


# What was looked into


def component(name, licence, kind=WHEEL):
    ref = f"environment/{kind}/{name}@1"
    told = {"declared": licence, "licence": of_text(licence)}
    return Component(ref, kind, ENVIRONMENT, name, "1", "pkg:x", "0" * 64, **told)


def test_licences_in_two_lines():
    parts = (
        component("a", "MIT"),
        component("b", "GPL-3.0-only"),
        component("c", "", CONDA),
        component("nvidia-d", "NVIDIA Proprietary Software"),
    )
    bill = Bill("x", "0" * 64, 0, "x", APPROVAL.release.target, parts)
    found = approvallooked.licences_of(bill)
    assert sum(one.count for one in found.families) == 4
    assert Count("permissive", 1) in found.families
    assert {one.name for one in found.look} >= {licences.NVIDIA, licences.STRONG, licences.NOTHING}
    told = approvalpage.render(an_approval(licences=found), "both", draw)
    assert "NVIDIA 条款" in told


def report(lock, findings=()):
    source = Source("2026-11-28", 3, "all.zip", "0" * 64, 10, 5, 0)
    return Report("x", lock, "2026-12-01", "", source, 4, tuple(findings))


def test_vulnerabilities_come_from_a_report_of_this_bundle(tmp_path):
    finding = Finding("package", "aiohttp", "3.13.2", "GHSA-1", "high", summary="bad <b>")
    path = tmp_path / "vulns.json"
    path.write_text(json.dumps(report("a" * 64, [finding]).as_record()))
    found = approvallooked.vulnerabilities_of(path, "a" * 64)
    assert found.counts == (Count("high", 1),)
    assert found.worst == ("GHSA-1 aiohttp 3.13.2",)
    assert found.database == "2026-11-28"
    with pytest.raises(UsageError, match="another bundle"):
        approvallooked.vulnerabilities_of(path, "b" * 64)


@pytest.mark.parametrize("language", approval.LANGUAGES)
def test_what_a_report_has_not_seen_is_told(tmp_path, language):
    path, lock = tmp_path / "vulns.json", "a" * 64
    for why in (NO_BYTES, NOT_HERE):
        source = dataclasses.replace(report(lock).database, age=2500)
        blind = dataclasses.replace(report(lock), unscanned=why, database=source)
        path.write_text(json.dumps(blind.as_record()))
        found = approvallooked.vulnerabilities_of(path, lock)
        assert (found.unscanned, found.age) == (why, 2500)
        page = approvalpage.render(an_approval(vulnerabilities=found), language, draw)
        for key in ("unscanned", f"unscanned-{why}", "old", "none-known-packages"):
            assert markup(language, key) in page
        assert f"{markup(language, 'none-known')}; " not in page
        assert "2,500" in page
    path.write_text(json.dumps(report(lock).as_record()))
    found = approvallooked.vulnerabilities_of(path, lock)
    page = approvalpage.render(an_approval(vulnerabilities=found), language, draw)
    assert f"{markup(language, 'none-known')}; " in page
    assert markup(language, "unscanned") not in page and markup(language, "old") not in page


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"{}", b"\xff", b'{"a": 1, "a": 2}', b"[" * 100_000]
)
def test_what_is_no_report_of_vulnerabilities(tmp_path, content):
    path = tmp_path / "vulns.json"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="no report of"):
        approvallooked.vulnerabilities_of(path, "a" * 64)
    with pytest.raises(UsageError, match="no such file"):
        approvallooked.vulnerabilities_of(tmp_path / "none", "a" * 64)


# Pictures


def modules(drawn):
    """The dark modules of a QR code's SVG: horizontal strokes of an integer length."""
    (path,) = re.findall(r'stroke="#000" d="([^"]*)"', drawn)
    dark, x, y = set(), 0.0, 0.0
    for kind, numbers in re.findall(r"([Mmh])([^Mmh]*)", path):
        values = [float(number) for number in re.findall(r"-?[\d.]+", numbers)]
        if kind == "M":
            x, y = values
        elif kind == "m":
            x, y = x + values[0], y + values[1]
        else:
            dark |= {(int(x) + step, int(y)) for step in range(int(values[0]))}
            x += values[0]
    return dark


def test_the_code_is_the_digest_that_operators_compare():
    text = f"sha256:{APPROVAL.medium.list_sha256}"
    drawn = draw(APPROVAL, "en").code
    assert drawn == qr.svg(text)
    rows = segno.make_qr(text, error="m", boost_error=False).matrix
    assert modules(drawn) == {
        (x + 4, y + 4) for y, row in enumerate(rows) for x, bit in enumerate(row) if bit
    }
    assert "style=" not in drawn


def test_areas_are_all_that_is_installed():
    manifest = a_manifest()
    shares = approvalshares.shares(manifest)
    assert sum(share.size for share in shares) == APPROVAL.release.installed
    assert [one.name for one in shares if one.group == "packages"][:2] == ["torch", "nvidia/cudnn"]
    assert all(share.size for share in shares)
    drawn = draw(APPROVAL, "both").sizes
    assert sum(map(int, re.findall(r'data-bytes="(\d+)"', drawn))) == APPROVAL.release.installed


def test_nothing_is_drawn_of_an_installation():
    assert draw(INSTALLATION, "en") == approvalpage.no_pictures(INSTALLATION, "en")


@pytest.fixture
def weasyprint():
    try:
        return importlib.import_module("weasyprint")
    except (ImportError, OSError) as error:  # OSError: Debian's libpangoft2-1.0-0 is missing
        pytest.skip(f"no WeasyPrint: {error}")


def test_a_pdf_is_one_page(weasyprint):
    page = approvalpage.render(APPROVAL, "en", draw)
    made = approvalpdf.pdf(page)
    assert made.startswith(b"%PDF")
    assert made == approvalpdf.pdf(page)
    assert len(weasyprint.HTML(string=page).render().pages) == 1


@pytest.mark.usefixtures("weasyprint")
def test_a_pdf_has_no_letter_that_nobody_can_read():
    name = chr(0x10FF00)  # private: no font has it
    page = approvalpage.render(an_approval(licences=None), "en", draw).replace("Approval", name)
    with pytest.raises(UsageError, match="empty boxes"):
        approvalpdf.pdf(page)


@pytest.mark.parametrize("error", [ImportError("No module"), OSError("cannot load library")])
def test_a_pdf_without_its_library(monkeypatch, error):
    def missing(_name):
        raise error

    monkeypatch.setattr(approvalpdf.importlib, "import_module", missing)
    with pytest.raises(UsageError, match="needs WeasyPrint") as raised:
        approvalpdf.pdf("")
    assert "print that from a browser" in raised.value.mend


# Compared


def test_what_was_approved_is_installed():
    verdict = compare([APPROVAL], INSTALLATION)
    assert verdict.same
    assert verdict.as_record()["differences"] == []
    assert APPROVAL.release.manifest_sha256 in verdict.text()


def release(**changes):
    return dataclasses.replace(APPROVAL.release, **changes)


def told(found, *approvals):
    return [one.what for one in compare(approvals or [APPROVAL], found).differences]


TARGET = APPROVAL.release.target
PART, MEMBER = APPROVAL.release.parts[0], APPROVAL.release.members[1]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"manifest_sha256": "0" * 64}, ["manifest_sha256"]),
        ({"lock_sha256": "0" * 64}, ["lock_sha256"]),
        ({"target": dataclasses.replace(TARGET, driver="1")}, ["target.driver"]),
        ({"environment": Amount(1, 8_671_000_000)}, ["environment.files", "environment.size"]),
        (
            {"parts": (dataclasses.replace(PART, revision="x"),)},
            ["parts.model.Qwen3.5-14B.revision"],
        ),
        (
            {"members": (dataclasses.replace(MEMBER, sha256="0" * 64),)},
            ["members.env.tar.zst.sha256"],
        ),
        ({"server": ("vllm", "--seed")}, ["server"]),
    ],
)
def test_each_difference_is_named(changes, what):
    found = told(an_installation(releases=(Installed(release(**changes)),)))
    assert set(what) <= set(found)


def test_versions_of_layers_are_not_compared():
    assert told(an_installation(releases=(Installed(release(layers=())),))) == []


def test_another_release_beside_needs_its_own_approval():
    other = release(name="other", manifest_sha256="1" * 64)
    found = an_installation(releases=(Installed(APPROVAL.release), Installed(other)))
    (difference,) = compare([APPROVAL], found).differences
    assert str(difference) == f"other: manifest_sha256: approved nothing, installed {'1' * 64}"
    assert told(found, APPROVAL, an_approval(release=other)) == []


def test_what_is_not_installed_is_named():
    found = an_installation(releases=(), instances=())
    (difference,) = compare([APPROVAL], found).differences
    assert difference.installed == ""
    assert difference.approved == APPROVAL.release.manifest_sha256


def test_findings_are_differences():
    problem = Problem("altered", "releases/x/env/a", "1", "2")
    found = an_installation(audited=Audited(False, 1, 1, 1, (problem,)))
    assert told(found) == ["verdict", "altered releases/x/env/a"]
    assert "NOT as approved: 2 differences" in compare([APPROVAL], found).text()


def test_a_sample_is_no_audit():
    sample = Sampled("seed", 5, 100, 1, 1)
    assert told(an_installation(audited=Audited(True, 1, 1, sample=sample))) == ["audit"]


def test_the_default_model_is_the_first():
    other = dataclasses.replace(PART, name="other")
    both = an_approval(release=release(parts=(PART, other)))
    turned = release(parts=(other, PART))
    assert told(an_installation(releases=(Installed(turned),)), both) == ["parts"]


def test_every_release_of_a_digest_is_compared():
    evil = release(members=(dataclasses.replace(MEMBER, sha256="0" * 64),))
    both = an_installation(releases=(Installed(APPROVAL.release), Installed(evil)))
    assert "members.env.tar.zst.sha256" in told(both)


SERVED = INSTALLATION.instances[0]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"problem": "x"}, "instances.default"),
        ({"release": "", "model": "", "problem": "x"}, "instances.default"),
        ({"release": "other-0123456789ab"}, "instances.default.release"),
        ({"release": APPROVAL.release.name}, "instances.default.release"),
        ({"model": "Evil"}, "instances.default.model"),
    ],
)
def test_an_instance_serves_what_was_approved(changes, what):
    assert told(an_installation(instances=(dataclasses.replace(SERVED, **changes),))) == [what]
    assert told(an_installation(instances=(Instance("default", ""),))) == []


def test_an_instance_that_serves_what_nobody_approved():
    other = release(name="other", manifest_sha256="1" * 64)
    found = an_installation(
        releases=(Installed(APPROVAL.release), Installed(other)),
        instances=(SERVED, Instance("b", release_id("other", "1" * 64), "Qwen3.5-14B")),
    )
    assert told(found) == ["manifest_sha256", "instances.b.release"]
    assert told(found, APPROVAL, an_approval(release=other)) == []


# The commands


def run(command, *words):
    return command.main([str(word) for word in words], standalone_mode=False)


def test_records_are_compared_from_pages_and_data(tmp_path, capsys):
    page, data = tmp_path / "approval.html", tmp_path / "installation.json"
    page.write_text(approvalpage.render(APPROVAL, "both", draw), "utf-8")
    data.write_bytes(approval.dump(INSTALLATION))
    assert run(compare_records.command, page, data) == 0
    found = an_installation(releases=())
    other = tmp_path / "installation.html"
    other.write_text(approvalpage.render(found, "zh"), "utf-8")
    capsys.readouterr()
    assert run(compare_records.command, page, other, "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert answer["same"] is False
    assert answer["records"][str(page)] == approval.digest(APPROVAL)
    assert answer["differences"][0]["what"] == "manifest_sha256"
    for words, what in (
        ((data, data), "no approval"),
        ((page, page), "no installation record"),
        ((page, tmp_path / "none"), "no such file"),
    ):
        with pytest.raises(UsageError, match=what):
            run(compare_records.command, *words)
    page.write_text(page.read_text("utf-8").replace("535.104", "999.104", 1), "utf-8")
    with pytest.raises(IntegrityError, match="does not say what its data say"):
        run(compare_records.command, page, data)


def test_a_paper_is_not_written_into_the_bundle(folder, tmp_path, monkeypatch):
    before = sorted(folder.iterdir())
    (tmp_path / "link").symlink_to(folder)
    archive = next(folder.glob("*.tar"))
    monkeypatch.chdir(folder)
    for place in (folder, archive, tmp_path / "link", "."):
        for words in (
            (record.command, place, "--html", folder / "a.html"),
            (record.command, place, "--pdf", tmp_path / "link/a.pdf"),
            (sbom_command, place, "--output", "a.json"),
            (licences_command, place, "--output", folder / "none/../a"),
            (vulns_command, place, "--database", tmp_path / "none", "--output", folder / "a"),
        ):
            with pytest.raises(UsageError, match="would lie in the bundle"):
                run(*words)
    assert sorted(folder.iterdir()) == before
    outside.check(tmp_path / "a", folder)
    outside.check(tmp_path / "a", tmp_path / "bundle.lock")
    outside.check(tmp_path / "a", tmp_path / "none")
    outside.check(None, folder)


def test_a_record_is_written(folder, tmp_path, capsys, monkeypatch):
    bill = Bill("x", "0" * 64, 0, "x", TARGET, (component("a", "MIT"),))
    monkeypatch.setattr(record.gathering, "carried", lambda subject: bill)
    path = tmp_path / "approval.html"
    run(record.command, folder, "--html", path, "--language", "zh", "--json")
    printed = approval.parse(json.loads(capsys.readouterr().out), "printed")
    assert approvalpage.read(path.read_bytes(), str(path), draw) == printed
    assert printed.licences == approval.Licences((Count("permissive", 1),))
    vulns = tmp_path / "vulns.json"
    vulns.write_text(json.dumps(report(a_lock().digest()).as_record()))
    run(record.command, folder, "--vulns", vulns, "--json")
    with_report = json.loads(capsys.readouterr().out)
    assert with_report["vulnerabilities"] == {"counts": [], "database": "2026-11-28"}
    assert to_data(printed) == {k: v for k, v in with_report.items() if k != "vulnerabilities"}
    run(record.command, folder)
    assert "sha256 of SHA256SUMS" in capsys.readouterr().out
