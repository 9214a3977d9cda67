"""Outputs and caches that can't be written, or not in full."""

import resource

import pytest

from manifests.exitcodes import ExitCode
from tests.support.connected import refused, rest_of

FILESYSTEM = ExitCode.FILESYSTEM


def small_files() -> None:
    """Let no file grow beyond 20 MB: as on FAT32 at 4 GiB, after the space was found enough."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000_000, 20_000_000))


@pytest.fixture
def beside(namespace, tmp_path):
    """Run behind a mount on a folder; what lies in it afterwards is written to a file."""

    def launcher(options, folder):
        folder.mkdir()
        script = (
            f"mount {options} '{folder}' && shift && \"$@\"; code=$?; "
            f"cd '{folder}' && find . -mindepth 1 > '{tmp_path}/left'; exit $code"
        )
        return (*namespace, "sh", "-c", script, "sh", "--")

    return launcher


def left(tmp_path):
    return (tmp_path / "left").read_text().split()


def test_a_read_only_output(bench, beside, tmp_path):
    launcher = beside("-t tmpfs -o ro none", tmp_path / "media")
    done = bench.follow(tmp_path / "media/below", launcher=launcher)
    refused(done, FILESYSTEM, "media: Read-only file system", "choose another folder")
    assert left(tmp_path) == []


def test_an_output_with_too_little_room(bench, beside, tmp_path):
    launcher = beside("-t tmpfs -o size=4m none", tmp_path / "media")
    done = bench.follow(tmp_path / "media", launcher=launcher)
    refused(done, FILESYSTEM, "bytes are free, the bundle takes", "--output")
    assert left(tmp_path) == []


def test_a_file_in_the_place_of_the_output(bench, tmp_path):
    (tmp_path / "media").write_text("")
    for output in ("media", "media/below"):
        done = bench.follow(tmp_path / output)
        refused(done, FILESYSTEM, "media: Not a directory", "a file stands where a folder")


def test_an_output_that_fills_up_on_the_way(bench, tmp_path):
    output = tmp_path / "media"
    done = bench.follow(output, before=small_files)
    refused(done, FILESYSTEM, "media/", "File too large", "writing the bundle", "another file sys")
    assert not output.exists()
    output.mkdir()
    bench.follow(output, before=small_files)
    assert list(output.iterdir()) == []


@pytest.mark.parametrize("megabytes", [1, 40, 110])
def test_a_cache_that_fills_up(bench, beside, tmp_path, megabytes):
    cache = tmp_path / "cache"
    launcher = beside(f"-t tmpfs -o size={megabytes}m none", cache)
    done = bench.follow(tmp_path / "media", cache=str(cache), launcher=launcher)
    refused(done, FILESYSTEM, "o space left", "free some space")
    found = [name for name in left(tmp_path) if name.startswith("./work/")]
    assert [name for name in found if not name.endswith(".lock")] == []
    assert not (tmp_path / "media").exists()


def test_a_file_in_the_place_of_the_cache(bench, tmp_path):
    (tmp_path / "cache").write_text("")
    done = bench.create(tmp_path / "media", cache=str(tmp_path / "cache"))
    refused(done, FILESYSTEM, "cache", "a file stands where a folder is needed")
    assert rest_of(tmp_path / "media", bench.place.cache) == []
