"""Compare an installed flash-attn with attention written out in torch, on this machine's GPU.

Run by hand (see README.md); prints one JSON document, status 1 where anything is off.

Rule, as in the project's own tests: against attention in 32-bit arithmetic, flash-attn's largest
error may be twice (gradients: three times) that of plain torch in the input's own precision, plus
`SLACK`. So the tolerance follows from the data type, not from a number that was found to pass.
"""

import itertools
import json
import math
import sys
import time

import torch
from flash_attn import (
    __version__,
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
)

DEVICE = "cuda"
OUTPUT_FACTOR, GRADIENT_FACTOR = 2, 3
#: Added to both: an error of plain torch can happen to be almost nothing.
SLACK = {torch.float16: 1e-4, torch.bfloat16: 1e-3}
GRADIENT_SLACK = {torch.float16: 1e-3, torch.bfloat16: 1e-2}
DTYPES = (torch.float16, torch.bfloat16)
HEAD_DIMS = (32, 64, 96, 128, 192, 256)
LENGTHS = ((128, 128), (113, 203), (512, 512))
GROUPS = (1, 4)  # query heads to one key head
BATCH, HEADS = 2, 8


def attention(q, k, v, causal=False, window=(-1, -1), upcast=True, key_lengths=None):
    """Softmax attention, (batch, length, heads, dim); causal is aligned to the lower right."""
    dtype = q.dtype
    if upcast:
        q, k, v = q.float(), k.float(), v.float()
    groups = q.shape[2] // k.shape[2]
    k, v = (x.repeat_interleave(groups, dim=2) for x in (k, v))
    scores = torch.einsum("bqhd,bkhd->bhqk", q / math.sqrt(q.shape[-1]), k)
    rows = torch.arange(q.shape[1], device=q.device)[:, None]
    columns = torch.arange(k.shape[1], device=q.device)[None, :]
    ends = torch.full((q.shape[0],), k.shape[1], device=q.device)
    if key_lengths is not None:
        ends = key_lengths
    ends = ends[:, None, None]
    diagonal = rows[None] + ends - q.shape[1]
    hidden = columns[None] >= ends
    left, right = (-1, 0) if causal else window
    if right >= 0:
        hidden = hidden | (columns[None] > diagonal + right)
    if left >= 0:
        hidden = hidden | (columns[None] < diagonal - left)
    scores = scores.masked_fill(hidden[:, None], float("-inf"))
    weights = torch.softmax(scores, dim=-1)
    weights = weights.masked_fill(torch.all(hidden, dim=-1)[:, None, :, None], 0.0)
    return torch.einsum("bhqk,bkhd->bqhd", weights.to(v.dtype), v).to(dtype)


