"""Real pip-tools against a loopback index; case numbers are those of the field reports."""

import hashlib
import os
import sys
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from manifests.errors import IntegrityError, SourceError, TargetError, UsageError
from manifests.lock import COMPUTED, PUBLISHED, Target
from tests.support import pythons
from tests.support.index import Index, serving, wheel
from wheelhouse.resolve import Resolver, requirements_text
from wheelhouse.sources import Sources

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
CP = f"cp{sys.version_info.major}{sys.version_info.minor}"


@pytest.fixture
def index():
    with serving(Index()) as index:
        yield index


@pytest.fixture
def resolver(index, tmp_path):
    """Make a resolver for a target with some glibc."""
    made = []

    def make(glibc="2.28", *, date="", sources=None, python=PYTHON):
        made.append(None)
        return Resolver(
            sources or Sources(index.simple, timeout=5),
            Path(sys.executable),
            Target(("cpu",), glibc, python),
            date,
            tmp_path / f"scratch {len(made)}",
        )

    return make


def pins(wheels):
    return {wheel.name: wheel.version for wheel in wheels}


def sdist(name, version, marker):
    """A source archive whose build would leave a trace."""
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        script = f"open({str(marker)!r}, 'w').close()\n".encode()
        info = tarfile.TarInfo(f"{name}-{version}/setup.py")
        info.size = len(script)
        archive.addfile(info, BytesIO(script))
    return f"{name}-{version}.tar.gz", buffer.getvalue()


def test_a_closure_has_every_digest_as_published(index, resolver):
    files = [index.add(wheel("app", "1.0", requires=["lib>=1"])), index.add(wheel("lib", "1.2"))]
    wheels = resolver().resolve(["app"])
    assert pins(wheels) == {"app": "1.0", "lib": "1.2"}
    for found, file in zip(wheels, files, strict=True):
        assert found.filename == file.filename
        assert found.url == f"{index.url}/files/{file.filename}"
        assert found.sha256 == hashlib.sha256(file.data).hexdigest()
        assert found.digest_from == PUBLISHED
        assert found.size == len(file.data)
    text = requirements_text(wheels)
    assert f"app==1.0 \\\n    --hash=sha256:{wheels[0].sha256}\n" in text


@pytest.mark.parametrize("glibc", ["2.28", "2.31"])
def test_b01_the_whole_ladder_of_tags_is_accepted_and_no_more(index, resolver, glibc):
    tags = {
        "a": f"{CP}-{CP}-manylinux_2_17_x86_64",
        "b": f"{CP}-{CP}-manylinux2014_x86_64",
        "c": "cp38-abi3-manylinux_2_31_x86_64",
        "d": f"{CP}-{CP}-manylinux_2_27_x86_64.manylinux_2_28_x86_64",
    }
    for name, tag in tags.items():
        index.add(wheel(name, "1.0", tag))
    made = resolver(glibc)
    fits = {name: made.offers(name) for name in tags}
    assert fits == {"a": True, "b": True, "c": glibc == "2.31", "d": True}
    if glibc == "2.28":
        with pytest.raises(TargetError) as caught:
            made.resolve(["c==1.0"])
        assert "needs glibc 2.31, the target has 2.28" in caught.value.findings[0]
    else:
        assert set(pins(made.resolve(list(tags)))) == set(tags)


def test_b02_markers_are_judged_for_the_target(index, resolver):
    index.add(
        wheel(
            "parent",
            "1.0",
            requires=[
                "winonly; sys_platform=='win32'",
                "newpy; python_version>='4'",
                "linuxonly; platform_system=='Linux'",
            ],
        )
    )
    index.add(wheel("linuxonly", "1.0"))
    assert set(pins(resolver().resolve(["parent"]))) == {"parent", "linuxonly"}


def test_b04_source_archives_are_never_run(index, resolver, tmp_path):
    marker = tmp_path / "ran"
    index.add(sdist("sd", "2.0", marker))
    index.add(wheel("sd", "1.0"))
    made = resolver()
    with pytest.raises(SourceError) as caught:
        made.resolve(["sd==2.0"])
    assert "only there as source" in caught.value.what
    assert "1.0" in caught.value.mend
    index.add(wheel("app", "1.0", requires=["sd>=1"]))
    assert pins(made.resolve(["app"])) == {"app": "1.0", "sd": "1.0"}
    assert not marker.exists()


