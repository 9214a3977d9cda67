"""A store with real packages, and the same packages as a bundle's trees: for the three ways."""

import io
import json
import tarfile
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import zstandard

from bundler.workshop import Workshop
from manifests.lock import COMPUTED, PUBLISHED, CondaPackage, Derived, Lock, Model, ModelFile, Wheel
from tests.support.bills import digest
from tests.support.index import wheel as wheel_file
from tests.support.locked import Locked, a_lock
from tests.support.simulator import Content, sha256

PURE = "lib/python3.11/site-packages"
CARD = b"---\nlicense: apache-2.0\nbase_model:\n- Qwen/Qwen3.5-9B\n---\n# Tiny\n"
MODEL = {"README.md": CARD, "LICENSE": b"Apache License\n", "config.json": b"{}"}


def conda_file(
    name: str, texts: dict[str, bytes], payload: dict[str, bytes], *, old: bool = False
) -> tuple[str, bytes]:
    """File name and bytes of a conda package, of the newer format or of the old one."""
    index = {"name": name, "version": "1", "license": "Zlib", "depends": ["python >=3.11"]}
    info = {"info/index.json": json.dumps(index).encode()}
    info |= {f"info/licenses/{path}": data for path, data in texts.items()}
    out = io.BytesIO()
    if old:
        with tarfile.open(fileobj=out, mode="w:bz2") as tar:
            _fill(tar, {**info, **payload})
        return f"{name}-1-h0_0.tar.bz2", out.getvalue()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("metadata.json", '{"conda_pkg_format_version": 2}')
        for part, files in (("pkg", payload), ("info", info)):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as tar:
                _fill(tar, files)
            packed = zstandard.compress(inner.getvalue())
            archive.writestr(f"{part}-{name}-1-h0_0.tar.zst", packed)
    return f"{name}-1-h0_0.conda", out.getvalue()


def _fill(tar: tarfile.TarFile, files: dict[str, bytes]) -> None:
    for path, data in files.items():
        info = tarfile.TarInfo(path)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))


@dataclass
class Gathered:
    """Packages in a store, and as they lie once unpacked."""

    root: Path
    environment: Content = field(default_factory=dict)
    runtime: Content = field(default_factory=dict)
    wheels: list[Wheel] = field(default_factory=list)
    runtime_wheels: list[Wheel] = field(default_factory=list)
    conda: list[CondaPackage] = field(default_factory=list)

    @property
    def workshop(self) -> Workshop:
        return Workshop(self.root / "cache")

    def _store(self, data: bytes) -> str:
        return self.workshop.store.adopt(io.BytesIO(data))

    def wheel(self, name: str, *, runtime: bool = False, **words: object) -> Wheel:
        """Put a wheel into the store and into a tree."""
        filename, data = wheel_file(name, "1.0", **words)  # type: ignore[arg-type]  # its keywords
        return self.add(name, "1.0", filename, data, runtime=runtime)

    def add(
        self, name: str, version: str, filename: str, data: bytes, *, runtime: bool = False
    ) -> Wheel:
        url = f"https://files.example/{filename}"
        made = Wheel(name, version, filename, url, self._store(data), size=len(data))
        tree = self.runtime if runtime else self.environment
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for path in archive.namelist():
                tree[f"{PURE}/{path}"] = archive.read(path)
        (self.runtime_wheels if runtime else self.wheels).append(made)
        return made

    def package(
        self, name: str, texts: dict[str, bytes], payload: dict[str, bytes], *, old: bool = False
    ) -> CondaPackage:
        """Put a conda package into the store and, without its info/, into the environment."""
        filename, data = conda_file(name, texts, payload, old=old)
        url = f"https://channel.example/forge/linux-64/{filename}"
        made = CondaPackage(name, "1", "h0_0", "linux-64", url, self._store(data), len(data))
        record = {"license": "Zlib", "depends": ["python >=3.11"], "files": sorted(payload)}
        stem = filename.removesuffix(".conda").removesuffix(".tar.bz2")
        self.environment |= payload
        self.environment[f"conda-meta/{stem}.json"] = json.dumps(record).encode()
        self.conda.append(made)
        return made

    def lock(self, **changes: object) -> Lock:
        files = tuple(ModelFile(p, len(d), sha256(d), "", COMPUTED) for p, d in MODEL.items())
        model = Model("tiny", "folder:tiny", "0" * 40, files, licence="apache-2.0")
        plain = a_lock(
            conda=tuple(self.conda),
            runtime_conda=(),
            wheels=tuple(self.wheels),
            runtime_wheels=tuple(self.runtime_wheels),
            model=model,
        )
        return replace(plain, **changes)  # type: ignore[arg-type]  # of a lock

    def bundle(self, locked: Lock, papers: dict[str, bytes]) -> "Carrying":
        return Carrying(
            lock=locked,
            environment=_ordered(self.environment),
            runtime=_ordered(self.runtime),
            model=dict(MODEL),
            papers=papers,
        )

    def model(self) -> Path:
        """The model's folder."""
        folder = self.root / "tiny"
        folder.mkdir(exist_ok=True)
        for path, data in MODEL.items():
            (folder / path).write_bytes(data)
        return folder


def _ordered(content: Content) -> Content:
    """With folders, each before what is in it."""
    folders = {
        "/".join(path.split("/")[:depth]): None
        for path in content
        for depth in range(1, path.count("/") + 1)
    }
    return {path: {**folders, **content}[path] for path in sorted({*folders, *content})}


@dataclass
class Carrying(Locked):
    """A bundle with papers."""

    papers: dict[str, bytes] = field(default_factory=dict)

    def contents(self) -> dict[str, bytes]:
        return {**super().contents(), **self.papers}


def repaired(wheel: Wheel) -> Wheel:
    """The same wheel, as if it had been repaired."""
    url = "https://files.example/origin-0.9-py3-none-any.whl"
    derived = Derived("origin-0.9-py3-none-any.whl", url, digest("origin"), PUBLISHED, ("why",))
    return replace(wheel, url=f"derived:{wheel.filename}", digest_from=COMPUTED, derived=derived)
