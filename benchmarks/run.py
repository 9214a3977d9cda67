"""Measure pack, install and audit against the tools that people use for the same, in one run.

    python benchmarks/run.py [--gigabytes 4] [--folder DIR]

A quarter of the bytes is an environment, the rest a model. Everything runs on the same files, one
thing after another, and each time includes flushing what was written (`sync`), so that the page
cache flatters nobody; reads come from the page cache for all alike. Figures are ratios in the same
run, so the machine's own speed divides out. Lines that start with "limit" are no tools: they do one
part of the work alone (hash, decompress, write), on all cores, and no way to do all can be faster.
Needs Linux, tar, zstd, sha256sum, a package index, and 8 times the size free in DIR.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.material import workplace  # noqa: E402 - the repository is put on the path above
from benchmarks.timing import Figure, Timing, report, run, shell, timed  # noqa: E402
from bundler import conda, pack  # noqa: E402
from bundler.workshop import Workshop  # noqa: E402
from manifests import digests, lock  # noqa: E402
from tests.support import small  # noqa: E402
from wheelhouse import install  # noqa: E402

#: Of the bytes asked for, how many are the environment's.
ENVIRONMENT_SHARE = 0.25


def rebuild(place: small.Workplace, lock_file: Path, folder: Path) -> Path:
    """The environment as it is before packing: linked by conda, filled by pip."""
    locked, store = lock.load(lock_file), Workshop(place.cache).store
    prefix = folder / "built"
    conda.create(locked.conda, prefix, store, folder / "packages")
    (folder / "pip").mkdir()
    install.install(locked.wheels, prefix=prefix, store=store, scratch=folder / "pip")
    return prefix


def size_of(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def hash_all(name: str, folder: Path) -> Timing:
    """The limit of whatever checks these bytes: sha256 on all cores, and nothing else."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    files.sort(key=lambda path: -path.stat().st_size)

    def hash_them() -> None:
        with ThreadPoolExecutor(digests.workers()) as pool:
            list(pool.map(digests.hash_file, files))

    return timed(name, sum(path.stat().st_size for path in files), hash_them)


def measure(folder: Path, size: int) -> Iterator[Figure]:
    """All figures, one after another."""
    environment = int(size * ENVIRONMENT_SHARE)
    place = workplace(folder, environment, size - environment)
    media = place.create(folder / "media")
    prefix = folder / "host"
    yield from _installing(folder, media, prefix)
    yield from _auditing(folder, media, prefix)
    (lock_file,) = prefix.glob("releases/*/bundle.lock")
    yield _packing(folder, rebuild(place, lock_file, folder))


def _installing(folder: Path, media: Path, prefix: Path) -> Iterator[Figure]:
    ours = timed(
        "install.sh", 0, lambda: run("sh", media / "install.sh", "--prefix", prefix, "--no-start")
    )
    size = size_of(prefix)
    limits = [hash_all("limit: sha256 of the medium", media)]
    copied = timed(
        "cp -a of what was installed", size, lambda: run("cp", "-a", prefix, folder / "copy")
    )
    shutil.rmtree(folder / "copy")
    (archive,) = media.glob("*.tar")

    def check_then_unpack() -> None:
        (folder / "plain/env").mkdir(parents=True)
        shell("sha256sum --quiet -c SHA256SUMS", media)
        run("tar", "-xf", archive, "-C", folder / "plain")
        shell("zstd -qdc ../env.tar.zst | tar -x && rm ../env.tar.zst", folder / "plain/env")

    untarred = timed("sha256sum -c; tar, zstd", size, check_then_unpack)
    shutil.rmtree(folder / "plain")
    run("tar", "-xf", archive, "-C", folder, "env.tar.zst")
    packed = folder / "env.tar.zst"
    limits.append(timed("limit: zstd -t of env", size, lambda: run("zstd", "-qt", packed)))
    packed.unlink()
    limits = [replace(limit, size=size) for limit in limits]
    yield Figure("install", replace(ours, size=size), (copied, untarred), tuple(limits))


def _auditing(folder: Path, media: Path, prefix: Path) -> Iterator[Figure]:
    sums = folder / "sums"
    shell(f"find . -type f -print0 | xargs -0 sha256sum > '{sums}'", prefix)
    for what, place, listed in (
        ("audit an installation", prefix, sums),
        ("audit a medium", media, media / "SHA256SUMS"),
    ):
        size = size_of(place)
        ours = timed("bundle audit", size, lambda place=place: small.bundle("audit", str(place)))
        peer = timed(
            "sha256sum -c",
            size,
            lambda place=place, listed=listed: run("sha256sum", "-c", "--quiet", listed, cwd=place),
        )
        yield Figure(what, ours, (peer,), (hash_all("limit: sha256 on all cores", place),))


def _packing(folder: Path, built: Path) -> Figure:
    size = size_of(built)
    out = folder / "packed.tar.zst"
    tar = f"tar --sort=name -cf - . | zstd -qf -T0 -3 -o '{out}'"
    ours = timed("pack, with every digest", size, lambda: pack.pack(built, out, compression="zstd"))
    peers = [
        timed("tar | zstd -T0 -3", size, lambda: shell(tar, built)),
        timed("… and sha256sum", size, lambda: shell(f"{tar}; sha256sum '{out}'", built)),
    ]
    program = Path(sys.executable).parent / "conda-pack"
    for form, words in (("tar.zst", ()), ("tar.gz", ("--compress-level", "1"))):
        out = folder / f"stock.{form}"
        command = (program, "-p", built, "-o", out, "--quiet", "--n-threads", "-1", *words)
        peers.append(timed(f"conda-pack {form}", size, lambda command=command: run(*command)))
    return Figure("pack an environment", ours, tuple(peers))


def main() -> None:
    """Measure in a scratch folder and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=4.0, help="size of what is installed")
    parser.add_argument("--folder", type=Path, help="where to work (default: the temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vllm-bundle-benchmark-", dir=options.folder) as name:
        report(list(measure(Path(name), int(options.gigabytes * 1e9))))


if __name__ == "__main__":
    main()
