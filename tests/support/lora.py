"""A LoRA adapter for the tiny model, as PEFT saves one."""

import json
from pathlib import Path
from typing import Any

from bundler import tinymodel
from bundler.tinymodel.config import ARCHITECTURES
from bundler.tinymodel.tensors import Tensor, noise

#: The full-attention layer's projections, which vLLM's Qwen3.5 takes LoRA for.
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj")


def config(rank: int = 4, **changes: Any) -> dict[str, Any]:
    """The configuration as PEFT 0.17 writes it, without what says nothing."""
    return {
        "base_model_name_or_path": "tiny-qwen3.5",
        "bias": "none",
        "lora_alpha": 2 * rank,
        "lora_dropout": 0.0,
        "modules_to_save": None,
        "peft_type": "LORA",
        "r": rank,
        "rank_pattern": {},
        "target_modules": list(TARGETS),
        "task_type": "CAUSAL_LM",
        "use_dora": False,
        **changes,
    }


def make(folder: Path, rank: int = 4, seed: int = 0, width: float = 0.5, **changes: Any) -> Path:
    """Write the adapter; gives its folder."""
    folder.mkdir(parents=True)
    (folder / "adapter_config.json").write_text(json.dumps(config(rank, **changes), indent=2))
    tensors = {}
    for base in ARCHITECTURES["causal"].tensors():
        module = base.name.removesuffix(".weight")
        if module.rpartition(".")[2] not in TARGETS:
            continue
        out, into = base.shape
        for half, shape in (("lora_A", (rank, into)), ("lora_B", (out, rank))):
            name = f"base_model.model.{module}.{half}.weight"
            tensors[name] = (shape, Tensor(name, shape, noise(width)).data(seed))
    (folder / "adapter_model.safetensors").write_bytes(tinymodel.safetensors(tensors))
    return folder
