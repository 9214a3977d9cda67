"""`bundle lock --upgrade-package`, with real pip-tools and a loopback index."""

import dataclasses
import sys
from pathlib import Path

import pytest

from manifests.errors import SourceError, UsageError
from manifests.lock import Target, Wheel
from tests.support.index import Index, serving, wheel
from wheelhouse.lockwheels import lock_requirements
from wheelhouse.sources import Sources
from wheelhouse.store import Store
from wheelhouse.upgrade import AFRESH, Upgrade, check_packages

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
DATE = "2026-03-01T00:00:00Z"
EARLY, LATE = "2026-01-01T00:00:00.000000Z", "2026-06-01T00:00:00.000000Z"


@pytest.fixture
def index():
    with serving(Index()) as index:
        index.add(wheel("app", "1.0", requires=["lib>=1", "other"]))
        index.add(wheel("lib", "1.0"))
        index.add(wheel("other", "1.0"))
        yield index


@pytest.fixture
def lock(index, tmp_path):
    """The wheels for `app`, afresh or from an earlier answer in which packages change."""
    calls = []

    def run(older=(), *packages, date=DATE):
        calls.append(None)
        return lock_requirements(
            ["app"],
            date=date,
            python=Path(sys.executable),
            target=Target(("cpu",), "2.28", PYTHON),
            sources=Sources(index.simple, timeout=5),
            store=Store(tmp_path / "cache" / "objects"),
            scratch=tmp_path / f"scratch{len(calls)}",
            upgrade=Upgrade(older, packages) if older else AFRESH,
        )

    return run


def pins(wheels):
    return {wheel.name: wheel.version for wheel in wheels}


def test_only_the_named_package_changes(index, lock):
    old = lock()
    for name in ("lib", "other"):
        index.add(wheel(name, "1.1"), uploaded=EARLY)
    assert pins(lock(old, "lib")) == {"app": "1.0", "lib": "1.1", "other": "1.0"}
    assert pins(lock(old, "lib==1.0")) == pins(old)


def test_the_others_stay_to_the_file(index, lock):
    old = lock()
    index.add(wheel("other", "1.0", "1-py3-none-any"))  # a newer build, which pip would take
    index.add(wheel("lib", "1.1"))
    new = lock(old, "lib")
    assert [w for w in new if w.name != "lib"] == [w for w in old if w.name != "lib"]


def test_a_named_package_may_be_younger_than_the_stacks_date_and_stays(index, lock):
    old = lock()
    for name in ("lib", "other"):
        index.add(wheel(name, "2.0"), uploaded=LATE)
    newer = lock(old, "lib")
    assert pins(newer) == {"app": "1.0", "lib": "2.0", "other": "1.0"}
    (lib,) = (wheel for wheel in newer if wheel.name == "lib")
    assert lib.url == f"{index.url}/files/lib-2.0-py3-none-any.whl"
    assert lib.digest_from == "published"
    assert pins(lock(newer, "other")) == {"app": "1.0", "lib": "2.0", "other": "2.0"}
    assert pins(lock(newer, "other==1.0")) == pins(newer)


def test_what_the_new_version_requires_is_added(index, lock):
    old = lock()
    index.add(wheel("lib", "1.1", requires=["more"]))
    index.add(wheel("more", "1.0"))
    assert pins(lock(old, "lib")) == pins(old) | {"lib": "1.1", "more": "1.0"}


def test_a_version_that_does_not_go_with_the_rest_is_refused(index, lock):
    old = lock()
    index.add(wheel("lib", "0.5"))
    with pytest.raises(SourceError) as caught:
        lock(old, "lib==0.5")
    assert any("app 1.0 depends on lib>=1" in line for line in caught.value.findings)


def test_a_version_that_nobody_has_is_refused(lock):
    with pytest.raises(SourceError, match="no source has lib==9"):
        lock(lock(), "lib==9")


@pytest.mark.parametrize("package", ["lib", "Lib==1.0", "lib===1.0+cu128"])
def test_what_can_be_upgraded(package):
    check_packages([package], [Wheel("lib", "1", "f", "u", "0" * 64)])


@pytest.mark.parametrize(
    ("package", "told"),
    [
        ("lib>=2", "neither NAME nor NAME==VERSION"),
        ("lib; python_version<'3'", "neither NAME nor NAME==VERSION"),
        ("lib[extra]", "neither NAME nor NAME==VERSION"),
        ("lib @ https://host.example/lib.whl", "neither NAME nor NAME==VERSION"),
        ("", "neither NAME nor NAME==VERSION"),
        ("libb", "the lock has no libb"),
    ],
)
def test_what_can_t(package, told):
    with pytest.raises(UsageError) as caught:
        check_packages([package], [Wheel("lib", "1", "f", "u", "0" * 64)])
    assert told in caught.value.what
    if package == "libb":
        assert caught.value.mend == "did you mean lib?"


def test_an_upgrade_names_what_is_in_its_lock():
    there = Wheel("lib", "1", "f", "u", "0" * 64)
    upgrade = Upgrade((there, dataclasses.replace(there, name="other")), ("Lib==2", "absent"))
    assert upgrade.named() == {"lib": "Lib==2"}
