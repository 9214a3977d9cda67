"""The data in `fit.toml`: overheads with their sources, and checkpoints to offer instead."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from manifests.records import from_data


@dataclass(frozen=True)
class Overhead:
    """What a server needs on each GPU beside weights and cache; the sources are in the file."""

    reserved: int  # bytes that nvidia-smi counts and CUDA never sees
    context: int  # bytes
    peers: int  # bytes, with more than one GPU
    graphs: int  # bytes, where CUDA graphs are captured
    hidden_copies: int
    intermediate_copies: int
    logit_bytes: int  # for each sequence and word of the vocabulary
    picture_tokens: int
    picture_copies: int
    large_gpu: int  # bytes of memory from which the larger defaults count
    batch_tokens: int
    batch_tokens_large: int
    sequences: int
    sequences_large: int


@dataclass(frozen=True)
class Checkpoint:
    """A published checkpoint of a family."""

    repository: str
    hidden: int  # with `layers`, tells which size of the family it is
    layers: int
    weights: int  # bytes
    quantisation: str = ""


@dataclass(frozen=True)
class Tables:
    """All that the file says."""

    architectures: tuple[str, ...]
    ecc_takes_memory: tuple[str, ...]  # products, as manifests/gpus.toml names them
    ecc_part: int  # one part in so many
    lengths: tuple[int, ...]  # tokens
    least_length: int  # tokens
    overhead: Overhead
    checkpoints: tuple[Checkpoint, ...]


@cache
def tables() -> Tables:
    """The tables of this release."""
    text = (resources.files("manifests") / "fit.toml").read_text("utf-8")
    return from_data(Tables, tomllib.loads(text), "fit.toml")
