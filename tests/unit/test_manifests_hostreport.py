import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import hostreport, linecheck
from manifests.errors import UsageError
from manifests.hostreport import MIB, Disk, HostGpu, HostReport

REPORT = HostReport(
    arch="x86_64",
    libc="glibc",
    libc_version="2.35",
    os="ubuntu 22.04",
    kernel="5.15.0-105-generic",
    driver="535.104.05",
    gpus=(HostGpu("NVIDIA A10", "8.6", 23028 * MIB, 2), HostGpu("Tesla T4")),
    processors=64,
    cpu_flags=("avx2", "avx512f"),
    memory=257698 * MIB,
    disks=(Disk("/opt", 812345 * MIB), Disk("/var/lib", 3 * MIB)),
    notes=("a container's limit",),
)
TEXT = hostreport.dump(REPORT)
WORDS = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=","), min_size=1
)
NAMES = st.lists(WORDS, min_size=1, max_size=4).map(lambda words: " ".join(words)[:40].strip())
MIBS = st.integers(0, 10**7).map(lambda count: count * MIB)
REPORTS = st.builds(
    HostReport,
    arch=st.sampled_from(["x86_64", "aarch64"]),
    libc=st.sampled_from(["glibc", "musl"]),
    libc_version=st.sampled_from(["2.28", "2.39", "1.2.4"]),
    os=NAMES.filter(lambda name: name.lower() not in ("none", "unknown")),
    kernel=st.sampled_from(["", "6.1.0-18-amd64"]),
    driver=st.sampled_from(["", "535.104.05", "580.95"]),
    gpus=st.lists(
        st.builds(
            HostGpu,
            NAMES,
            st.sampled_from(["", "8.6", "12.0"]),
            MIBS,
            st.integers(1, 16),
        ),
        max_size=4,
    ).map(tuple),
    processors=st.integers(0, 512),
    cpu_flags=st.sampled_from([(), ("avx2",), ("avx2", "avx512f")]),
    memory=MIBS,
    disks=st.lists(
        st.builds(Disk, st.sampled_from(["/", "/opt", "/my disk"]), MIBS), max_size=3
    ).map(tuple),
    notes=st.lists(NAMES, max_size=2).map(tuple),
)


def load(text):
    return hostreport.load(text.encode() if isinstance(text, str) else text, "there.txt")


def refused(text, *words):
    with pytest.raises(UsageError) as caught:
        load(text)
    said = caught.value.render()
    for word in ("there.txt", *words):
        assert word in said, said
    assert caught.value.mend
    return caught.value


@given(REPORTS)
def test_what_is_written_is_read(report):
    assert load(hostreport.dump(report)) == replace(report, checked=True)


@given(REPORTS)
def test_both_forms_say_the_same(report):
    assert load(as_json(hostreport.dump(report))) == replace(report, checked=True)


def as_json(text):
    data = {}
    for line in text.splitlines():
        key, _, value = line.partition(": ")
        if key in ("gpu", "disk", "note"):
            data.setdefault(key, []).append(value)
        else:
            data[key] = value
    return json.dumps(data)


def test_the_example_in_the_description():
    lines = [line.strip() for line in str(hostreport.__doc__).splitlines()]
    start, end = (
        lines.index("vllm-bundle-report: 1"),
        lines.index(
            "`gpu`, `disk` and `note` may "
            "come several times; `none` and `unknown` are answers too; `check` is"
        ),
    )
    assert load("\n".join(lines[start:end])).checked


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("\n", "\r\n"),
        lambda text: text.replace("\n", "\r"),
        lambda text: "\ufeff" + text,
        lambda text: text.replace(" ", "   ").replace(": ", ":\t"),
        lambda text: text.replace("\n", "\n\n"),
        str.upper,
        lambda text: text.replace(":", "\uff1a").replace(",", "\uff0c").replace(" ", "\u3000"),
        lambda text: text.translate({ord(str(n)): 0xFF10 + n for n in range(10)}),
        lambda text: text.rstrip("\n"),
    ],
    ids=["crlf", "cr", "bom", "blanks", "empty-lines", "capitals", "wide", "wide-digits", "end"],
)
def test_what_editors_mail_and_typing_do_to_it(change):
    found = load(change(TEXT))
    assert found.checked
    assert found.gpus[0].memory == 23028 * MIB
    assert (found.libc_version, found.driver, found.processors) == ("2.35", "535.104.05", 64)


def test_a_misread_digit_is_named_by_line():
    error = refused(TEXT.replace("257698", "251698"), "not as the host printed it", "line 10")
    assert len(error.findings) == 1
    assert "memory: 251698 MiB" in error.findings[0]
    assert "group 10 would be" in error.findings[0]
    assert "remove the check line" in error.mend


