"""Headers of safetensors files, read strictly: a flipped or missing part of one is named.

Format: https://github.com/huggingface/safetensors#format - the header's length as a little-endian
64-bit number, the header as JSON, the data. Offsets count from the end of the header; tensors
cover the data without gap or overlap.
"""

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO

from manifests.errors import IntegrityError
from manifests.impostors import SNIFFED, sniff

#: safetensors/src/tensor.rs: MAX_HEADER_SIZE.
MAX_HEADER = 100_000_000
#: No framework has tensors of more (numpy: 64), and a product of a million numbers takes hours.
_MOST_DIMENSIONS = 64
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
        what = f"ends after {size} bytes, within the {8 + length} of its header"
        raise damage(name, "truncated-header", what)
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
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"{twice!r:.80} is listed twice")
    return value


def _tensor(name: str, value: Any, bad: Callable[[str], IntegrityError]) -> Tensor:
    if not isinstance(value, dict) or value.keys() != {"dtype", "shape", "data_offsets"}:
        raise bad(f"{name!r:.80} needs dtype, shape and data_offsets")
    dtype, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise bad(f"{name!r:.80} has the unknown type {dtype!r:.80}")
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise bad(f"{name!r:.80} has the shape {shape!r:.80} and the offsets {offsets!r:.80}")
    if len(shape) > _MOST_DIMENSIONS:
        raise bad(f"{name!r:.80} has {len(shape)} dimensions")
    tensor = Tensor(name, dtype, tuple(shape), *offsets)
    if 8 * (tensor.end - tensor.begin) != tensor.parameters() * BITS[dtype]:
        raise bad(
            f"{name!r:.80} of shape {shape!r:.80} does not fill "
            f"its {tensor.end - tensor.begin} bytes"
        )
    return tensor


def _naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 63 for n in value)


def _check_layout(tensors: tuple[Tensor, ...], name: str) -> None:
    end = 0
    for tensor in tensors:
        if tensor.begin != end:
            problem = "overlaps" if tensor.begin < end else "leaves a gap after"
            what = f"has a tensor {tensor.name!r} that {problem} the one before it"
            raise damage(name, "bad-header", what)
        end = tensor.end