def test_b05_a_raised_glibc_floor_is_an_error_that_names_the_way_out(index, resolver):
    index.add(wheel("bigpy", "1.0", "py3-none-manylinux_2_39_x86_64"))
    index.add(wheel("bigpy", "0.9", "py3-none-manylinux_2_28_x86_64"))
    made = resolver("2.35")
    with pytest.raises(TargetError) as caught:
        made.resolve(["bigpy==1.0"])
    assert "needs glibc 2.39, the target has 2.35" in caught.value.findings[0]
    assert "0.9" in caught.value.mend
    with pytest.raises(TargetError) as caught:
        made.resolve(["bigpy"])
    assert "2.39" in caught.value.what
    assert "bigpy==0.9" in caught.value.mend
    assert pins(made.resolve(["bigpy==0.9"])) == {"bigpy": "0.9"}


def test_b05_also_below_the_roots(index, resolver):
    index.add(wheel("app", "1.0", requires=["deep==1.0"]))
    index.add(wheel("deep", "1.0", "py3-none-manylinux_2_39_x86_64"))
    with pytest.raises(TargetError) as caught:
        resolver().resolve(["app"])
    assert "deep==1.0" in caught.value.what
    assert "needs glibc 2.39" in caught.value.findings[0]


def test_b10_nothing_comes_from_an_index_that_was_not_named(index, resolver, monkeypatch):
    index.add(wheel("corp", "1.0"))
    with serving(Index()) as bait:
        bait.add(wheel("corp", "99.0"))
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", bait.simple)
        monkeypatch.setenv("PIP_INDEX_URL", bait.simple)
        monkeypatch.setenv("PIP_CONSTRAINT", "/nonexistent")
        assert pins(resolver().resolve(["corp"])) == {"corp": "1.0"}
        assert bait.requests == []


def test_uploads_after_the_date_do_not_count(index, resolver):
    index.add(wheel("lib", "1.0"), uploaded="2026-01-01T00:00:00.000000Z")
    index.add(wheel("lib", "2.0"), uploaded="2026-06-01T00:00:00.000000Z")
    made = resolver(date="2026-03-01T00:00:00Z")
    assert pins(made.resolve(["lib"])) == {"lib": "1.0"}
    with pytest.raises(TargetError) as caught:
        made.resolve(["lib==2.0"])
    assert "2026-06-01" in caught.value.findings[0]


def test_a_conflict_is_told_in_pips_words_without_its_traceback(index, resolver):
    index.add(wheel("app", "1.0", requires=["lib<2"]))
    index.add(wheel("lib", "1.0"))
    index.add(wheel("lib", "2.0"))
    with pytest.raises(SourceError) as caught:
        resolver().resolve(["app", "lib>=2"])
    said = "\n".join(caught.value.findings)
    assert "app 1.0 depends on lib<2" in said
    assert "The user requested lib>=2" in said
    assert "Traceback" not in said


def test_a_project_that_nobody_has_is_named(index, resolver):
    index.add(wheel("app", "1.0", requires=["absent"]))
    with pytest.raises(SourceError, match="no source has absent"):
        resolver().resolve(["app"])
    with pytest.raises(SourceError, match="no source has nothing-like-it"):
        resolver().resolve(["nothing-like-it==1"])


def test_an_unreachable_index_names_the_host_and_the_ways_out(resolver):
    made = resolver(sources=Sources("http://user:s3cret@127.0.0.1:9/simple", timeout=1))
    with pytest.raises(SourceError) as caught:
        made.offers("app")
    shown = caught.value.render()
    for part in ("127.0.0.1:9", "--index-url", "--find-links", "--offline"):
        assert part in shown
    assert "s3cret" not in shown


def test_credentials_reach_the_index_and_nothing_else(index, resolver, tmp_path):
    index.credentials = "user:s3cret"
    index.add(wheel("app", "1.0", requires=["lib"]))
    index.add(wheel("lib", "1.0"))
    wheels = resolver(sources=Sources(index.authorised(), timeout=5)).resolve(["app"])
    assert "s3cret" not in repr(wheels)
    kept = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert not any(b"s3cret" in data for data in kept)


