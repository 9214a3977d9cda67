"""A valid bundle taken apart, and what makes a changed one fit together again."""

import json
import re
import shutil
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zstandard

from manifests import archive, bundle, canonical, sums
from manifests.records import to_data
from tests.support.simulator import CREATED, Content, Simulator, archive_of, entries, sha256

WEIGHTS = "model/sub/weights.safetensors"


@dataclass
class Part:
    """One member as it is to lie in the archive."""

    path: str
    data: bytes
    header: bytes | None = None  # another one than an honest packer's
    padding: bytes | None = None

    def lay(self) -> bytes:
        header = self.header or archive.header(self.path, len(self.data), CREATED)
        padding = archive.padding(len(self.data)) if self.padding is None else self.padding
        return header + self.data + padding


def tampered(block: bytes, start: int, value: bytes) -> bytes:
    """A tar header with a field replaced and its checksum made to fit."""
    changed = block[:start] + value + block[start + len(value) :]
    blank = changed[:148] + b" " * 8 + changed[156:]
    return changed[:148] + b"%06o\0 " % sum(blank[: archive.BLOCK]) + changed[156:]


@dataclass
class Dismantled:
    """A valid bundle on a medium, taken apart so that any part of it can be replaced."""

    root: Path
    content: Simulator = field(default_factory=Simulator)
    volume_size: int = 0

    def __post_init__(self) -> None:
        manifest = self.content.manifest()
        self.folder, self.digest = self.root / "media" / manifest.name, sha256(manifest.dump())
        if not self.folder.exists():  # a copy of an earlier one is made faster
            self.content.write(self.root / "media", volume_size=self.volume_size)
        self.manifest: dict[str, Any] = json.loads(manifest.dump())
        self.parts = [Part(path, data) for path, data in self.content.contents().items()]

    # The medium's files

    @property
    def tar(self) -> Path:
        return self.folder / f"{self.folder.name}.tar"

    @property
    def script(self) -> Path:
        return self.folder / "install.sh"

    @property
    def listing(self) -> Path:
        return self.folder / sums.FILE_NAME

    def volumes(self) -> list[Path]:
        return sorted(self.folder.glob("*.tar.*"))

    def named_digest(self) -> str:
        """The manifest that install.sh names: what bundlectl is told to expect."""
        match = re.search(r"^MANIFEST_SHA256=(\w+)$", self.script.read_text(), re.MULTILINE)
        return match[1] if match else ""

    # Making things fit again

    def relist(self) -> None:
        """Write SHA256SUMS for what lies there."""
        names = [path.name for path in self.folder.iterdir() if path != self.listing]
        self.listing.write_bytes(
            sums.render({name: sha256((self.folder / name).read_bytes()) for name in names})
        )

    def repack(self, data: bytes | None = None, *, tail: bytes | None = None) -> None:
        """Write the archive from its parts, and a list that fits."""
        data = canonical.dumps(self.manifest) if data is None else data
        laid = Part(archive.MANIFEST_NAME, data).lay()
        laid += b"".join(part.lay() for part in self.parts)
        self.tar.write_bytes(laid + (archive.trailer(len(laid)) if tail is None else tail))
        self.relist()

    def reseal(self, data: bytes | None = None) -> None:
        """`repack`, with an install.sh that names the new manifest and runtime."""
        data = canonical.dumps(self.manifest) if data is None else data
        text = self.script.read_text()
        text = text.replace(self.digest, bundle.digest_of(data))
        for part in self.parts:
            if part.path == bundle.RUNTIME_MEMBER:
                for key, value in (("SHA256", sha256(part.data)), ("SIZE", len(part.data))):
                    text = re.sub(rf"(?m)^RUNTIME_{key}=.*$", f"RUNTIME_{key}={value}", text)
        self.script.write_text(text)
        self.repack(data)

    def part(self, path: str) -> Part:
        (found,) = (part for part in self.parts if part.path == path)
        return found

    def member(self, path: str) -> dict[str, Any]:
        """A member as the manifest lists it."""
        (found,) = (member for member in self.manifest["members"] if member["path"] == path)
        return dict(found)

    def entry(self, path: str) -> dict[str, Any]:
        """An entry of the environment as the manifest lists it."""
        (found,) = (entry for entry in self.manifest["environment"] if entry["path"] == path)
        return dict(found)

    def put(self, path: str, data: bytes) -> None:
        """Replace or add a member, in the manifest too."""
        role = {bundle.RUNTIME_MEMBER: "runtime", bundle.ENVIRONMENT_MEMBER: "environment"}
        listed = {
            "path": path,
            "role": role.get(path, "model" if path.startswith("model/") else "document"),
            "size": len(data),
            "sha256": sha256(data),
        }
        for known in self.manifest["members"]:
            if known["path"] == path:
                known.update(listed)
                self.part(path).data = data
                return
        self.manifest["members"].append(listed)
        self.parts.append(Part(path, data))

    def list_environment(self, content: Content, packed: bytes | None = None) -> None:
        """Another environment, in the manifest and packed (or packed in another way)."""
        self.manifest["environment"] = to_data(entries(content))
        data = archive_of(content) if packed is None else packed
        self.put(bundle.ENVIRONMENT_MEMBER, zstandard.compress(data))

    # What several attacks do

    def append(self, path: Path, data: bytes) -> None:
        with path.open("ab") as handle:
            handle.write(data)

    def listed(self) -> bytes:
        return self.listing.read_bytes()

    def link_away(self, path: Path) -> None:
        moved = self.root / f"moved {path.name}"
        shutil.move(path, moved)
        path.symlink_to(moved)

    def first_header(self, raw: tuple[int, bytes] = (0, b""), **values: Any) -> None:
        data = self.tar.read_bytes()
        info = tarfile.TarInfo.frombuf(data[: archive.BLOCK], "utf-8", "strict")
        for key, value in values.items():
            setattr(info, key, value)
        block = tampered(info.tobuf(tarfile.GNU_FORMAT, "utf-8", "strict"), *raw)
        self.tar.write_bytes(block + data[archive.BLOCK :])
        self.relist()

    def head(self, path: str = WEIGHTS, *, before: bytes = b"", **values: Any) -> None:
        """Another header for a member, with the checksum and the list that fit."""
        part = self.part(path)
        info = tarfile.TarInfo(values.pop("name", path))
        info.size, info.mtime, info.mode = len(part.data), CREATED, 0o644
        for key, value in values.items():
            setattr(info, key, value)
        part.header = before + info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        self.repack()
