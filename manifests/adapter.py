"""Whether a LoRA adapter can be served: judged before packing, and again before every start.

Format: PEFT's (https://huggingface.co/docs/peft/developer_guides/checkpoint): adapter_config.json
and adapter_model.safetensors. What vLLM refuses, or would serve wrongly, was read in
vllm/lora/peft_helper.py of 0.20.2 and 0.32.0.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manifests.errors import from_oserror
from manifests.findings import Finding, refuse
from manifests.impostors import SNIFFED, sniff
from manifests.risks import is_pickle
from manifests.safetensors import Tensor
from manifests.shards import read_headers

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
#: vllm/config/lora.py, MaxLoRARanks: the values that --max-lora-rank takes.
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)

#: By key of the configuration: what makes vLLM refuse an adapter.
_REFUSED = {
    "use_dora": "DoRA",
    "lora_bias": "LoRA with bias",
    "modules_to_save": "whole modules beside the LoRA (modules_to_save)",
    "alora_invocation_tokens": "activated LoRA",
    "layer_replication": "replicated layers",
    # vLLM 0.20.2 serves these with the one `r` and `lora_alpha`: wrongly, and without a word.
    "rank_pattern": "a rank of its own for some modules (rank_pattern)",
    "alpha_pattern": "an alpha of its own for some modules (alpha_pattern)",
}
_DOWN = re.compile(r"\.lora_(A|embedding_A)(\.weight)?$")
_UP = re.compile(r"\.lora_(B|embedding_B)(\.weight)?$")
_SAVED_AS = "save it again with PEFT's save_pretrained, which writes safetensors"


@dataclass(frozen=True)
class LoraConfig:
    """What an adapter says of itself."""

    base: str  # the model that it was trained on, as a Hub name or a path; empty if not stated
    rank: int
    targets: tuple[str, ...]  # modules that it changes; empty where a pattern names them


def inspect(files: Mapping[str, Path], where: str, left_out: Collection[str] = ()) -> LoraConfig:
    """Judge an adapter by its files (relative name → path).

    `where` names it in errors; `left_out` are its source's files that were not taken. Raises, with
    every finding: IntegrityError where something is damaged, UsageError where it can't be served.
    """
    config, unreadable = _document(files)
    headers, damaged = read_headers({WEIGHTS: files[WEIGHTS]} if WEIGHTS in files else {})
    findings = [*unreadable, *_check(files, config, left_out), *damaged]
    if WEIGHTS in headers and not findings:
        findings += _check_tensors(headers[WEIGHTS], config)
    refuse(f"{where}: this adapter can't be served as it is", findings)
    return config_of(config)


def preview(
    files: Mapping[str, Path],
    listed: Collection[str],
    where: str,
    left_out: Collection[str] = (),
) -> LoraConfig:
    """Judge an adapter of which only some files (`files`) of all (`listed`) are here yet."""
    config, unreadable = _document(files)
    findings = [*unreadable, *_check(listed, config, left_out)]
    refuse(f"{where}: this adapter can't be served as it is", findings)
    return config_of(config)


def config_of(config: Mapping[str, Any]) -> LoraConfig:
    """A parsed configuration that was found right."""
    targets = config.get("target_modules")
    return LoraConfig(
        base=str(config.get("base_model_name_or_path") or ""),
        rank=int(config["r"]),
        targets=tuple(sorted(map(str, targets))) if isinstance(targets, list) else (),
    )


def max_rank(ranks: Iterable[int]) -> int:
    """The smallest value of --max-lora-rank that serves adapters of these ranks."""
    largest = max(ranks)
    return next((allowed for allowed in RANKS if allowed >= largest), RANKS[-1])


def _document(files: Mapping[str, Path]) -> tuple[dict[str, Any], list[Finding]]:
    if CONFIG not in files:
        return {}, []
    try:
        data = files[CONFIG].read_bytes()
    except OSError as error:
        return {}, [Finding.of(from_oserror(error, "reading the adapter", files[CONFIG]))]
    again = "copy or download the file again"
    if impostor := sniff(data[:SNIFFED]):
        text = f"{CONFIG}: {impostor.what} ({impostor.kind})"
        return {}, [Finding(text, impostor.mend, damage=True)]
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        return {}, [Finding(f"{CONFIG}: not JSON: {error} (bad-json)", again, damage=True)]
    if not isinstance(found, dict):
        return {}, [Finding(f"{CONFIG}: no table (bad-json)", again, damage=True)]
    return found, []


def _check(
    names: Collection[str], config: Mapping[str, Any], left_out: Collection[str]
) -> Iterator[Finding]:
    if CONFIG not in names:
        mend = "name the folder that holds the adapter, not a whole model"
        yield Finding(f"{CONFIG}: missing", mend)
    for name in sorted(filter(is_pickle, (*names, *left_out))):
        if name in names or WEIGHTS not in names:
            yield Finding(f"{name}: a pickle, which can run code when it is loaded", _SAVED_AS)
    if WEIGHTS not in names and not any(map(is_pickle, (*names, *left_out))):
        yield Finding(f"{WEIGHTS}: missing", "name the folder that holds the adapter's weights")
    if config:
        yield from _check_config(config)


def _check_config(config: Mapping[str, Any]) -> Iterator[Finding]:
    kind = config.get("peft_type", "LORA")
    if kind != "LORA":
        yield Finding(f"{CONFIG}: peft_type {kind!r:.80}", "choose a LoRA adapter")
        return
    rank = config.get("r")
    if type(rank) is not int or not 1 <= rank <= RANKS[-1]:
        mend = f"vLLM serves ranks from 1 to {RANKS[-1]}"
        yield Finding(f"{CONFIG}: the rank r is {rank!r:.80}", mend)
    alpha = config.get("lora_alpha")
    if type(alpha) not in (int, float):
        yield Finding(f"{CONFIG}: lora_alpha is {alpha!r:.80}", "a number is needed")
    targets = config.get("target_modules")
    if not targets or not isinstance(targets, list | str):
        yield Finding(f"{CONFIG}: target_modules is {targets!r:.80}", "name the modules")
    for key, what in _REFUSED.items():
        if config.get(key):
            yield Finding(f"{CONFIG}: {what}, which vLLM does not serve", "train a plain LoRA")
    if config.get("bias", "none") != "none":
        yield Finding(f"{CONFIG}: bias {config['bias']!r:.80}, which vLLM does not serve", "")


def _check_tensors(tensors: tuple[Tensor, ...], config: Mapping[str, Any]) -> Iterator[Finding]:
    rank = int(config["r"])
    down = {_DOWN.sub("", t.name): t for t in tensors if _DOWN.search(t.name)}
    up = {_UP.sub("", t.name): t for t in tensors if _UP.search(t.name)}
    strangers = [t.name for t in tensors if not (_DOWN.search(t.name) or _UP.search(t.name))]
    if not down:
        yield Finding(f"{WEIGHTS}: holds no LoRA", "name the folder of an adapter")
    for name in sorted(down.keys() ^ up.keys())[:5]:
        yield Finding(f"{WEIGHTS}: {name} has one half of a LoRA", "save the adapter again")
    for name in sorted(strangers)[:5]:
        yield Finding(f"{WEIGHTS}: {name} is no part of a LoRA", "train a plain LoRA")
    for name, tensor in sorted(down.items()):
        # lora_A is (rank, inputs), an embedding's (rank, tokens); PEFT, tuners/lora/layer.py.
        if not tensor.shape or tensor.shape[0] != rank:
            yield Finding(
                f"{WEIGHTS}: {name} has the shape {tensor.shape}, {CONFIG} says rank {rank}",
                "take both files from one place",
                damage=True,
            )
            return
