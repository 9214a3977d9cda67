import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundler import distributions
from manifests.errors import TargetError, UsageError


@pytest.fixture
def release(tmp_path):
    """Write an os-release file; gives its path."""

    def write(text):
        path = tmp_path / "os-release"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "name", "glibc"),
    [
        ('PRETTY_NAME="Debian 12"\nID=debian\nVERSION_ID="12"\n', "debian 12", "2.36"),
        ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\n', "ubuntu 22.04", "2.35"),
        ('ID="rhel"\nVERSION_ID="8.6"\n', "rhel 8.6", "2.28"),
        ('ID="rocky"\nVERSION_ID="9.4"\n', "rocky 9.4", "2.34"),
        ('ID="centos"\nVERSION_ID="10"\n', "centos 10", "2.39"),
        ('ID="sles"\nVERSION_ID="15.6"\n', "sles 15.6", "2.38"),
        ('ID="sles"\nVERSION_ID="15"\n', "sles 15", "2.26"),
        ('ID="sles"\nVERSION_ID="12.5"\n', "sles 12.5", "2.22"),
        ('ID="openEuler"\nVERSION_ID="22.03"\n', "openeuler 22.03", "2.34"),
        ('ID="kylin"\nVERSION="V10 (高级)"\nVERSION_ID="V10"\n', "kylin v10", "2.28"),
        ('ID="anolis"\nVERSION_ID="8.8"\n', "anolis 8.8", "2.28"),
        ("# a comment\r\nID='amzn'\r\nVERSION_ID='2023'\r\n", "amzn 2023", "2.34"),
    ],
)
def test_known_distributions(release, text, name, glibc):
    assert distributions.glibc_of(release(text)) == (name, glibc)


@pytest.mark.parametrize(
    ("text", "what", "why"),
    [
        ("ID=arch\n", "the distribution 'arch' is not known", ""),
        ('ID=ubunto\nVERSION_ID="22.04"\n', "'ubunto' is not known", "ubuntu"),
        ('ID=ubuntu\nVERSION_ID="99.04"\n', "the release 99.04 of ubuntu", "known are: 18.04"),
        ("ID=debian\n", "the release (none) of debian", "known are: 10, 11"),
        ("NAME=x\n", "has no line ID=", ""),
        (b"\xff\xfe\x00", "has no line ID=", ""),
        ("", "has no line ID=", ""),
    ],
)
def test_what_is_not_known(release, text, what, why):
    with pytest.raises(UsageError) as caught:
        distributions.glibc_of(release(text))
    assert what in caught.value.what
    assert why in caught.value.why
    assert caught.value.mend


def test_musl(release):
    with pytest.raises(TargetError, match=r"alpine 3\.20\.3 has musl"):
        distributions.glibc_of(release("ID=alpine\nVERSION_ID=3.20.3\n"))


def test_no_such_file(tmp_path):
    with pytest.raises(UsageError, match=r"--os-release .*No such file") as caught:
        distributions.glibc_of(tmp_path / "none")
    assert "/etc/os-release" in caught.value.mend
    with pytest.raises(UsageError, match="directory"):
        distributions.glibc_of(tmp_path)


def test_a_quote_that_nobody_closes(release):
    assert distributions.read(release('ID="debian\n'))["ID"] == "debian"


def test_the_table():
    for name, item in distributions.table().items():
        assert name == name.lower()
        assert bool(item.glibc) != item.musl
        for version, glibc in item.glibc.items():
            assert version == version.lower()
            assert re.fullmatch(r"2\.\d\d", glibc)


def test_glibc_does_not_go_back_within_a_distribution():
    for item in distributions.table().values():
        versions = [tuple(map(int, text.split("."))) for text in item.glibc.values()]
        assert versions == sorted(versions)


@given(st.text())
def test_any_text_gives_fields_or_a_usage_error(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("any") / "os-release"
    path.write_text("ID=debian\n" + text, "utf-8", "surrogatepass")
    try:
        distributions.glibc_of(path)
    except (UsageError, TargetError) as error:
        assert error.mend
