"""Small inputs that ask for hours, or for all the memory there is: `python -m tests.fuzz.hostile`.

Each is what a target answered too slowly once, or could have. All of them together have to be done
within seconds, and in the memory that the test allows.
"""

import json
import struct
import time

from manifests import archive, bundle, canonical
from tests.fuzz.targets import TARGETS
from tests.support import elves, gpucode
from tests.support.simulator import Simulator

_MB = 1 << 20


def _manifest(**environment: object) -> bytes:
    value = json.loads(Simulator().manifest().dump())
    value["environment"].append({"sha256": "0" * 64, **environment})
    return canonical.dumps(value)


def _weights(header: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header


def _tensor(shape: str) -> bytes:
    return _weights(b'{"x":{"dtype":"U8","shape":[%s],"data_offsets":[0,1]}}' % shape.encode())


def _twins(count: int) -> bytes:
    """Ever so many tensors, and the last one is there twice."""
    names = [*map(str, range(count)), "x", "x"]
    items = ",".join(f'"{name}":{{"dtype":"U8","shape":[],"data_offsets":[0,0]}}' for name in names)
    return _weights(b"{" + items.encode() + b"}")


def _first_header(size: bytes) -> bytes:
    block = archive.header(archive.MANIFEST_NAME, 1, 0)
    changed = block[:124] + size.ljust(12, b"\0")[:12] + block[136:148] + b" " * 8 + block[156:]
    return changed[:148] + b"%06o\0 " % sum(changed) + changed[156:]


def _containers(count: int) -> bytes:
    """In each image the next container begins, and all of them are cut off at the very end."""
    image = struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, 64, 16, 0, 0, 8, 8, 86, 0, 0, 0x11, 0, 4096)
    step = 16 + len(image)
    laid = b"".join(
        struct.pack("<IHHQ", 0xBA55ED50, 1, 16, (count - place) * step - 6) + image
        for place in range(count)
    )
    return gpucode.elf({".rodata": laid + bytes(10)})


def _sections(count: int, size: int) -> bytes:
    """Every section is the whole file."""
    entry = struct.pack("<IIQQQQIIQQ", 0, 1, 2, 0, 64, size, 0, 0, 8, 0)
    ident = b"\x7fELF\x02\x01\x01\x33" + bytes(8)
    fields = (3, 62, 1, 0, 0, 64 + size, 0, 64, 0, 0, 64, count, 0)
    return ident + struct.pack("<HHIQQQIHHHHHH", *fields) + bytes(size) + entry * count


def _cubins(count: int) -> bytes:
    """Headers that all have the same long section table."""
    ident = b"\x7fELF\x02\x01\x01\x33" + bytes(8)
    table = struct.pack("<IIQQQQIIQQ", 0, 8, 0, 0, 0, 0, 0, 0, 0, 0) * count
    heads = b"".join(
        ident
        + struct.pack(
            "<HHIQQQIHHHHHH", 1, 190, 1, 0, 0, (count - i) * 64, 86, 64, 0, 0, 64, count, 0
        )
        for i in range(count)
    )
    return gpucode.elf({".rodata": heads + table})


def _segments(count: int, size: int, kind: int) -> bytes:
    """Every segment is the whole file."""
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    fields = (3, 62, 1, 0, 64, 0, 0, 64, 56, count, 64, 0, 0)
    entry = struct.pack("<IIQQQQQQ", kind, 4, 0, 0, 0, 64 + size, 0, 1)
    head = ident + struct.pack("<HHIQQQIHHHHHH", *fields)
    return head + entry * count + bytes(size)


def _names(count: int, length: int) -> bytes:
    """A table of names of which every entry is nearly all of the string table."""
    data = bytearray(elves.library(["x" * length], soname="y"))
    data += b"".join(struct.pack("<QQ", 1, place % length) for place in range(count))
    # The dynamic section is the last part; the second program header says how long it is.
    (offset,) = struct.unpack_from("<Q", data, 64 + 56 + 8)
    table = bytes(data[offset:])
    null = table.index(bytes(16))
    while null % 16:
        null = table.index(bytes(16), null + 1)
    data[offset:] = table[:null] + table[null + 16 :] + bytes(16)
    struct.pack_into("<QQ", data, 64 + 56 + 32, len(data) - offset, len(data) - offset)
    return bytes(data)


HOSTILE = {
    "a manifest of brackets": ("manifest", b"[" * _MB),
    "a path of a megabyte": ("manifest", _manifest(path="a/" * 500_000 + "a")),
    "a link of a megabyte": (
        "manifest",
        _manifest(path="x", kind="link", target="a/../" * 200_000),
    ),
    "a size of 4000 digits": ("manifest", _manifest(path="x", size=10**4000)),
    "a manifest of an exabyte": ("outer", _first_header(b"\x80\0\0\0" + b"\x10" + bytes(7))),
    "a manifest of less than nothing": ("outer", _first_header(b"\xff" * 12)),
    "a shape of a million numbers": (
        "weights",
        _tensor("9999999,8888888" * 1 + ",7777777" * 10**6),
    ),
    "a shape of long numbers": ("weights", _tensor(",".join(["9" * 4000] * 500))),
    "tensors with one twin": ("weights", _twins(50_000)),
    "weights of brackets": ("weights", _weights(b"{" + b'"a":[' * _MB)),
    "containers in containers": ("gpu_code", _containers(20_000)),
    "sections over sections": ("gpu_code", _sections(60_000, 8 * _MB)),
    "cubins in cubins": ("gpu_code", _cubins(20_000)),
    "notes over notes": ("shared_object", _segments(65_000, 4 * _MB, 4)),
    "dynamic over dynamic": ("shared_object", _segments(65_000, 4 * _MB, 2)),
    "names in names": ("shared_object", _names(100_000, 400_000)),
    "a binary file without zeros": ("rewritten", b"\x7fELF" + b"/srv/llm" * 100_000),
    "settings of brackets": ("settings", b"port = " + b"[" * 100_000),
    "a port without end": ("settings", b"port = 0x" + b"f" * 100_000),
    "a report of brackets": ("report", b'{"a":' * 10_000),
    "a list of one long line": ("listing", b"0" * 8 * _MB + b"\n"),
    "layers without end": (
        "model_config",
        json.dumps(
            {
                "architectures": ["Qwen3_5ForCausalLM"],
                "num_hidden_layers": 10**9,
                "full_attention_interval": 1,
                "linear_num_value_heads": 10**300,
                "hidden_size": 10**300,
                "num_attention_heads": 1,
            }
        ).encode(),
    ),
}


def main() -> None:
    for name, (target, data) in HOSTILE.items():
        started = time.monotonic()
        TARGETS[target](data)
        print(f"{time.monotonic() - started:6.2f} s  {len(data):9,} bytes  {target}: {name}")


if __name__ == "__main__":
    assert bundle.parse(Simulator().manifest().dump())
    main()