def tensors(dtype, dim, queries, keys, groups, seed=0, gradients=False):
    generator = torch.Generator(DEVICE).manual_seed(seed)
    shapes = (
        (BATCH, queries, HEADS, dim),
        (BATCH, keys, HEADS // groups, dim),
        (BATCH, keys, HEADS // groups, dim),
    )
    return [
        torch.randn(shape, device=DEVICE, dtype=dtype, generator=generator, requires_grad=gradients)
        for shape in shapes
    ]


def judged(found, exact, plain, factor, slack):
    error = (found.float() - exact.float()).abs().max().item()
    own = (plain.float() - exact.float()).abs().max().item()
    allowed = factor * own + slack
    finite = bool(torch.isfinite(found).all())
    return {"error": error, "allowed": allowed, "ok": finite and error <= allowed}


def dense(dtype, dim, lengths, groups, causal, window=(-1, -1)):
    """Forward and backward of flash_attn_func."""
    q, k, v = tensors(dtype, dim, *lengths, groups, gradients=True)
    found = flash_attn_func(q, k, v, causal=causal, window_size=window)
    exact = attention(q, k, v, causal, window)
    plain = attention(q, k, v, causal, window, upcast=False)
    results = {"forward": judged(found, exact, plain, OUTPUT_FACTOR, SLACK[dtype])}
    seed = torch.randn_like(found)
    gradients = [torch.autograd.grad(out, (q, k, v), seed) for out in (found, exact, plain)]
    for name, ours, true, theirs in zip(("dq", "dk", "dv"), *gradients, strict=True):
        results[name] = judged(ours, true, theirs, GRADIENT_FACTOR, GRADIENT_SLACK[dtype])
    return results


def varlen(dtype, dim, causal):
    """Sequences of unequal length, packed one after the other; forward and backward."""
    lengths = [17, 256, 1, 333, 64]
    q, k, v = (
        torch.randn(sum(lengths), heads, dim, device=DEVICE, dtype=dtype, requires_grad=True)
        for heads in (HEADS, HEADS // 4, HEADS // 4)
    )
    starts = torch.tensor([0, *itertools.accumulate(lengths)], device=DEVICE, dtype=torch.int32)
    found = flash_attn_varlen_func(
        q, k, v, starts, starts, max(lengths), max(lengths), causal=causal
    )

    def separately(upcast):
        return torch.cat(
            [
                attention(*(x[a:b][None] for x in (q, k, v)), causal, upcast=upcast)[0]
                for a, b in itertools.pairwise(starts.tolist())
            ]
        )

    exact, plain = separately(True), separately(False)
    results = {"forward": judged(found, exact, plain, OUTPUT_FACTOR, SLACK[dtype])}
    seed = torch.randn_like(found)
    gradients = [torch.autograd.grad(out, (q, k, v), seed) for out in (found, exact, plain)]
    for name, ours, true, theirs in zip(("dq", "dk", "dv"), *gradients, strict=True):
        results[name] = judged(ours, true, theirs, GRADIENT_FACTOR, GRADIENT_SLACK[dtype])
    return results


def cached(dtype, dim, new, splits, paged):
    """Decoding: new tokens are put into a cache (in one piece or in pages) and attend to it."""
    room, page = 1024, 256
    past = torch.tensor([700, 33], device=DEVICE, dtype=torch.int32)
    q, k_new, v_new = tensors(dtype, dim, new, new, 4, seed=1)
    _, k_cache, v_cache = tensors(dtype, dim, 1, room, 4, seed=2)
    true_k, true_v = k_cache.clone(), v_cache.clone()
    for row, start in enumerate(past.tolist()):
        true_k[row, start : start + new] = k_new[row]
        true_v[row, start : start + new] = v_new[row]
    table = None
    if paged:
        order = torch.randperm(BATCH * room // page, device=DEVICE).int()
        pages = [x.reshape(-1, page, *x.shape[2:]) for x in (k_cache, v_cache)]
        k_cache, v_cache = (torch.empty_like(x).index_copy_(0, order.long(), x) for x in pages)
        table = order.reshape(BATCH, -1)
    found = flash_attn_with_kvcache(
        q, k_cache, v_cache, k_new, v_new, cache_seqlens=past, block_table=table, causal=True,
        num_splits=splits,
    )  # fmt: skip
    ends = past.long() + new
    exact = attention(q, true_k, true_v, causal=True, key_lengths=ends)
    plain = attention(q, true_k, true_v, causal=True, key_lengths=ends, upcast=False)
    return {"forward": judged(found, exact, plain, OUTPUT_FACTOR, SLACK[dtype])}


def speed(dim, causal):
    """Forward TFLOP/s at 16 heads of 8192 tokens; the median of 20 runs."""
    q, k, v = (torch.randn(2, 8192, 16, dim, device=DEVICE, dtype=torch.bfloat16) for _ in "qkv")
    times = []
    for _ in range(23):
        torch.cuda.synchronize()
        start = time.perf_counter()
        flash_attn_func(q, k, v, causal=causal)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    median = sorted(times[3:])[10]
    operations = 4 * 2 * 16 * 8192**2 * dim / (2 if causal else 1)
    return round(operations / median / 1e12, 1)


def cases():
    for dtype, dim, lengths, groups, causal in itertools.product(
        DTYPES, HEAD_DIMS, LENGTHS, GROUPS, (False, True)
    ):
        yield dense, (dtype, dim, lengths, groups, causal)
    for dtype, dim in itertools.product(DTYPES, (64, 128, 256)):
        yield dense, (dtype, dim, (512, 512), 4, False, (64, 0))
    for dtype, dim, causal in itertools.product(DTYPES, HEAD_DIMS, (False, True)):
        yield varlen, (dtype, dim, causal)
    for dtype, dim, new, splits, paged in itertools.product(
        DTYPES, HEAD_DIMS, (1, 5), (1, 4), (False, True)
    ):
        yield cached, (dtype, dim, new, splits, paged)


def main():
    # Plain torch would otherwise round 32-bit products to 19 bits.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    failed, worst, count = [], {}, {}
    for function, arguments in cases():
        name = function.__name__
        count[name] = count.get(name, 0) + 1
        try:
            results = function(*arguments)
        except Exception as error:  # a refused case must not hide the others
            failed.append({"case": name, "arguments": str(arguments), "error": repr(error)})
            continue
        for part, result in results.items():
            key = f"{name} {part} {str(arguments[0]).removeprefix('torch.')}"
            if result["error"] >= worst.get(key, {"error": -1.0})["error"]:
                worst[key] = result
            if not result["ok"]:
                failed.append({"case": name, "arguments": str(arguments), "part": part} | result)
    report = {
        "flash_attn": __version__,
        "torch": torch.__version__,
        "gpu": torch.cuda.get_device_name(),
        "capability": ".".join(map(str, torch.cuda.get_device_capability())),
        "cases": count,
        "failed": failed,
        "worst": worst,
        "tflops_bf16_forward": {
            f"dim {dim}{' causal' if causal else ''}": speed(dim, causal)
            for dim in (64, 128)
            for causal in (False, True)
        },
    }
    print(json.dumps(report, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
