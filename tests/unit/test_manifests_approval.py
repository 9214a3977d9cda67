import dataclasses
import json
import re
from html.parser import HTMLParser
from importlib import resources

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bundler.papers.approvalpictures import draw
from manifests import approval, approvalpage, approvalwords
from manifests.approval import Amount, Audited, Installed, Layer, Problem
from manifests.approvallayers import svg
from manifests.approvalmarks import grouped
from manifests.approvalrelease import of_manifest
from manifests.audit.sampling import Sampled
from manifests.errors import IntegrityError, UsageError
from tests.support.approvals import a_manifest, an_approval, an_installation, lock_of

APPROVAL, INSTALLATION = an_approval(), an_installation()
RECORDS = {"approval": APPROVAL, "installation": INSTALLATION}
SAMPLE = Sampled("a seed", 200, 41_872, 1 << 30, 36 << 30)
EVIL = "</script><script>alert(1)</script><!--<b>&amp;\u2028"


def page(record, language="en"):
    return approvalpage.render(record, language, draw)


def read(text, where="record"):
    return approvalpage.read(text.encode(), where, draw)


def texts(html):
    """What a person reads: text outside of style and data."""
    found = []

    class Reader(HTMLParser):
        hidden = False

        def handle_starttag(self, tag, attributes):
            self.hidden = tag in ("style", "script")

        def handle_endtag(self, tag):
            self.hidden = False

        def handle_data(self, data):
            found.append("" if self.hidden else data)

    Reader().feed(html)
    return "".join(found)


@pytest.mark.parametrize("kind", RECORDS)
@pytest.mark.parametrize("language", approval.LANGUAGES)
def test_a_page_is_read_back(kind, language):
    record = RECORDS[kind]
    assert read(page(record, language)) == record
    assert page(record, language) == page(record, language)


@pytest.mark.parametrize("kind", RECORDS)
def test_data_alone_are_read_back(kind):
    record = RECORDS[kind]
    assert read(approval.dump(record).decode()) == record
    pretty = json.dumps(json.loads(approval.dump(record)), indent=2, ensure_ascii=False)
    assert read(pretty) == record


def test_it_says_what_people_ask():
    told = " ".join(texts(page(APPROVAL)).split())
    release, medium = APPROVAL.release, APPROVAL.medium
    for digest in (medium.list_sha256, release.manifest_sha256, release.lock_sha256):
        assert grouped(digest) in told
    for file in medium.files:
        assert grouped(file.sha256) in told
    for word in (
        *("Qwen3.5-14B", "851bf6e806ef6e3c8fa8b1a1a43be6dcf23d6e3f", "vllm 0.19.1"),
        *(
            "168 \N{MULTIPLICATION SIGN} files.pythonhosted.org",
            "41 \N{MULTIPLICATION SIGN} https://conda.example.org/conda-forge",
        ),
        *("Hugging Face Hub: Qwen/Qwen3.5-14B", "sm_86 / sm_90", "≥ 525.60.13", "535.104.05"),
        *("32.53 GB", "36.35 GB", "signature checked, good", "16 proprietary", "1 high"),
        *("database of 2026-11-28", "Security", "Legal", "Operations", "Name", "Date"),
    ):
        assert word in told


def test_nothing_that_was_not_looked_at_is_told_as_good():
    medium = dataclasses.replace(APPROVAL.medium, signer=None)
    bare = an_approval(medium=medium, licences=None, vulnerabilities=None)
    told = texts(page(bare))
    assert "not signed" in told
    assert told.count("not looked at") == 2
    for form, told in (("ssh", "key SHA256:x, not checked"), ("openssl", "openssl, not checked")):
        fingerprint = "SHA256:x" if form == "ssh" else ""
        signer = approval.Signer(form, fingerprint)
        unchecked = an_approval(medium=dataclasses.replace(APPROVAL.medium, signer=signer))
        assert told in texts(page(unchecked))


