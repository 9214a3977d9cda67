"""What is made of the checks' verdicts; the checks themselves: test_bundlectl_checks.py."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.checks import CHECKS
from bundlectl.preflight import examine, refuse, report, rounded, table, warnings
from manifests.errors import FilesystemError, TargetError, UsageError
from tests.support.hosts import GOOD, NEEDS, disk, good


def failed(host, **named):
    return [one for one in examine(NEEDS, host, **named) if not one.passed]


def test_a_good_host_is_not_refused():
    findings = examine(NEEDS, GOOD)
    assert len(findings) == len(CHECKS)
    refuse(findings)


def test_worst_first_and_all_of_them_named():
    host = good(
        machine={"now": 0, "memory": 0, "swap_free": 1},
        account={"umask": 0},
        network={"loopback": False},
    )
    assert [(one.name, one.level) for one in failed(host)] == [
        ("memory", "stop"),
        ("loopback", "stop"),
        ("clock", "warn"),
        ("umask", "info"),
    ]
    with pytest.raises(TargetError) as caught:
        refuse(examine(NEEDS, host))
    assert [line.split(":")[0] for line in caught.value.findings] == ["memory", "loopback"]
    assert [one.name for one in warnings(examine(NEEDS, host))] == ["clock"]


def test_one_stop_is_the_error_itself():
    with pytest.raises(TargetError) as caught:
        refuse(examine(NEEDS, good(network={"loopback": False})))
    assert caught.value.what.startswith("this host does not fit: loopback: 127.0.0.1")
    assert caught.value.mend == "run: ip link set lo up"
    assert not caught.value.findings


def test_warnings_and_notes_refuse_nothing():
    refuse(examine(NEEDS, good(machine={"now": 0}, account={"umask": 0})))


def test_the_exit_code_follows_what_is_wrong():
    full = disk(free=0, inodes=0)
    with pytest.raises(FilesystemError):
        refuse(examine(NEEDS, full))
    with pytest.raises(FilesystemError, match="/dev/sdb1"):
        refuse(examine(NEEDS, disk(free=0)))
    with pytest.raises(TargetError):
        refuse(examine(NEEDS, good(full, network={"loopback": False})))


def test_ignored_checks_are_warnings():
    host = good(machine={"memory": 0, "swap_free": 1})
    (found,) = failed(host, ignore=frozenset({"memory"}))
    assert (found.name, found.level, found.ignored) == ("memory", "stop", True)
    assert "(ignored as asked)" in found.line()
    refuse([found])
    assert warnings([found]) == [found]
    assert "warnings:\n  memory: 0 bytes" in report([found])


def test_an_ignored_check_that_passes_is_not_called_ignored():
    assert not any(one.ignored for one in examine(NEEDS, GOOD, frozenset({"memory"})))


@pytest.mark.parametrize(
    ("name", "message", "mend"),
    [
        ("disk", "can't be ignored", "mend what it found"),
        ("inodes", "can't be ignored", "mend what it found"),
        ("memry", "no check 'memry'", "did you mean memory?"),
        ("xyzzy", "no check 'xyzzy'", "bundlectl preflight --list"),
    ],
)
def test_what_cannot_be_ignored(name, message, mend):
    with pytest.raises(UsageError, match=message) as caught:
        examine(NEEDS, GOOD, frozenset({name}))
    assert mend in caught.value.mend


def test_the_report_groups_and_counts():
    host = good(machine={"now": 0}, account={"umask": 0o077}, network={"loopback": False})
    text = report(examine(NEEDS, host))
    assert text.splitlines() == [
        "stops:",
        "  loopback: 127.0.0.1 can't be reached: the interface lo is down — run: ip link set lo up",
        "warnings:",
        "  clock: this host's clock says 1970-01-01 00:00 UTC, needed: not before the bundle was "
        "made, 1970-01-01 00:33 UTC — set the clock: certificates and logs go by it",
        "notes:",
        "  umask: 0077; files are made with modes of their own — nothing to do",
        f"{len(CHECKS) - 3} of {len(CHECKS)} checks passed",
    ]
    assert "  glibc: glibc 2.31, needed: glibc 2.28 or newer" in report(
        examine(NEEDS, host), every=True
    )


def test_findings_as_json_tell_all():
    (found,) = failed(good(network={"loopback": False}))
    assert vars(found) == {
        "name": "loopback",
        "level": "stop",
        "passed": False,
        "found": "127.0.0.1 can't be reached: the interface lo is down",
        "needed": "",
        "mend": "run: ip link set lo up",
        "ignored": False,
    }


def test_the_table_is_told_worst_first():
    lines = table().splitlines()
    assert len(lines) == len(CHECKS)
    levels = [line.split()[1] for line in lines]
    assert levels == sorted(levels, key=["stop", "warn", "info"].index)


def test_a_part_of_the_table():
    at_start = [check for check in CHECKS if check.at_start]
    names = {one.name for one in examine(replace(NEEDS, disk=1 << 60), GOOD, checks=at_start)}
    assert {"port", "loopback", "cuda", "writable"} <= names
    assert not names & {"disk", "memory", "model-fit"}


@given(st.lists(st.integers(0, 1 << 40)), st.sampled_from([512, 4096, 65536]))
def test_whole_blocks(sizes, block):
    total = rounded(sizes, block)
    assert total % block == 0
    assert sum(sizes) <= total < sum(sizes) + block * max(1, len(sizes))