def test_an_index_of_plain_html_serves_too(index, resolver):
    index.html_only = True
    index.add(wheel("app", "1.0", requires=["lib"]))
    lib = index.add(wheel("lib", "1.0"))
    index.add(wheel("lib", "3.0"), requires_python=">=4")
    wheels = resolver().resolve(["app"])
    assert pins(wheels) == {"app": "1.0", "lib": "1.0"}
    assert wheels[1].sha256 == hashlib.sha256(lib.data).hexdigest()
    with pytest.raises(SourceError) as caught:
        resolver(date="2026-03-01T00:00:00Z").resolve(["app"])
    assert "upload-time" in caught.value.findings[0]


def test_a_remote_file_without_a_published_digest_is_refused(index, resolver):
    index.no_digests = True
    index.add(wheel("app", "1.0"))
    with pytest.raises(SourceError, match="publishes no sha256"):
        resolver().pick("app")


def test_a_local_folder_gives_computed_digests(index, resolver, tmp_path):
    folder = tmp_path / "my wheels"
    folder.mkdir()
    name, data = wheel("app", "1.0+cpu", requires=["lib"])
    (folder / name).write_bytes(data)
    index.add(wheel("lib", "1.0"))
    wheels = resolver().resolve(["app==1.0+cpu"], extra_links=folder)
    assert wheels[0].url == f"file:{name}"
    assert wheels[0].sha256 == hashlib.sha256(data).hexdigest()
    assert [found.digest_from for found in wheels] == [COMPUTED, PUBLISHED]


def test_b07_other_bytes_under_one_name_are_refused(index, resolver, tmp_path):
    name, data = wheel("app", "1.0")
    index.add((name, data))
    (tmp_path / name).write_bytes(data)
    both = Sources(index.simple, (str(tmp_path),), timeout=5)
    assert resolver(sources=both).pick("app").digest_from == PUBLISHED
    (tmp_path / name).write_bytes(data + b"!")
    with pytest.raises(IntegrityError, match="different bytes") as caught:
        resolver(sources=both).pick("app")
    here, there = caught.value.findings
    assert here == f"{hashlib.sha256(data + b'!').hexdigest()}  {tmp_path / name}"
    assert there == f"{hashlib.sha256(data).hexdigest()}  {index.url}/files/{name}"


def test_a_local_build_is_picked_only_by_its_name(index, resolver):
    index.add(wheel("torch", "2.0"))
    index.add(wheel("torch", "2.0+cpu"))
    index.add(wheel("torch", "1.0+cpu"))
    made = resolver()
    for asked, picked in {
        "torch": "2.0",
        "torch==2.0": "2.0",
        "torch==2.0+cpu": "2.0+cpu",
        "torch===2.0": "2.0",
        "torch<2": "1.0+cpu",
    }.items():
        assert made.pick(asked).version == picked
    assert pins(made.resolve(["torch===2.0"])) == {"torch": "2.0"}


def test_the_best_tag_and_the_highest_build_win(index, resolver):
    index.add(wheel("app", "1.0"))
    index.add(wheel("app", "1.0", f"{CP}-{CP}-manylinux_2_17_x86_64"))
    best = index.add(wheel("app", "1.0", f"7-{CP}-{CP}-manylinux_2_28_x86_64"))
    index.add(wheel("app", "1.0", f"{CP}-{CP}-manylinux_2_28_x86_64"))
    assert resolver().pick("app").filename == best.filename


def test_a_python_that_is_not_the_targets_is_refused(resolver):
    with pytest.raises(UsageError, match=r"the target's is 3\.99"):
        resolver(python="3.99")


def test_an_old_python_is_told(index, resolver):
    index.add(wheel("app", "1.0"), requires_python=">=3.99")
    with pytest.raises(TargetError) as caught:
        resolver().resolve([str(Requirement("app==1.0"))])
    assert "needs Python >=3.99" in caught.value.findings[0]


def test_a_target_beyond_the_builders_own_glibc(index, resolver):
    index.add(wheel("app", "1.0", "py3-none-manylinux_2_98_x86_64"))
    assert pins(resolver("2.99").resolve(["app==1.0"])) == {"app": "1.0"}
    with pytest.raises(TargetError) as caught:
        resolver("2.97").resolve(["app==1.0"])
    assert "needs glibc 2.98, the target has 2.97" in caught.value.findings[0]


@pytest.fixture
def foreign(index, tmp_path):
    """A resolver for a Python that is not the builder's, and that Python's version."""
    version, python = pythons.another()
    target = Target(("cpu",), "2.28", version)
    return Resolver(Sources(index.simple, timeout=5), python, target, "", tmp_path / "s"), version