def test_what_is_not_shown_is_signed_too():
    member = dataclasses.replace(APPROVAL.release.members[-1], sha256="0" * 64)
    release = dataclasses.replace(APPROVAL.release, members=(member,))
    record = dataclasses.replace(APPROVAL, release=release)
    assert grouped(approval.digest(APPROVAL)) in texts(page(APPROVAL))
    assert approval.digest(record) != approval.digest(APPROVAL)


def test_digests_in_groups_of_four():
    assert grouped("0123456789abcdef") == "0123 4567 89ab cdef"
    assert grouped("f" * 64).count(" ") == 15


def test_every_word_is_there_in_both_languages():
    for key, both in approvalwords.words().items():
        assert len(both) == 2 and all(both), key
    assert set(approvalwords.TAGS) == set(approval.LANGUAGES) - {approval.BOTH}


def test_a_page_in_chinese_has_no_english_words_of_ours():
    for record in RECORDS.values():
        told = texts(page(record, "zh"))
        assert "许可证" in told or "审计" in told
        for key in ("signatures", "target", "digests", "layers", "commit"):
            english, chinese = approvalwords.words()[key]
            assert english not in told
            assert chinese in told


def test_both_languages_say_each_digest_once():
    assert texts(page(APPROVAL, "both")).count(grouped(APPROVAL.release.lock_sha256)) == 1
    assert '<span lang="zh-Hans">模型</span>' in page(APPROVAL, "both")


@given(st.data())
@settings(max_examples=12, deadline=None)
def test_whatever_names_are_they_are_text_and_come_back(data):
    name = data.draw(
        st.text(st.characters(exclude_categories=("Cs",)), max_size=30) | st.just(EVIL)
    )
    release = dataclasses.replace(
        APPROVAL.release, stack=name, risks=(name,), layers=(Layer("model", name, name),)
    )
    for record in (
        dataclasses.replace(APPROVAL, release=release),
        an_installation(releases=(Installed(release, (name,)),), host=name),
    ):
        for language in ("en", "both"):
            made = page(record, language)
            assert made.count("<script") == made.count("</script>") == 1
            assert read(made) == record


PAGE = page(APPROVAL, "both")


@given(st.integers(0, len(PAGE) - 1), st.characters(exclude_categories=("Cs",)))
@settings(max_examples=30, deadline=None)
def test_no_letter_of_a_page_can_be_changed(place, letter):
    changed = PAGE[:place] + letter + PAGE[place + 1 :]
    if changed == PAGE:
        return
    with pytest.raises((IntegrityError, UsageError)):
        read(changed)


def test_text_and_data_that_differ_are_noticed():
    digest = APPROVAL.medium.list_sha256
    other = digest[:-1] + ("0" if digest[-1] != "0" else "1")
    in_text = PAGE.replace(grouped(digest), grouped(other))
    in_data = PAGE.replace(f'"list_sha256":"{digest}"', f'"list_sha256":"{other}"')
    for changed in (in_text, in_data, PAGE.replace('data-language="both"', 'data-language="en"')):
        assert changed != PAGE
        with pytest.raises(IntegrityError, match="does not say what its data say"):
            read(changed)
    with pytest.raises(IntegrityError, match=r"\(line \d+\)"):
        read(in_text)


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("", UsageError, "no record"),
        ("<html></html>", UsageError, "0 blocks of data"),
        (PAGE + PAGE, UsageError, "2 blocks of data"),
        (PAGE[: len(PAGE) // 2], UsageError, "no record"),
        (PAGE.replace('data-language="both"', 'data-language="fr"'), UsageError, "no record"),
        ("{", IntegrityError, "data are damaged"),
        ('{"kind": "approval", "kind": "approval"}', IntegrityError, "duplicate key"),
        ('{"a":' * 100_000, IntegrityError, "data are damaged"),
        ("{}", UsageError, "neither an approval nor"),
        ('{"kind": "bundle"}', UsageError, "neither an approval nor"),
        ('{"kind": "approval", "form": 99}', UsageError, "form 99"),
        ('{"kind": "approval", "form": 1}', IntegrityError, "missing"),
    ],
)
def test_what_is_no_record_is_refused(text, error, told):
    with pytest.raises(error) as raised:
        read(text)
    assert told in raised.value.render()
    assert "record" in raised.value.what
    assert raised.value.mend or isinstance(raised.value, IntegrityError)


