"""Samples of media: what has a digest of its own is read or not; all else is always checked."""

import os
import tarfile
from pathlib import Path

import pytest

from bundler import parity
from manifests import audit
from manifests.audit import forms
from manifests.errors import UsageError
from tests.support.damage import LIBRARY
from tests.support.simulator import RUNTIME, Simulator

MODEL = {"config.json": b"{}", **{f"{n}.safetensors": bytes([n]) * 60_000 for n in range(1, 9)}}


@pytest.fixture(params=[0, 70_000], ids=["one archive", "volumes"])
def folder(request, tmp_path) -> Path:
    return Simulator(model=MODEL).write(tmp_path, volume_size=request.param)[0]


def run(folder: Path, *, others=(), progress=lambda count: None, **wishes):
    return audit.prepare(folder, others, audit.how(**wishes)).run(progress)


def damaged(folder: Path, member: str) -> None:
    """Another byte in the middle of a member, wherever that is."""
    whole = b"".join(
        path.read_bytes()[512 * (len(pieces(folder)) > 1) :] for path in pieces(folder)
    )
    (copy := folder.parent / "whole.tar").write_bytes(whole)
    with tarfile.open(copy) as tar:
        info = tar.getmember(member)
    place = info.offset_data + info.size // 2
    for path in pieces(folder):
        head = 512 * (len(pieces(folder)) > 1)
        size = path.stat().st_size - head
        if place < size:
            data = bytearray(path.read_bytes())
            data[head + place] ^= 1
            path.write_bytes(data)
            return
        place -= size


def pieces(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.tar*"))


def test_a_sample_says_that_the_archive_itself_was_not_compared(folder):
    for share, is_told in (("3", True), ("100%", False)):
        report = run(folder, sample=share, seed="s")
        assert ("own digest in SHA256SUMS" in report.text()) is is_told
        for language, words in (("en", "own digest in SHA256SUMS"), ("zh", "自身的摘要")):
            assert (words in forms.render(report, "html", language)) is is_told
        assert ("own digest" in forms.render(report, "junit")) is is_told
    assert "own digest" not in run(folder).text()


def test_a_sample_reads_the_members_that_it_drew(folder):
    read = []
    report = run(folder, progress=read.append, sample="3", seed="s")
    assert report.clean
    assert not report.intact
    assert report.sample is not None
    assert (report.sample.files, report.sample.of_files) == (3, 12)
    whole = sum(path.stat().st_size for path in pieces(folder))
    # its members, and of the others headers and padding
    assert report.sample.size <= sum(read) < report.sample.size + 40_000 < whole
    assert run(folder, sample="3", seed="s") == report
    assert "sample intact" in report.text()


def test_a_sample_finds_what_it_drew(folder):
    damaged(folder, "model/5.safetensors")
    found = {}
    for seed in range(12):
        report = run(folder, sample="4", seed=str(seed))
        found[seed] = [finding.path for finding in report.findings]
        assert set(found[seed]) <= {"model/5.safetensors", *(p.name for p in pieces(folder))}
        assert report.sample is not None
    assert 0 < sum("model/5.safetensors" in paths for paths in found.values()) < 12
    assert "model/5.safetensors" in [f.path for f in run(folder, sample="100%").findings]


def test_what_is_no_byte_of_a_member_is_always_checked(folder):
    for change, told in (
        (lambda: (folder / "stranger").touch(), "stranger"),
        (lambda: os.truncate(pieces(folder)[-1], 30_000), pieces(folder)[-1].name),
        (lambda: (folder / "install.sh").write_bytes(b"#!/bin/sh\n"), "install.sh"),
        (lambda: pieces(folder)[-1].unlink(), pieces(folder)[-1].name),
    ):
        change()
        report = run(folder, sample="1")
        assert not report.clean
        assert any(told in f.path or told == "install.sh" for f in report.findings), report.text()


def test_the_header_of_a_member_that_is_not_drawn_is_compared(tmp_path):
    folder = Simulator(model=MODEL).write(tmp_path)[0]
    with tarfile.open(pieces(folder)[0]) as tar:
        place = tar.getmember("model/3.safetensors").offset
    with pieces(folder)[0].open("r+b") as out:
        out.seek(place + 100)
        out.write(b"9")
    for seed in "abcdef":
        report = run(folder, sample="1", seed=seed)
        assert "model/3.safetensors" in [finding.path for finding in report.findings]


def test_parity_and_second_copies_are_members_of_the_sample(tmp_path):
    simulator = Simulator(model=MODEL, runtime={**RUNTIME, **LIBRARY})
    folder = simulator.write(tmp_path / "a", volume_size=70_000)[0]
    parity.add(folder, 20)
    second = tmp_path / "second"
    second.mkdir()
    name = pieces(folder)[1].name
    (second / name).write_bytes((folder / name).read_bytes())
    spares = len(list(folder.glob("*.parity*")))
    report = run(folder, others=(second,), sample="1")
    assert report.clean
    assert report.sample is not None
    assert report.sample.of_files == 12 + spares + 1
    (second / name).write_bytes((folder / name).read_bytes()[:-1] + b"x")
    seeds = [run(folder, others=(second,), sample="5", seed=str(n)).clean for n in range(20)]
    assert 0 < sum(seeds) < 20


def test_the_bar_of_a_whole_audit_comes_to_its_end(folder):
    read, made = [], audit.prepare(folder)
    assert made.run(read.append).intact
    assert sum(read) == made.size


def test_what_a_medium_can_not_do_is_refused_with_a_reason(folder, tmp_path):
    with pytest.raises(UsageError, match="--jobs") as caught:
        run(folder, jobs=2)
    assert "front to back" in caught.value.why
    with pytest.raises(UsageError, match="--resume") as caught:
        run(folder, resume=tmp_path / "state")
    assert "another copy" in caught.value.why
    assert not (tmp_path / "state").exists()


def test_a_damaged_member_is_named_alone(folder):
    """Its padding is behind it: those that follow are read where they lie."""
    damaged(folder, "model/5.safetensors")
    report = audit.audit(folder)
    members = [finding.path for finding in report.findings if "/" in finding.path]
    assert members == ["model/5.safetensors"]
    assert len(report.findings) == 2  # and the file that it lies in
