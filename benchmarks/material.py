"""What the benchmarks work on: an environment and a model of the sizes asked for."""

import hashlib
import random
import zipfile
from base64 import urlsafe_b64encode
from pathlib import Path

from bundler import tinymodel
from tests.support import small

BIG = 16 << 20  # bytes of a file like a shared library
SMALL = 12 << 10  # bytes of a file like a Python module


def workplace(folder: Path, environment: int, model: int) -> small.Workplace:
    """A connected machine's folders; sizes in bytes, of the unpacked environment and the model."""
    place = small.workplace(folder)
    _payload_wheel(place.links, environment)
    place.stack.write_text(small.STACK.replace('"stub-vllm==1.0"', '"stub-vllm==1.0", "payload"'))
    _weights(place.model / "model.safetensors", model)
    return place


def _payload_wheel(folder: Path, size: int) -> None:
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


def _weights(path: Path, size: int) -> None:
    """One shard of noise, which compresses as little as trained weights do."""
    count = size // 2
    blank = tinymodel.safetensors({"model.embed_tokens.weight": ((count,), b"")})
    header = blank.replace(b"[0,0]", b"[0,%d]" % (2 * count))
    text = header[8:].rstrip(b" ")
    text += b" " * (-len(text) % 8)
    noise = random.Random(2)
    with path.open("wb") as shard:
        shard.write(len(text).to_bytes(8, "little") + text)
        for start in range(0, 2 * count, BIG):
            shard.write(noise.randbytes(min(BIG, 2 * count - start)))
