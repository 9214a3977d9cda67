"""Make a tiny Qwen3.5 with random weights: `python -m bundler.tinymodel OUT`.

A real checkpoint of about 0.4 million parameters, which transformers and vLLM load as they load
the published ones: gated-delta-net and full-attention layers, a byte-level tokenizer, a chat
template that honours `enable_thinking`. It answers nonsense; it proves everything around the
answer. Only the standard library is used, so it can be made before anything is installed.
"""

from bundler.tinymodel.config import ARCHITECTURES
from bundler.tinymodel.write import make, safetensors

__all__ = ["ARCHITECTURES", "make", "safetensors"]
