"""A tiny, complete, valid bundle: small enough to attack at every byte."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import zstandard

from bundler import media
from manifests import archive, bundle, tree
from manifests.lock import Target
from manifests.stack import Server

CREATED = 1_760_000_000
CONDA_UNPACK = b"# stands in for the real one\n"
ENVIRONMENT = {
    "bin": None,
    "bin/conda-unpack": CONDA_UNPACK,
    "bin/python": b"#!/bin/sh\nexit 0\n",
    "lib": None,
    "lib/libexample.so.1": b"\x7fELF example",
    "lib/libexample.so": "libexample.so.1",
    "lib/empty": b"",
    "share": None,
}
RUNTIME = {"bin": None, "bin/python": b"#!/bin/sh\nexit 0\n"}
MODEL = {"config.json": b"{}", "sub/weights.safetensors": bytes(range(256)) * 5}
Content = dict[str, bytes | str | None]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entries(
    content: Content, rewrites: Mapping[str, tree.Rewrite] | None = None
) -> tuple[tree.Entry, ...]:
    """bytes → file, str → link, None → folder; programs below bin/ are executable."""
    result = []
    for path, value in content.items():
        if value is None:
            result.append(tree.Entry(path, tree.FOLDER))
        elif isinstance(value, str):
            result.append(tree.Entry(path, tree.LINK, target=value))
        else:
            program = path.startswith("bin/")
            result.append(
                tree.Entry(
                    path,
                    size=len(value),
                    sha256=sha256(value),
                    executable=program,
                    rewrite=(rewrites or {}).get(path),
                )
            )
    return tuple(result)


def archive_of(content: Content) -> bytes:
    out = bytearray()
    for entry, value in zip(entries(content), content.values(), strict=True):
        out += archive.entry_header(entry)
        if isinstance(value, bytes):
            out += value + archive.padding(len(value))
    return bytes(out + archive.trailer(len(out)))


@dataclass
class Simulator:
    """A bundle's content; `write` makes its folder. Change a field for an attack or a variant."""

    name: str = "tiny+stack+cpu"
    environment: Content | None = None
    runtime: Content | None = None
    model: dict[str, bytes] | None = None
    environment_archive: bytes | None = None  # other bytes than the listed tree's, for attacks
    rewrites: Mapping[str, tree.Rewrite] | None = None  # of the environment, by path

    def contents(self) -> dict[str, bytes]:
        environment = self.environment_archive
        if environment is None:
            environment = zstandard.compress(archive_of(self.environment or ENVIRONMENT))
        return {
            bundle.RUNTIME_MEMBER: gzip.compress(archive_of(self.runtime or RUNTIME), mtime=0),
            bundle.ENVIRONMENT_MEMBER: environment,
            bundle.LOCK_MEMBER: b"{}\n",
            **{bundle.MODEL_FOLDER + path: data for path, data in (self.model or MODEL).items()},
        }

    def manifest(self) -> bundle.Manifest:
        roles = {
            bundle.RUNTIME_MEMBER: bundle.RUNTIME,
            bundle.ENVIRONMENT_MEMBER: bundle.ENVIRONMENT,
        }
        return bundle.Manifest(
            schema=1,
            name=self.name,
            sequence=1,
            created=CREATED,
            tool="vllm-bundle test",
            target=Target(("cpu",), "2.28", "3.11"),
            stack="test",
            flavour="test",
            server=Server("server"),
            needs=bundle.Needs("2.28", (), 0),
            model=bundle.ServedModel("tiny", "folder:tiny", "0" * 40),
            thinking=True,
            lock_sha256=sha256(b"{}\n"),
            members=tuple(
                bundle.Member(
                    path,
                    roles.get(path, bundle.MODEL if path.startswith("model/") else bundle.DOCUMENT),
                    len(data),
                    sha256(data),
                )
                for path, data in self.contents().items()
            ),
            environment=entries(self.environment or ENVIRONMENT, self.rewrites),
            runtime=entries(self.runtime or RUNTIME),
        )

    def write(
        self, output: Path, manifest: bundle.Manifest | None = None, volume_size: int = 0
    ) -> tuple[Path, str]:
        """The bundle's folder below `output`, and its manifest's sha256."""
        openers = {path: media.bytes_opener(data) for path, data in self.contents().items()}
        manifest = manifest or self.manifest()
        output.mkdir(parents=True, exist_ok=True)
        folder = output / manifest.name
        digest = media.write(folder, manifest, openers, lambda count: None, volume_size)
        return folder, digest
