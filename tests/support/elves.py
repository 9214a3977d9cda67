"""Small shared libraries, made byte by byte: the real loader takes them, or says what it misses."""

import struct
from collections.abc import Mapping, Sequence

_HEADERS = 64 + 4 * 56  # the file header and four program headers


def library(
    needed: Sequence[str] = (),
    *,
    soname: str = "",
    runpath: str = "",
    rpath: str = "",
    wants: Mapping[str, Sequence[str]] | None = None,  # library → symbol versions
    weak: Sequence[str] = (),  # those of them that may be absent
    defines: Sequence[str] = (),
    interpreter: str = "",
    build_id: bytes = b"",
    imports: Sequence[str] = (),
    exports: Sequence[str] = (),
    machine: int = 62,
) -> bytes:
    """An x86-64 library with these entries; a program, where an interpreter is named."""
    strings = _Strings()
    tags = [(1, strings.add(name)) for name in needed]
    tags += [(tag, strings.add(text)) for tag, text in ((14, soname), (15, rpath)) if text]
    tags += [(29, strings.add(runpath))] if runpath else []
    needs = _needs(wants or {}, weak, strings)
    offers = _definitions([soname, *defines], strings) if defines else b""
    note = struct.pack("<III4s", 4, len(build_id), 3, b"GNU") + build_id if build_id else b""
    program = interpreter.encode() + b"\0" if interpreter else b""
    symbols = _symbols(imports, exports, strings)
    count = len(symbols) // 24
    parts = {"symbols": symbols, "strings": strings.data, "needs": needs, "offers": offers}
    # A hash table of one empty bucket, so that nothing is found; all symbols are unversioned.
    parts |= {"hash": struct.pack("<III", 1, count, 0) + bytes(4 * count)}
    parts |= {"symbol versions": struct.pack(f"<{count}H", 0, *[1] * (count - 1))}
    parts |= {"note": note, "interpreter": program}
    at, places = _HEADERS, {}
    for name, data in parts.items():
        places[name], at = at, at + len(data) + -len(data) % 8
    tags += [(5, places["strings"]), (10, len(strings.data)), (6, places["symbols"]), (11, 24)]
    tags += [(4, places["hash"]), (0x6FFFFFF0, places["symbol versions"])]
    tags += [(0x6FFFFFFE, places["needs"]), (0x6FFFFFFF, len(wants or {}))] if needs else []
    offered = len(defines) + 1
    tags += [(0x6FFFFFFC, places["offers"]), (0x6FFFFFFD, offered)] if offers else []
    dynamic = b"".join(struct.pack("<QQ", *tag) for tag in [*tags, (0, 0)])
    size = at + len(dynamic)
    segments = [
        _segment(1, 0, size),
        _segment(2, at, len(dynamic)),
        _segment(4, places["note"], len(note)),
        # An empty PT_INTERP would make it a program.
        _segment(3 if program else 0x6474E551, places["interpreter"], len(program)),
    ]
    ident = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)
    body = b"".join(data + bytes(-len(data) % 8) for data in parts.values())
    return header + b"".join(segments) + body + dynamic


class _Strings:
    def __init__(self) -> None:
        self.data = b"\0"

    def add(self, text: str) -> int:
        at = len(self.data)
        self.data += text.encode() + b"\0"
        return at


def _symbols(imports: Sequence[str], exports: Sequence[str], strings: _Strings) -> bytes:
    data = bytes(24)
    for section, names in ((0, imports), (1, exports)):
        for name in names:  # global functions
            data += struct.pack("<IBBHQQ", strings.add(name), 0x12, 0, section, 0, 0)
    return data


def _segment(kind: int, offset: int, size: int) -> bytes:
    # Readable and writable: the loader relocates .dynamic in place.
    return struct.pack("<IIQQQQQQ", kind, 6, offset, offset, offset, size, size, 8)


def _needs(wants: Mapping[str, Sequence[str]], weak: Sequence[str], strings: _Strings) -> bytes:
    data = b""
    for index, (name, versions) in enumerate(wants.items()):
        length = 16 * (1 + len(versions))
        following = length if index + 1 < len(wants) else 0
        data += struct.pack("<HHIII", 1, len(versions), strings.add(name), 16, following)
        for number, version in enumerate(versions, 1):
            flags, left = 2 if version in weak else 0, 16 if number < len(versions) else 0
            data += struct.pack("<IHHII", _hash(version), flags, 2, strings.add(version), left)
    return data


def _definitions(names: Sequence[str], strings: _Strings) -> bytes:
    data = b""
    for index, name in enumerate(names, 1):
        following = 28 if index < len(names) else 0
        data += struct.pack(
            "<HHHHIII", 1, index == 1, index, 1, _hash(name), 20, following
        ) + struct.pack("<II", strings.add(name), 0)
    return data


def _hash(name: str) -> int:
    """The System V gABI's hash of a symbol's name."""
    value = 0
    for byte in name.encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high
    return value & 0xFFFFFFFF