def test_bytes_that_are_no_text_are_refused():
    with pytest.raises(IntegrityError, match="not UTF-8"):
        approvalpage.read(b"\xff\xfe{", "record")


def altered(**changes):
    return approval.dump(dataclasses.replace(APPROVAL, **changes)).decode()


def test_a_digest_is_64_digits():
    medium = dataclasses.replace(APPROVAL.medium, list_sha256="0" * 63)
    release = dataclasses.replace(APPROVAL.release, manifest_sha256="A" * 64)
    for changes in ({"medium": medium}, {"release": release}):
        with pytest.raises(IntegrityError, match="not a sha256"):
            read(altered(**changes))


@pytest.mark.parametrize("audited", [Audited(True, 1, 1, 2), Audited(False, 1, 1, 0)])
def test_an_audit_is_clean_or_has_findings(audited):
    with pytest.raises(IntegrityError, match="clean and with findings"):
        read(approval.dump(an_installation(audited=audited)).decode())


RELEASE = APPROVAL.release


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"parts": (dataclasses.replace(RELEASE.parts[0], revision="x"), *RELEASE.parts)}, "part"),
        ({"members": (*RELEASE.members, RELEASE.members[0])}, "member"),
        ({"created": 10**20}, "no number"),
        ({"created": 10**13}, "no date"),
        ({"sequence": -1}, "no number"),
        ({"environment": Amount(1, -1)}, "no number"),
        ({"environment": Amount(1, 10**400)}, "no number"),
    ],
)
def test_what_no_writer_writes_of_a_release(changes, why):
    release = dataclasses.replace(RELEASE, **changes)
    for record in (
        dataclasses.replace(APPROVAL, release=release),
        an_installation(releases=(Installed(release),)),
    ):
        with pytest.raises(IntegrityError, match=why):
            read(approval.dump(record).decode())


def test_no_area_of_the_picture_is_empty():
    share = APPROVAL.shares[0]
    for shares in ((dataclasses.replace(share, size=0), share), (share,) * 1001):
        with pytest.raises(IntegrityError, match="areas"):
            read(altered(shares=shares))


def test_two_releases_of_one_digest_are_refused():
    other = dataclasses.replace(RELEASE, name="evil", members=RELEASE.members[:1])
    both = an_installation(releases=(Installed(RELEASE), Installed(other)))
    with pytest.raises(IntegrityError, match="same release"):
        read(approval.dump(both).decode())


@pytest.mark.parametrize(
    "sample",
    [
        Sampled("s", 5, 3, 1, 1),
        Sampled("s", 3, 5, 2, 1),
        Sampled("s", -1, 3, 1, 1),
        Sampled("s", 5, 3 * 10**9, 1, 1),
    ],
)
def test_a_sample_is_of_what_there_is(sample):
    record = an_installation(audited=Audited(True, 1, 1, sample=sample))
    with pytest.raises(IntegrityError, match=r"a sample of|no number"):
        read(approval.dump(record).decode())


def test_a_text_that_can_t_be_written_is_refused():
    text = approval.dump(INSTALLATION).decode().replace('"tool":"', '"tool":"\\ud800')
    with pytest.raises(IntegrityError, match="is no text"):
        read(text)


