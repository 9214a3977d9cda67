"""What mutations start from: sound inputs for each target, and bytes that mean something to it."""

import json
import struct
import tarfile

from bundlectl import config
from manifests import archive, bundle, canonical, hostreport, linecheck, placement, sums, volumes
from manifests.hostlines import HostGpu
from tests.support import elves, gpucode
from tests.support.index import wheel
from tests.support.locked import a_lock
from tests.support.simulator import CREATED, Simulator, sha256

_SIMULATOR = Simulator()
_MANIFEST = _SIMULATOR.manifest().dump()
_DIGEST = bundle.digest_of(_MANIFEST)
_LINES = ["arch: x86_64", "gpu: none"]
_CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "dtype": "bfloat16",
    "num_hidden_layers": 8,
    "full_attention_interval": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "intermediate_size": 128,
    "max_position_embeddings": 4096,
    "linear_num_value_heads": 4,
    "linear_num_key_heads": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 4,
}


def _archive() -> bytes:
    out = bytearray()
    for path, data in {archive.MANIFEST_NAME: _MANIFEST, **_SIMULATOR.contents()}.items():
        out += archive.header(path, len(data), CREATED) + data + archive.padding(len(data))
    return bytes(out + archive.trailer(len(out)))


def _weights() -> bytes:
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
            "b": {"dtype": "F32", "shape": [], "data_offsets": [12, 16]},
        }
    ).encode()
    return struct.pack("<Q", len(header)) + header + bytes(16)


def _receipt() -> bytes:
    return placement.Receipt(1, "x-1", _DIGEST, "/srv", CREATED, "test", ("port",)).dump()


def _report() -> bytes:
    gpu = HostGpu("NVIDIA A10", "8.6", 24 << 30)
    return hostreport.dump(hostreport.HostReport("x86_64", "glibc", "2.35", gpus=(gpu,))).encode()


_LIBRARY = elves.library(
    ["libc.so.6"],
    soname="x.so",
    runpath="$ORIGIN",
    wants={"libc.so.6": ["GLIBC_2.17"]},
    defines=["X_1"],
    build_id=bytes(20),
    imports=["f"],
    exports=["g"],
)
_BINARY = b"\x7fELF" + b"/srv/llm/lib\0" + bytes(13) + b"end"

SEEDS: dict[str, tuple[bytes, ...]] = {
    "manifest": (_MANIFEST,),
    "outer": (_archive(),),
    "listing": (sums.render({"install.sh": sha256(b""), "x.tar": sha256(b"x")}),),
    "label": (volumes.Label("x.tar", 0, 2, _DIGEST).block(CREATED),),
    "volume_size": (b"4000M", b"fat32", b"4GiB"),
    "locked": (a_lock().dump(),),
    "receipt": (_receipt(),),
    "journal": (b"runtime.tar.gz\nenv.tar.zst\nmodel/we",),
    "canonical_json": (b'{"a":[1,true,null,"x"],"b":{}}\n',),
    "settings": (config.render_default().encode(), b'port = 1\nextra_arguments = ["--x"]\n'),
    "report": (_report(), b'{"vllm-bundle-report": 1, "arch": "x86_64", "libc": "musl"}'),
    "check_line": (f"{linecheck.seal(_LINES)[7:]}\n".encode() + "\n".join(_LINES).encode(),),
    "weights": (_weights(),),
    "model_config": (json.dumps(_CONFIG).encode(),),
    "gpus": (b"sm_86", b"2xa100-80gb,h100", b"cpu"),
    "stack": (b'name = "x"\n[server]\nmodule = "m"\n',),
    "shared_object": (_LIBRARY,),
    "gpu_code": (gpucode.library(gpucode.PLAIN), gpucode.cubin(86, 7), b"!<arch>\n"),
    "rewritten": (_BINARY,),
    "wheel": (wheel("x", "1", files={"x.py": b"pass\n" * 50, "x.so": _LIBRARY})[1],),
}

#: Pieces of the formats, for mutations to put in.
WORDS = (
    b"9" * 5000, b"0x" + b"f" * 5000, b"-1", b"1e999", b"NaN", b"1.0", b"null", b"true",
    b"[" * 2000, b'{"a":' * 500, b'"\\ud800"', b"\xef\xbb\xbf", b"\r\n", b"\0", b"\xff" * 12,
    b"..", b"../", b"/etc/passwd", b"a/" * 3000, "²".encode(), b"\xd9\xa1", b"\x7fELF",
    gpucode.container("sm_86"), struct.pack("<Q", 1 << 63), struct.pack("<I", 0xFFFFFFFF),
    canonical.dumps({}), tarfile.TarInfo("x").tobuf(), b"sm_", b"x", b" x ", b"MiB", b"GiB",
)  # fmt: skip
