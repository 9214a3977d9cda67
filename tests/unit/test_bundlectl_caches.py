"""Compile caches are kept, placed and forgotten, with real files and a real release's manifest."""

import errno
import json
import os
import shutil
from dataclasses import replace

import pytest

from bundlectl import caches
from bundlectl.command import Argument
from bundlectl.config import ServeConfig
from bundlectl.layout import Layout
from bundlectl.planned import Planned
from manifests import canonical, members
from manifests.bundle import Member
from manifests.digests import hash_file
from manifests.errors import UsageError
from manifests.stack import Server
from tests.support.simulator import Simulator

RELEASE, KEY = "tiny-0123456789ab", "an-api-key-of-this-host"


class Host:
    """An installation with one release, whose server has compiled something."""

    def __init__(self, prefix):
        self.layout = Layout(prefix)
        self.layout.create()
        self.model = prefix / "models/tiny"
        self.model.mkdir()
        (self.model / "config.json").write_bytes(b"{}")
        self.manifest = Simulator().manifest()
        self.settings = ServeConfig()

    def plan(self, *words):
        argument = Argument(words)
        return Planned(Server("server"), self.model, self.model, (argument,), {})

    def compile(self):
        kernel = self.layout.cache / "triton/KERNEL"
        kernel.mkdir(parents=True)
        (kernel / "kernel.cubin").write_bytes(b"\x7fELF")
        (kernel / "lock").touch()
        group = {"child_paths": {"kernel.cubin": str(kernel / "kernel.cubin")}}
        (kernel / "__grp__kernel.json").write_text(json.dumps(group))
        graph = self.layout.cache / "vllm/torch_compile_cache/0/model"
        graph.parent.mkdir(parents=True)
        graph.write_bytes(b"graph")
        (graph.parent / "leak.py").write_text(f"key = {KEY!r}")

    def keep(self, target, *words):
        key = caches.key_of(self.manifest, self.settings, self.plan(*words))
        return caches.keep(self.layout, key, target, (KEY,))

    def carry(self, source):
        """As if the release had been installed with this file."""
        digest = hash_file(source)
        path = f"caches/{digest[:12]}.caches.zst"
        place = self.layout.release(RELEASE) / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(source.read_bytes())
        member = Member(path, members.DOCUMENT, source.stat().st_size, digest)
        self.manifest = replace(self.manifest, members=(*self.manifest.members, member))
        return place

    def start(self, *words):
        return caches.place(self.layout, RELEASE, self.manifest, self.settings, self.plan(*words))

    def files(self):
        root = self.layout.cache
        return {str(p.relative_to(root)): p for p in root.rglob("*") if p.is_file()}


@pytest.fixture
def kept(tmp_path):
    host = Host(tmp_path / "maker")
    host.compile()
    host.keep(tmp_path / "kept")
    return tmp_path / "kept"


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path / "host")


def test_the_same_caches_give_the_same_bytes_without_locks_and_secrets(tmp_path):
    maker = Host(tmp_path / "maker")
    maker.compile()
    first = maker.keep(tmp_path / "a")
    (maker.layout.cache / "triton/KERNEL/lock").unlink()
    assert maker.keep(tmp_path / "b") == first
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert first.files == 3


def test_a_server_that_compiled_nothing_leaves_nothing_to_keep(host, tmp_path):
    with pytest.raises(UsageError, match="compiled nothing"):
        host.keep(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_what_was_carried_lies_where_the_server_looks(host, kept):
    host.carry(kept)
    (told,) = host.start()
    assert "2 files carried for" in told
    assert told.endswith(f"used; 1 more only fit below {kept.parent / 'maker/cache'}")
    files = host.files()
    group = json.loads(files["triton/KERNEL/__grp__kernel.json"].read_text())
    assert group["child_paths"] == {"kernel.cubin": str(files["triton/KERNEL/kernel.cubin"])}
    assert "vllm/torch_compile_cache/0/model" not in files
    modes = {path.stat().st_mode & 0o777 for path in files.values()}
    assert modes == {0o600}
    folders = [path for path in host.layout.cache.rglob("*") if path.is_dir()]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}


def test_graphs_too_where_the_cache_lies_at_the_same_path(tmp_path, kept):
    for path in (tmp_path / "maker/cache").iterdir():
        path.rename(tmp_path / path.name)
    host = Host.__new__(Host)
    host.layout = Layout(tmp_path / "maker")
    host.model, host.settings = tmp_path / "maker/models/tiny", ServeConfig()
    host.manifest = Simulator().manifest()
    host.carry(kept)
    (told,) = host.start()
    assert "3 files carried" in told
    assert (tmp_path / "maker/cache/vllm/torch_compile_cache/0/model").read_bytes() == b"graph"


