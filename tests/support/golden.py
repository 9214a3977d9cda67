"""The golden bundles of format version 1: tiny, complete, and never to change.

    python -m tests.support.golden tests/data/golden/format-1

wrote them with the first release that had the format. Their archives are a function of this file,
and are compared with what today's code makes of it; their install.sh is that release's, and stays.
A newer format gets a folder of its own, and every release reads all of them.
"""

import struct
import sys
import zlib
from pathlib import Path

from manifests import bundle, tree
from tests.support.simulator import Content, Simulator, archive_of

FOLDER = Path(__file__).resolve().parents[1] / "data/golden/format-1"
WHOLE, SPLIT = "golden+whole+cpu", "golden+volumes+cpu"
#: Bytes of a volume.
VOLUME = 16_000
#: conda's are 255 bytes long too.
PLACEHOLDER = "/placeholder".ljust(255, "_")
#: Stands in for Python: `python -E -s -B conda-unpack` runs a shell script instead.
PYTHON = b'#!/bin/sh\nshift 3\nexec /bin/sh "$@"\n'
#: Puts the prefix into a text, as conda-unpack does.
UNPACK = f"""#!/bin/sh
env=$(cd "${{0%/*}}/.." && pwd)
text=$(sed "s|{PLACEHOLDER}|$env|g" "$env/etc/text")
printf '%s\\n' "$text" >"$env/etc/text"
""".encode()
DEEP = "lib/deep/" + "d" * 120
ENVIRONMENT: Content = {
    "bin": None,
    "bin/conda-unpack": UNPACK,
    "bin/python": PYTHON,
    "bin/python3": "python",
    "etc": None,
    "etc/text": f"prefix = {PLACEHOLDER}\n".encode(),
    "lib": None,
    "lib/a name with blanks (1)": b"",
    "lib/binary": b"\x7fELF\0" + f"{PLACEHOLDER}/lib".encode() + b"\0end",
    "lib/deep": None,
    DEEP: None,
    f"{DEEP}/up": "../../../bin/python3",
    "lib/link to a folder": "deep",
    "share": None,
}
REWRITES = {
    "etc/text": tree.Rewrite(PLACEHOLDER, "text"),
    "lib/binary": tree.Rewrite(PLACEHOLDER, "binary"),
}
RUNTIME: Content = {
    "bin": None,
    "bin/python": b"#!/bin/sh\nexit 0\n",
    "lib": None,
    "lib/empty": b"",
}
MODEL = {
    "config.json": b'{"architectures":["Qwen3_5ForCausalLM"]}',
    "empty": b"",
    f"sub/{'w' * 100}.safetensors": bytes(range(256)) * 40,
}


class Golden(Simulator):
    """Its bytes depend on nothing that differs between machines."""

    def __init__(self, name: str = WHOLE) -> None:
        super().__init__(name, ENVIRONMENT, RUNTIME, MODEL, rewrites=REWRITES)

    def contents(self) -> dict[str, bytes]:
        return {**super().contents(), bundle.RUNTIME_MEMBER: stored_gzip(archive_of(RUNTIME))}


def stored_gzip(data: bytes) -> bytes:
    """RFC 1952 around stored blocks of RFC 1951: zlib and its kin compress differently."""
    out = b"\x1f\x8b\x08\0\0\0\0\0\0\xff"
    for start in range(0, len(data), 65_535):
        piece = data[start : start + 65_535]
        last = start + len(piece) == len(data)
        out += struct.pack("<BHH", last, len(piece), len(piece) ^ 0xFFFF) + piece
    return out + struct.pack("<II", zlib.crc32(data), len(data))


def write(output: Path) -> dict[str, str]:
    """Write both bundles; gives their manifests' sha256 by name."""
    return {
        name: Golden(name).write(output, volume_size=size)[1]
        for name, size in ((WHOLE, 0), (SPLIT, VOLUME))
    }


if __name__ == "__main__":
    for name, digest in write(Path(sys.argv[1])).items():
        print(digest, name)
