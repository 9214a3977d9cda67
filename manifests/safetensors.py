"""Headers of safetensors files, read strictly, and what lies there instead of a weights file.

Format: https://github.com/huggingface/safetensors#format - the header's length as a little-endian
64-bit number, the header as JSON, the data. Offsets count from the end of the header; tensors
cover the data without gap or overlap.
"""

import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from manifests.errors import IntegrityError

#: safetensors/src/tensor.rs: MAX_HEADER_SIZE.
MAX_HEADER = 100_000_000
#: Bits of one value; safetensors/src/tensor.rs: Dtype::bitsize of release 0.8.
BITS = {
    "F4": 4,
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
#: Bytes from a file's start that are enough to tell what it is.
SNIFFED = 1024


@dataclass(frozen=True)
class Tensor:
    """One tensor as its header declares it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int  # bytes from the start of the data
    end: int

    def parameters(self) -> int:
        """Number of values."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Impostor:
    """Something that is found in place of a file, and how to get the file."""

    kind: str
    pattern: re.Pattern[bytes]
    what: str
    mend: str


#: In this order; the first that matches the file's start is taken.
IMPOSTORS = (
    Impostor("empty", re.compile(rb"\Z"), "is empty", "copy or download the file again"),
    Impostor(
        "lfs-pointer",
        re.compile(rb"version https://git-lfs\.github\.com/spec/"),
        "is a git-LFS pointer, not the file",
        "the repository was cloned without LFS: run `git lfs pull`, or name the model by its Hub name",
    ),
    Impostor(
        "link-as-text",
        re.compile(rb"(\.\./)+[\w./-]+\n?\Z"),
        "is the text of a link, not the file",
        "a medium turned links into text: copy again with `cp -rL`",
    ),
    Impostor(
        "html-instead",
        re.compile(rb"\s*<(!doctype html|html|head|\?xml|!--)", re.IGNORECASE),
        "is a web page (a login or error page?), not the file",
        "a proxy or a gate answered instead of the source: open its URL in a browser, "
        "then download again",
    ),
    Impostor(
        "json-error",
        re.compile(rb'\s*\{\s*"(error|message|detail)"\s*:'),
        "is an error message of a server, not the file",
        "read the message in the file, then download again",
    ),
    Impostor(
        "gzip",
        re.compile(rb"\x1f\x8b\x08"),
        "is compressed with gzip",
        "a proxy compressed it on the way: unpack it with `gzip -d`, or download again",
    ),
    Impostor(
        "zeros",
        re.compile(rb"\0{16,}\Z"),
        "begins with zeros only",
        "the space was reserved but never written: copy or download the file again",
    ),
)


def sniff(start: bytes) -> Impostor | None:
    """What a file that begins with `start` (SNIFFED bytes, fewer where it ends) is instead."""
    return next((found for found in IMPOSTORS if found.pattern.match(start)), None)


def read_header(handle: BinaryIO, size: int, name: str) -> tuple[Tensor, ...]:
    """The tensors of a weights file of `size` bytes, in the order of their data.

    Raises IntegrityError with the kind of damage: everything that `sniff` knows, truncated-header,
    truncated-data, trailing-bytes, bad-header.
    """
    start = handle.read(SNIFFED)
    if impostor := sniff(start):
        raise damage(name, impostor.kind, impostor.what, impostor.mend)
    if len(start) < 8:
        raise damage(name, "truncated-header", f"ends after {size} bytes, within the header")
    length = int.from_bytes(start[:8], "little")
    if length > MAX_HEADER or start[8:9] not in (b"{", b""):
        raise damage(name, "bad-header", "is no safetensors file: it does not start with a header")
    if 8 + length > size:
        raise damage(
            name, "truncated-header", f"ends after {size} bytes, within the {8 + length} of its header"
        )
    text = start[8 : 8 + length]
    text += handle.read(length - len(text))
    tensors = _tensors(text, name)
    _check_layout(tensors, name)
    _check_size(8 + length + (tensors[-1].end if tensors else 0), size, name)
    return tensors


def damage(name: str, kind: str, what: str, mend: str = "") -> IntegrityError:
    """An error that names the file and the kind of damage."""
    return IntegrityError(
        f"{name}: {what} ({kind})", mend=mend or "copy or download the file again"
    )


def _check_size(expected: int, size: int, name: str) -> None:
    if size < expected:
        what = f"has {size} bytes of {expected}: {expected - size} are missing at the end"
        raise damage(name, "truncated-data", what)
    if size > expected:
        what = f"has {size - expected} bytes after its end at {expected}"
        raise damage(name, "trailing-bytes", what)


def _tensors(text: bytes, name: str) -> tuple[Tensor, ...]:
    def bad(why: str) -> IntegrityError:
        return damage(name, "bad-header", f"has a header that can't be: {why}")

    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise bad(str(error)) from None
    if not isinstance(header, dict):
        raise bad("it is no table")
    header.pop("__metadata__", None)
    tensors = [_tensor(key, value, bad) for key, value in header.items()]
    return tuple(sorted(tensors, key=lambda tensor: (tensor.begin, tensor.end)))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        names = [key for key, _ in pairs]
        twice = next(key for key in names if names.count(key) > 1)
        raise ValueError(f"{twice!r} is listed twice")
    return value


def _tensor(name: str, value: Any, bad: Callable[[str], IntegrityError]) -> Tensor:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise bad(f"{name!r} needs dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if dtype not in BITS:
        raise bad(f"{name!r} has the unknown type {dtype!r}")
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise bad(f"{name!r} has the shape {shape!r} and the offsets {offsets!r}")
    tensor = Tensor(name, dtype, tuple(shape), *offsets)
    if 8 * (tensor.end - tensor.begin) != tensor.parameters() * BITS[dtype]:
        raise bad(f"{name!r} of shape {shape} does not fill its {tensor.end - tensor.begin} bytes")
    return tensor


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and item >= 0 for item in value)


def _check_layout(tensors: tuple[Tensor, ...], name: str) -> None:
    end = 0
    for tensor in tensors:
        if tensor.begin != end:
            problem = "overlaps" if tensor.begin < end else "leaves a gap after"
            what = f"has a tensor {tensor.name!r} that {problem} the one before it"
            raise damage(name, "bad-header", what)
        end = tensor.end