def test_a_release_without_caches_says_nothing(host):
    assert host.start() == ()


def test_nothing_that_is_there_is_replaced_and_nothing_is_done_twice(host, kept):
    own = host.layout.cache / "triton/KERNEL/kernel.cubin"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"my own")
    place = host.carry(kept)
    first = host.start()
    assert own.read_bytes() == b"my own"
    place.write_bytes(place.read_bytes() + b"damaged since")  # no later start reads it again
    assert host.start() == first
    assert own.read_bytes() == b"my own"


def test_a_cache_that_was_removed_is_filled_again(host, kept):
    host.carry(kept)
    host.start()
    shutil.rmtree(host.layout.cache / "triton")
    (told,) = host.start()
    assert told.endswith("used; 1 more only fit below " + str(kept.parent / "maker/cache"))
    assert "triton/KERNEL/kernel.cubin" in host.files()


def test_a_disk_that_is_full_is_left_as_it_was(host, kept, monkeypatch):
    host.carry(kept)
    usage = shutil.disk_usage(host.layout.cache)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
    (told,) = host.start()
    assert "has 1.0 MB free" in told
    assert host.files() == {}


def test_what_was_written_before_an_error_goes_again(host, kept, monkeypatch):
    def full(path, data):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data[:1])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    host.carry(kept)
    monkeypatch.setattr(caches, "_write", full)
    (told,) = host.start()
    assert "No space left" in told
    assert host.files() == {}


def test_a_file_whose_name_no_list_can_hold_stays_behind(tmp_path):
    maker = Host(tmp_path / "maker")
    maker.compile()
    (maker.layout.cache / "triton/KERNEL/a;b\n").touch()
    assert maker.keep(tmp_path / "kept").files == 3
    host = Host(tmp_path / "host")
    host.carry(tmp_path / "kept")
    assert "2 files carried" in host.start()[0]


@pytest.mark.parametrize("place", [0, 5, -1])
def test_a_damaged_file_is_not_used_and_stops_no_start(host, kept, place):
    path = host.carry(kept)
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)
    (told,) = host.start()
    assert "are not used" in told
    assert host.files() == {}


def test_a_file_that_is_gone_stops_no_start(host, kept):
    host.carry(kept).unlink()
    (told,) = host.start()
    assert "No such file" in told


def test_caches_for_other_arguments_are_not_used_and_it_is_said_why(host, kept):
    host.carry(kept)
    (told,) = host.start("--enforce-eager")
    assert "other arguments of the server (--enforce-eager)" in told
    assert told.endswith("the first start compiles (1-3 minutes)")
    assert host.files() == {}


def test_of_several_files_the_one_that_fits_is_used(host, kept, tmp_path):
    maker = Host(tmp_path / "another")
    maker.compile()
    maker.keep(tmp_path / "eager", "--enforce-eager")
    host.carry(kept)
    host.carry(tmp_path / "eager")
    assert "used" in host.start("--enforce-eager")[0]
    assert "not used" not in host.start("--enforce-eager")[0]


def test_what_a_kill_left_on_its_way_is_not_taken_for_placed(host, kept):
    host.carry(kept)
    half = host.layout.cache / ".carried.new/triton/KERNEL/kernel.cubin"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"ha")
    host.start()
    files = host.files()
    assert files["triton/KERNEL/kernel.cubin"].read_bytes() == b"\x7fELF"
    assert not any(path.startswith(".carried") for path in files)


def test_caches_of_releases_that_are_gone_go_too_and_what_was_compiled_here_stays(host, kept):
    place = host.carry(kept)
    host.start()
    own = host.layout.cache / "triton/OWN"
    own.write_bytes(b"compiled here")
    place.unlink()
    host.manifest = Simulator().manifest()
    assert host.start() == ()
    assert set(host.files()) == {"triton/OWN"}


def test_what_another_release_still_carries_stays(host, kept):
    host.carry(kept)
    host.start()
    host.manifest = Simulator().manifest()  # of the release that starts now
    host.start()
    assert "triton/KERNEL/kernel.cubin" in host.files()


def test_a_record_that_names_files_elsewhere_removes_none_of_them(host, tmp_path):
    stranger = tmp_path / "stranger"
    stranger.touch()
    record = host.layout.cache / "carried/0123456789abcdef.json"
    record.parent.mkdir()
    record.write_bytes(canonical.sealed([str(stranger), "../etc/api-key"]))
    (host.layout.etc / "api-key").touch()
    host.start()
    assert stranger.exists()
    assert (host.layout.etc / "api-key").exists()
