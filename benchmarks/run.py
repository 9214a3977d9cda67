"""Measure create, install and audit against the tools that people use for the same, in one run.

    python benchmarks/run.py [--gigabytes 3] [--folder DIR]

Everything runs on the same files, one thing after another, and each time includes flushing what
was written (`sync`), so that the page cache flatters nobody; reads come from the page cache for
all alike. Figures are ratios against a peer in the same run: the machine's own speed divides out.
Needs Linux, tar, sha256sum, a package index, and 8 times the size free in DIR.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bundler import conda, pack  # noqa: E402 - the repository is put on the path above
from bundler.workshop import Workshop  # noqa: E402
from manifests import lock  # noqa: E402
from tests.support import small  # noqa: E402
from wheelhouse import install  # noqa: E402

BIG = 16 << 20  # bytes of a file like a shared library
SMALL = 12 << 10  # bytes of a file like a Python module


@dataclass(frozen=True)
class Timing:
    """What one tool took for `size` bytes."""

    name: str
    size: int
    seconds: float

    @property
    def speed(self) -> float:
        """MB/s."""
        return self.size / self.seconds / 1e6


def timed(name: str, size: int, action: Callable[[], object]) -> Timing:
    """Run it once, from a flushed disk to a flushed disk."""
    os.sync()
    started = time.perf_counter()
    action()
    os.sync()
    return Timing(name, size, time.perf_counter() - started)


def run(*command: str | Path, cwd: Path | None = None) -> None:
    """Run a command that has to succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")


def shell(command: str, cwd: Path) -> None:
    """Run a pipeline that has to succeed."""
    run("bash", "-o", "pipefail", "-c", command, cwd=cwd)


def payload_wheel(folder: Path, size: int) -> None:
    """A wheel whose files compress like an environment's: libraries, and many modules."""
    source = random.Random(1)
    words = [source.randbytes(6).hex() for _ in range(4000)]
    name = "payload-1.0"
    rows = []
    with zipfile.ZipFile(folder / f"{name}-py3-none-any.whl", "w") as archive:

        def put(path: str, data: bytes) -> None:
            digest = urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(data)}\n")
            archive.writestr(path, data)

        for number in range(int(size * 0.85) // BIG):
            text = " ".join(source.choices(words, k=BIG // 26)).encode()
            put(f"payload/big{number}.bin", text + source.randbytes(BIG - len(text)))
        for number in range(int(size * 0.15) // SMALL):
            text = " ".join(source.choices(words, k=SMALL // 13)).encode()
            put(f"payload/part{number % 100}/module{number}.txt", text)
        put(f"{name}.dist-info/METADATA", b"Metadata-Version: 2.1\nName: payload\nVersion: 1.0\n")
        wheel = b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        put(f"{name}.dist-info/WHEEL", wheel)
        archive.writestr(f"{name}.dist-info/RECORD", "".join(rows) + f"{name}.dist-info/RECORD,,\n")


def stock_conda_pack(prefix: Path, out: Path, *words: str) -> None:
    """conda-pack as it comes."""
    program = Path(sys.executable).parent / "conda-pack"
    run(program, "-p", prefix, "-o", out, "--quiet", *words)


def rebuild(place: small.Workplace, lock_file: Path, folder: Path) -> Path:
    """The environment as it is before packing: linked by conda, filled by pip."""
    locked, store = lock.load(lock_file), Workshop(place.cache).store
    prefix = folder / "built"
    conda.create(locked.conda, prefix, store, folder / "packages")
    (folder / "pip").mkdir()
    install.install(locked.wheels, prefix=prefix, store=store, scratch=folder / "pip")
    return prefix


def measure(folder: Path, size: int) -> list[tuple[str, Timing, list[Timing]]]:
    """All figures: (what, ours, peers)."""
    place = small.workplace(folder)
    payload_wheel(place.links, size)
    place.stack.write_text(small.STACK.replace('"stub-vllm==1.0"', '"stub-vllm==1.0", "payload"'))
    media = place.create(folder / "media")
    prefix = folder / "host"
    installed = timed(
        "install.sh",
        size,
        lambda: run("sh", media / "install.sh", "--prefix", prefix, "--no-start"),
    )
    (environment,) = prefix.glob("releases/*/env")
    size = sum(path.lstat().st_size for path in environment.rglob("*") if path.is_file())
    installed = replace(installed, size=size)

    shell("find . -type f -print0 | xargs -0 sha256sum > ../../../../sums", environment)
    sums = folder / "sums"
    copied = timed("cp -a", size, lambda: run("cp", "-a", environment, folder / "copy"))
    shutil.rmtree(folder / "copy")
    tarred = timed(
        "tar -c", size, lambda: run("tar", "-cf", folder / "plain.tar", "-C", environment, ".")
    )

    def check_then_unpack() -> None:
        (folder / "unpacked").mkdir()
        run("sha256sum", folder / "plain.tar")
        run("tar", "-xf", folder / "plain.tar", "-C", folder / "unpacked")

    untarred = timed("sha256sum, tar -x", size, check_then_unpack)
    shutil.rmtree(folder / "unpacked")
    (folder / "plain.tar").unlink()

    audited = timed("bundle audit", size, lambda: small.bundle("audit", str(prefix)))
    summed = timed(
        "sha256sum -c", size, lambda: run("sha256sum", "-c", "--quiet", sums, cwd=environment)
    )
    media_size = sum(path.stat().st_size for path in media.iterdir())
    media_audited = timed("bundle audit", media_size, lambda: small.bundle("audit", str(media)))
    media_summed = timed(
        "sha256sum -c", media_size, lambda: run("sha256sum", "-c", "SHA256SUMS", cwd=media)
    )

    built = rebuild(place, environment.parent / "bundle.lock", folder)
    packed = timed(
        "pack.pack, zst and sha256",
        size,
        lambda: pack.pack(built, folder / "ours.tar.zst", compression="zstd"),
    )
    stock_zst = timed(
        "conda-pack tar.zst", size, lambda: stock_conda_pack(built, folder / "stock.tar.zst")
    )
    stock_gz = timed(
        "conda-pack tar.gz -1 -j2",
        size,
        lambda: stock_conda_pack(
            built, folder / "stock.tar.gz", "--compress-level", "1", "--n-threads", "2"
        ),
    )
    return [
        ("pack an environment", packed, [stock_zst, stock_gz, tarred]),
        ("install", installed, [copied, untarred]),
        ("audit an installation", audited, [summed]),
        ("audit a medium", media_audited, [media_summed]),
    ]


def report(figures: Sequence[tuple[str, Timing, list[Timing]]]) -> None:
    """Print the table."""
    print(f"{'':24}{'':22}{'MB/s':>8}{'seconds':>9}{'peer/ours':>11}")
    for what, ours, peers in figures:
        print(f"{what:24}{ours.name:22}{ours.speed:8.0f}{ours.seconds:9.1f}")
        for peer in peers:
            ratio = peer.seconds / ours.seconds
            print(f"{'':24}{peer.name:22}{peer.speed:8.0f}{peer.seconds:9.1f}{ratio:10.2f}x")
    print("peer/ours: how many times the peer's time ours goes into; above 1 ours is the faster")


def main() -> None:
    """Measure in a scratch folder and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=3.0, help="size of the environment")
    parser.add_argument("--folder", type=Path, help="where to work (default: the temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vllm-bundle-benchmark-", dir=options.folder) as name:
        report(measure(Path(name), int(options.gigabytes * 1e9)))


if __name__ == "__main__":
    main()
