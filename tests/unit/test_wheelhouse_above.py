"""Resolving on top of what a host has: real pip, a loopback index."""

import sys
from pathlib import Path

import pytest

from manifests.errors import SourceError
from manifests.inventory import Distribution, Interpreter, Inventory, Platform
from manifests.lock import Target
from tests.support.index import Index, serving, wheel
from wheelhouse.above import closure
from wheelhouse.resolve import Resolver
from wheelhouse.sources import Sources
from wheelhouse.stubs import below

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def index():
    with serving(Index()) as index:
        index.add(wheel("server", "1.0", requires=["engine>=1", "helper<2", "extra[fast]"]))
        index.add(wheel("engine", "2.0", requires=["newdep"]))
        index.add(wheel("helper", "1.9"))
        index.add(wheel("extra", "1.0"))
        index.add(wheel("newdep", "1.0"))
        yield index


@pytest.fixture
def resolve(index, tmp_path):
    def resolve(*distributions, roots=("server==1.0",)):
        resolver = Resolver(
            Sources(index.simple, timeout=5),
            Path(sys.executable),
            Target(("cpu",), "2.28", PYTHON),
            "",
            tmp_path / "scratch",
        )
        wheels = resolver.resolve(roots, below=offered(*distributions))
        return {w.name: w.version for w in wheels}, resolver.provided

    return resolve


def offered(*distributions):
    found = Inventory(1, Interpreter("", "", "", "", ""), Platform(""), {}, distributions)
    return below(found)


def fetched(index, name):
    return [path for path, _ in index.requests if path.startswith(f"/files/{name}-")]


def test_what_fits_stays_on_the_host_and_all_else_is_carried(index, resolve):
    carried, provided = resolve(
        Distribution("engine", "1.5+vendor", requires=("deep>=1",)),
        Distribution("deep", "1.0"),
        Distribution("helper", "2.0", requires=("gone",)),
        Distribution("extra", "1.0", requires=("speed; extra == 'fast'",), extras=("fast",)),
        Distribution("speed", "3.0"),
        Distribution("unasked", "1.0"),
    )
    # helper 2.0 is too new for the server: the carried one hides it, and its requirements go too.
    assert carried == {"helper": "1.9", "server": "1.0"}
    assert provided == ("deep", "engine", "extra", "speed")
    for name in ("engine", "extra", "newdep"):
        assert not fetched(index, name)


def test_what_the_builder_itself_has_installed_does_not_count(resolve, index):
    index.add(wheel("server", "2.0", requires=["packaging"]))
    index.add(wheel("packaging", "99.0"))
    carried, provided = resolve(Distribution("unasked", "1.0"), roots=("server==2.0",))
    assert carried == {"packaging": "99.0", "server": "2.0"}
    assert provided == ()


@pytest.mark.parametrize(
    ("hostile", "text"),
    [
        (Distribution("engine", "1.5", requires=("x @ http://127.0.0.1:9/x.whl",)), "address"),
        (Distribution("engine", "1.5", requires=("x @ file:///nowhere/x.whl",)), "address"),
        (Distribution("engine", "1.5", requires=("-r secret.txt",)), "can't be read"),
        (Distribution("engine", "not a version"), "PEP 440"),
        (Distribution("engine", "1.5", requires_python=">=x"), "Requires-Python"),
    ],
)
def test_what_pip_must_not_be_told_of_is_said(hostile, text):
    found = offered(hostile, Distribution("helper", "1.0"))
    assert [one.name for one in found.distributions] == ["helper"]
    (note,) = found.notes
    assert note.startswith("engine ")
    assert text in note


def test_and_is_carried(resolve):
    hostile = Distribution("engine", "1.5", requires=("x @ http://127.0.0.1:9/x.whl",))
    carried, provided = resolve(hostile, Distribution("helper", "1.0"))
    assert carried["engine"] == "2.0"
    assert provided == ("helper",)


def test_where_nothing_fits_pip_s_own_words_are_told(index, resolve):
    index.add(wheel("server", "3.0", requires=["engine>9"]))
    with pytest.raises(SourceError) as caught:
        resolve(Distribution("engine", "1.5"), roots=("server==3.0",))
    assert "engine" in caught.value.render()


def test_a_closure_follows_extras_and_markers_and_ends_in_a_ring():
    required = {
        "a": ("b[x] ; python_version >= '3'", "never ; python_version < '3'"),
        "b": ("c ; extra == 'x'", "d ; extra == 'y'"),
        "c": ("a",),
    }
    assert closure(["A"], required, {"python_version": "3.12"}) == {"a", "b", "c"}
