"""Make a Qwen3.5 with random weights of a wanted size: `python -m tests.gpu.isolated.model OUT N`.

Runs under an environment that has torch and transformers, on the GPU where there is one: the class
of the published models (`Qwen3_5ForConditionalGeneration`), written as they are. Tokenizer, chat
template and picture settings are those of `bundler.tinymodel`.
"""

import json
import sys
import time
from pathlib import Path

import torch
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5Config
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5ForConditionalGeneration

from bundler.tinymodel import tokenizer
from bundler.tinymodel.config import ARCHITECTURES

#: As the published 2B has them (tests/data/configs/Qwen3.5-2B.json); 24 layers make 1.69e9
#: parameters with this vocabulary, 0.311e9 of them in the embedding.
LARGE = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 16,
}
#: For a trial on a processor.
SMALL = {
    "vocab_size": 1024,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
#: Parameters of four layers, three of them with linear attention.
_FOUR = {"LARGE": 230e6, "SMALL": 4.4e6}


def text_config(parameters: float) -> dict[str, object]:
    large = parameters > 100e6
    shape, four = (LARGE, _FOUR["LARGE"]) if large else (SMALL, _FOUR["SMALL"])
    rest = parameters - shape["vocab_size"] * shape["hidden_size"]
    layers = 4 * max(1, round(rest / four))
    return {
        **shape,
        "num_hidden_layers": layers,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "max_position_embeddings": 32768,
        "eos_token_id": tokenizer.identifier(tokenizer.END),
        "pad_token_id": tokenizer.identifier(tokenizer.PADDING),
        "bos_token_id": None,
        "tie_word_embeddings": True,
    }


def main() -> None:
    out, parameters = Path(sys.argv[1]), float(sys.argv[2])
    begun = time.monotonic()
    text = text_config(parameters)
    token = tokenizer.identifier
    config = Qwen3_5Config(
        text_config=text,
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 2,
            "out_hidden_size": text["hidden_size"],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=True,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        model = Qwen3_5ForConditionalGeneration(config)
    model = model.to(torch.bfloat16)
    model.save_pretrained(out)
    documents = {**ARCHITECTURES["conditional"].files(), **tokenizer.files(32768)}
    del documents["config.json"]
    for name, document in documents.items():
        (out / name).write_text(json.dumps(document, ensure_ascii=False))
    (out / "README.md").write_text("---\nlicense: apache-2.0\n---\nRandom weights: noise.\n")
    count = sum(tensor.numel() for tensor in model.parameters())
    record = {
        "parameters": count,
        "device": device,
        "layers": text["num_hidden_layers"],
        "seconds": round(time.monotonic() - begun, 1),
    }
    print(json.dumps(record))


if __name__ == "__main__":
    main()