def test_b01_the_ladder_is_that_of_the_targets_python(index, foreign):
    made, version = foreign
    own, older = f"cp{version.replace('.', '')}", "cp38"
    fitting = {
        "a": f"{own}-{own}-manylinux_2_28_x86_64",
        "b": f"{own}-{own}-manylinux2014_x86_64",
        "c": f"{own}-{own}-manylinux1_x86_64",
        "d": f"{own}-{own}-manylinux_2_5_x86_64",
        "e": f"{older}-abi3-manylinux2010_x86_64",
        "f": "py3-none-manylinux_2_18_x86_64",
        "g": f"{own}-none-any",
        "h": f"{own}-{own}-linux_x86_64",
    }
    unfit = {
        "p": f"{own}-{own}-manylinux_2_29_x86_64",
        "q": f"{CP}-{CP}-manylinux2014_x86_64",
        "r": f"{own}-{own}-manylinux2014_aarch64",
        "s": f"{own}-{own}-musllinux_1_2_x86_64",
        "t": f"{older}-{older}-manylinux2014_x86_64",
    }
    for name, tag in (fitting | unfit).items():
        index.add(wheel(name, "1.0", tag))
    assert {name for name in fitting | unfit if made.offers(name)} == set(fitting)
    assert set(pins(made.resolve(list(fitting)))) == set(fitting)


def test_b02_markers_are_those_of_the_targets_python(index, foreign):
    made, version = foreign
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    requires = [f"new; python_version=='{version}'", f"old; python_version=='{here}'"]
    index.add(wheel("parent", "1.0", requires=requires))
    index.add(wheel("new", "1.0"), requires_python=f"=={version}.*")
    assert set(pins(made.resolve(["parent"]))) == {"parent", "new"}


def test_a_dependency_that_is_only_there_as_source_is_named(index, resolver, tmp_path):
    index.add(wheel("app", "1.0", requires=["sd==2.0"]))
    index.add(sdist("sd", "2.0", tmp_path / "ran"))
    with pytest.raises(SourceError) as caught:
        resolver().resolve(["app"])
    assert caught.value.what == "sd==2.0: 2.0 is only there as source"
    assert not (tmp_path / "ran").exists()


def test_a_pin_that_no_source_serves_names_who_has_it(index, resolver):
    index.add(wheel("server", "1.0", requires=["torch==2.14.0"]))
    index.add(wheel("torch", "2.14.0", requires=["nccl-cu13==2.30.7"]))
    index.add(wheel("nccl-cu13", "2.29.0"))
    with pytest.raises(SourceError) as caught:
        resolver().resolve(["server==1.0"])
    assert caught.value.what == "no source has nccl-cu13==2.30.7"
    assert caught.value.why == "torch requires it"
    assert "2.29.0" in caught.value.mend


def test_a_closure_with_a_package_without_digest_is_refused(index, resolver):
    index.no_digests = True
    index.add(wheel("app", "1.0", requires=["lib"]))
    index.add(wheel("lib", "1.0"))
    with pytest.raises(SourceError, match=r"app-1\.0.*publishes no sha256"):
        resolver().resolve(["app"])


@pytest.mark.parametrize("fault", [{"no_head": True}, {"busy": 2}])
def test_servers_that_refuse_head_or_are_busy(index, resolver, fault):
    index.add(wheel("app", "1.0", requires=["lib"]))
    index.add(wheel("lib", "1.0"))
    vars(index).update(fault)
    assert pins(resolver().resolve(["app"])) == {"app": "1.0", "lib": "1.0"}


def test_large_wheels_are_not_fetched_to_resolve(index, resolver):
    big = index.add(wheel("big", "1.0", files={"data": os.urandom(1 << 20)}, requires=["lib"]))
    index.add(wheel("lib", "1.0"))
    assert pins(resolver().resolve(["big"])) == {"big": "1.0", "lib": "1.0"}
    assert "" not in index.transfers(big.filename)  # ranges, and never the whole


def test_setuptools_is_a_package_like_any_other(index, resolver):
    index.add(wheel("app", "1.0", requires=["setuptools>=77"]))
    index.add(wheel("setuptools", "80.0"))
    assert pins(resolver().resolve(["app"])) == {"app": "1.0", "setuptools": "80.0"}