def test_a_line_left_out():
    lines = TEXT.splitlines()
    refused("\n".join(lines[:3] + lines[4:]), "digits for 13 lines, above it are 12")


def test_a_line_below_the_check_line():
    refused(TEXT + "disk: /data, 5 MiB\n", "line 15", "stands below the check line")


def test_a_changed_report_without_its_check_line():
    text = "\n".join(line for line in TEXT.splitlines() if not line.startswith("check"))
    assert load(text.replace("535.104.05", "550.54")) == replace(REPORT, driver="550.54")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("arch: x86_64", "arhc: x86_64", ("line 2", "did you mean 'arch'?", "no line 'arch'")),
        ("arch: x86_64", "", ("there is no line 'arch'",)),
        ("os: ubuntu 22.04", "colour: blue", ("line 3", "nothing that a report says")),
        ("os: ubuntu 22.04", "hello", ("line 3", "nothing that a report says")),
        ("os: ubuntu 22.04", "arch: x86_64", ("line 3", "stands there twice")),
        ("glibc 2.35", "glibc 2,35", ("line 5", "should look like `libc: glibc 2.35`")),
        ("535.104.05", "535-104-05", ("line 6", "should look like `driver: 535.104.05`")),
        ("8.6, 23028 MiB", "8.6", ("line 7", "should look like `gpu: 2 x NVIDIA A10, 8.6,")),
        ("2 x NVIDIA", "O x NVIDIA", ("line 7", "should look like")),
        ("257698 MiB", "257698 GiB", ("line 10", "should look like `memory: ")),
        ("257698 MiB", "257\u0663 MiB", ("line 10", "should look like")),
        ("/opt, ", "opt, ", ("line 11", "should look like `disk: /opt")),
    ],
)
def test_a_line_that_can_t_be_understood(old, new, words):
    unchecked = TEXT.partition("check")[0]
    assert unchecked.count(old) >= 1
    refused(unchecked.replace(old, new, 1), "lines that can't be understood", *words)


def test_every_mistake_is_named_at_once():
    text = TEXT.partition("check")[0].replace("libc", "lib").replace("22.04", "\u2603")
    assert len(refused(text).findings) == 3


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"\xff\xfe",
        b"\x7fELF\x02\x01\x01\x00",
        b"root:x:0:0:root:/root:/bin/bash\n",
        b"{}",
        b'{"gpu": "cpu"}',
        TEXT.encode() + b"\n" * hostreport.LIMIT,
    ],
)
def test_another_kind_of_file(data):
    refused(data, "not a report of a host", "report-script")


def test_a_newer_report():
    refused(TEXT.replace("report: 1", "report: 2"), "a report of version '2', this release reads 1")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"vllm-bundle-report": 1, ', ("not JSON",)),
        ('{"vllm-bundle-report": 1, "gpu": {"a": 1}}', ("gpu is {'a': 1}", "a text")),
        ('{"vllm-bundle-report": 1, "gpu": [null]}', ("gpu is None", "a text")),
        ('{"vllm-bundle-report": 1, "arch": "x86_64"}', ("no line 'libc'", "no line 'gpu'")),
        ('{"vllm-bundle-report": 1, "disk": "x"}', ("'disk: x'", "should look like")),
        ("{" + '"a":[' * 100_000, ("not",)),
    ],
)
def test_mistakes_in_the_json_form(text, words):
    refused(text, *words)


def test_the_json_form_needs_no_order_and_no_check():
    data = {"gpu": "none", "libc": "musl", "arch": "x86_64", "vllm-bundle-report": 1}
    assert load(json.dumps(data)) == HostReport(arch="x86_64", libc="musl")


def test_gpus_that_nobody_could_name():
    found = load("vllm-bundle-report: 1\narch: x86_64\nlibc: unknown\ngpu: unknown\n")
    assert (found.gpus, found.gpus_unknown, found.libc) == ((), True, "unknown")
    assert not load("vllm-bundle-report: 1\narch: x86_64\nlibc: musl\ngpu: none\n").gpus_unknown


@given(st.binary(max_size=300))
def test_any_bytes_give_a_report_or_a_usage_error(data):
    prefix = b"vllm-bundle-report: 1\narch: x86_64\nlibc: musl\ngpu: none\n"
    for text in (data, prefix + data, b'{"vllm-bundle-report": 1, "x": ' + data):
        try:
            load(text)
        except UsageError as error:
            assert error.mend


def test_its_own_digits():
    lines = TEXT.splitlines()
    assert lines[-1] == linecheck.seal(lines[:-1])
    assert all(len(line) <= 72 for line in lines)
