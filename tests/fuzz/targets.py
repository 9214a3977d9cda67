"""One function for each parser: bytes in; the parser's result, or a BundleError, and nothing else.

An exception of another kind is a crash: a person would see a traceback.
"""

import io
import json
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bundlectl import checks, config, preflight
from bundlectl.host import FileSystem, Host
from bundlectl.host.filesystems import Storage
from bundlectl.journal import Journal
from bundler.plan import papers
from manifests import (
    archive,
    bundle,
    canonical,
    hostreport,
    linecheck,
    lock,
    placement,
    prefix,
    safetensors,
    sums,
    tree,
    volumes,
)
from manifests.errors import BundleError
from manifests.fit.shape import Shape
from manifests.gpu import products
from manifests.reader import BundleReader
from manifests.records import from_data
from manifests.stack import Stack
from wheelhouse import record
from wheelhouse.elf import reader as elf
from wheelhouse.elf.image import DAMAGE
from wheelhouse.elf.symbols import symbols
from wheelhouse.kernels import binary
from wheelhouse.kernels.malformed import Malformed
from wheelhouse.members import members

Target = Callable[[bytes], Any]
TARGETS: dict[str, Target] = {}
_DISK = FileSystem("/", "disk", "ext4", 4096, 1 << 40, 1 << 20)
_HOST = Host(Storage("/srv", "/", _DISK))
_FOLDER = tempfile.TemporaryDirectory()


def target(function: Target) -> Target:
    """Put a function into the table; it may raise BundleError."""

    def run(data: bytes) -> None:
        with suppress(BundleError):
            function(data)

    TARGETS[function.__name__] = run
    return run


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _file(data: bytes) -> Path:
    path = Path(_FOLDER.name) / "input"
    path.write_bytes(data)
    return path


@target
def manifest(data: bytes) -> None:
    """bundle.json, and what is worked out from one that is accepted."""
    found = bundle.parse(data)
    assert found.dump() == data
    length = found.archive_length(len(data))
    assert length % archive.RECORD == 0
    for member in found.members:
        archive.header(member.path, member.size, found.created)
    for entry in (*found.environment, *found.runtime, *bundle.model_entries(found)):
        archive.entry_header(entry)
    needs = checks.Needs(
        machine=found.target.arch,
        glibc=found.needs.glibc,
        cpu_flags=found.needs.cpu_flags,
        memory=found.needs.memory,
        gpus=found.target.gpus,
        driver=found.needs.driver,
        created=found.created,
    )
    preflight.examine(needs, _HOST)


@target
def outer(data: bytes) -> None:
    """A whole archive."""
    reader = BundleReader(io.BytesIO(data))
    for member in reader.manifest.members:
        with reader.member(member):
            pass
    reader.finish()


@target
def listing(data: bytes) -> None:
    """SHA256SUMS."""
    assert sums.parse(sums.render(sums.parse(data)))


@target
def label(data: bytes) -> None:
    """A volume's first block."""
    volumes.parse_label(data[: archive.BLOCK], "x.tar.000")


@target
def volume_size(data: bytes) -> None:
    """--volume-size."""
    volumes.parse_size(_text(data))


@target
def locked(data: bytes) -> None:
    """bundle.lock."""
    found = lock.parse(data, "lock")
    assert found.dump() == data


@target
def receipt(data: bytes) -> None:
    """A receipt."""
    placement.load_receipt(_file(data))


@target
def journal(data: bytes) -> None:
    """A journal: half-written ones are read, never refused."""
    path = _file(data)
    found = Journal(path)
    found.add("member")
    assert "member" in Journal(path)
    found.remove()


@target
def canonical_json(data: bytes) -> None:
    """Canonical JSON."""
    with suppress(ValueError):
        assert canonical.dumps(canonical.loads(data)) == data


@target
def settings(data: bytes) -> None:
    """serve.toml."""
    with suppress(UnicodeDecodeError):
        found = config.parse(data.decode(), "serve.toml")
        assert config.parse(config.render_default(found), "again") == found


@target
def report(data: bytes) -> None:
    """A host's report."""
    hostreport.load(data, "report")


@target
def check_line(data: bytes) -> None:
    """Check digits."""
    first, _, rest = _text(data).partition("\n")
    with suppress(ValueError):
        linecheck.misread(rest.splitlines(), first)


@target
def weights(data: bytes) -> None:
    """A safetensors file."""
    safetensors.read_header(io.BytesIO(data), len(data), "weights")


@target
def model_config(data: bytes) -> None:
    """What a config.json says about memory."""
    with suppress(ValueError, RecursionError):
        value = json.loads(data)
        if isinstance(value, dict):
            Shape.from_config(value)


@target
def gpus(data: bytes) -> None:
    """--gpu."""
    products(_text(data))


@target
def stack(data: bytes) -> None:
    """A stack of one's own."""
    with suppress(ValueError, RecursionError):
        value = tomllib.loads(data.decode())
        from_data(Stack, value)


@target
def shared_object(data: bytes) -> None:
    """An ELF file: what it needs, and its symbols."""
    elf.parse(data, "x.so")
    with suppress(*DAMAGE):
        for _ in symbols(data):
            pass


@target
def gpu_code(data: bytes) -> None:
    """A library's fat binaries, an archive of objects, a cubin."""
    with suppress(Malformed):
        binary.read(data)


@target
def wheel(data: bytes) -> None:
    """A wheel's papers, and its files against its RECORD."""
    path = _file(data)
    papers.inside(path)
    with suppress(BundleError):
        for member in members(path):
            with member.content() as view:
                elf.parse(view, member.path)
    with suppress(*record.UNSOUND), zipfile.ZipFile(path) as archive:
        record.check(archive, "x-1-py3-none-any.whl")


@target
def rewritten(data: bytes) -> None:
    """A file that conda-unpack changed."""
    for mode in (tree.TEXT, tree.BINARY):
        rewrite = tree.Rewrite("/placeholder/of/conda", mode)
        prefix.restore(data, rewrite, "/srv/llm")