def test_the_last_date_and_the_largest_numbers_are_read():
    most = (1 << 63) - 1
    release = dataclasses.replace(
        RELEASE, created=253_402_300_799, sequence=most, environment=Amount(most, most)
    )
    shares = tuple(
        dataclasses.replace(one, size=max(1, n * most)) for n, one in enumerate(APPROVAL.shares[:2])
    )
    record = dataclasses.replace(APPROVAL, release=release, shares=shares)
    assert "9999-12-31 23:59" in page(record)
    assert read(page(record)) == record


def test_what_an_audit_found_is_told():
    problems = tuple(Problem("altered", f"releases/x/{n}", "a" * 64, "") for n in range(30))
    record = an_installation(audited=Audited(False, 9, 9, 31, problems), host="rack 7")
    told = texts(page(record))
    assert "NOT INTACT findings: 31" in told
    assert f"altered: releases/x/11 ({'a' * 64} → —)" in told
    assert "releases/x/12 " not in told
    assert "+ 19 more" in told
    assert "rack 7" in told


def test_a_sample_is_not_told_as_a_whole():
    record = an_installation(audited=Audited(True, 41_872, 36 << 30, sample=SAMPLE, resumed=3))
    assert read(page(record)) == record
    told = texts(page(record))
    assert "SAMPLE INTACT" in told
    assert "every byte" not in told
    assert "files: 200 / 41,872" in told
    assert f"1: {SAMPLE.proofs()[0][1]}" in told
    assert "Not read again" in told


def test_a_page_asks_nobody_for_anything():
    for record in RECORDS.values():
        made = page(record, "both")
        assert "default-src 'none'" in made
        assert not re.search(r"""(?:src|href)\s*=|url\(|@import|\son\w+=|style=""", made)
    assert "<style>" in page(APPROVAL)


def test_nothing_of_a_volume_is_left_out_without_saying_so():
    file = APPROVAL.medium.files[0]
    files = tuple(dataclasses.replace(file, name=f"v{number}") for number in range(60))
    many = an_approval(medium=dataclasses.replace(APPROVAL.medium, files=files))
    assert "+ 20 more" in texts(page(many))
    assert read(page(many)) == many


def test_the_layers_stand_on_each_other():
    drawn = svg(APPROVAL.release.layers, "en")
    names = re.findall(r'class="name"[^>]*>([^<]*)', drawn)
    assert names == ["Qwen3.5-14B", "vllm", "torch", "CUDA", "NVIDIA", "Linux x86_64"]
    versions = re.findall(r'class="version"[^>]*>([^<]*)', drawn)
    assert versions == [
        "851bf6e806ef",
        "0.19.1",
        "2.10.0",
        "12.8.90",
        "≥ 525.60.13",
        "glibc ≥ 2.31",
    ]
    assert drawn.count('class="outside"') == 2


def test_without_a_lock_fewer_versions_are_known():
    manifest = a_manifest()
    known, unknown = (of_manifest(manifest, "0" * 64, lock) for lock in (lock_of(manifest), None))
    assert dataclasses.replace(unknown, layers=known.layers) == known
    assert [layer.kind for layer in unknown.layers] == ["host", "driver", "cuda", "server", "model"]
    assert unknown.layers[3] == Layer("server", "vllm", "")


def test_a_host_without_gpus():
    target = dataclasses.replace(APPROVAL.release.target, gpus=("cpu",), driver="", gpu_memory=0)
    manifest = a_manifest(target=target)
    release = of_manifest(manifest, "0" * 64, lock_of(manifest))
    assert [layer.kind for layer in release.layers] == ["host", "torch", "server", "model"]
    told = texts(page(an_approval(manifest)))
    assert "serves on the processor" in told
    assert "Driver" not in told


def test_long_names_stay_in_their_slab():
    drawn = svg((Layer("model", "m" * 90, "0123456789ab"),), "both")
    (name,) = re.findall(r'class="name"[^>]*>([^<]*)', drawn)
    assert name.endswith("…") and len(name) < 30


def test_the_style_needs_no_network():
    style = (resources.files("manifests") / "approval.css").read_text("utf-8")
    assert "size: A4" in style
    assert "http" not in style
