"""Whether a model can be served: judged before packing, and again before every start.

Reads the configuration, the index and the headers of the weights, never the weights themselves,
so it takes well under a second for any size. Digests are checked elsewhere.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from manifests.errors import from_oserror
from manifests.findings import Finding, refuse
from manifests.impostors import SNIFFED, sniff
from manifests.modelfolder import files_of
from manifests.safetensors import BITS, Tensor
from manifests.shards import INDEX, check_names, check_tensors, read_headers, shards_of

CONFIG = "config.json"
#: Formats that can run code when they are loaded: pickle and what is built on it.
PICKLE = frozenset({".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"})
CODE = frozenset({".py", ".so"})
#: Each set of files is a tokenizer.
TOKENIZERS = (
    frozenset({"tokenizer.json"}),
    frozenset({"vocab.json", "merges.txt"}),
    frozenset({"tokenizer.model"}),
    frozenset({"tekken.json"}),
    frozenset({"tiktoken.model"}),
)
#: What a class with a vision part loads at start (transformers' image processors).
PROCESSORS = frozenset({"preprocessor_config.json", "processor_config.json"})
#: Files beside JSON whose first bytes are looked at.
SNIFFED_FILES = frozenset(
    {"merges.txt", "chat_template.jinja", "tokenizer.model", "tiktoken.model"}
)


@dataclass(frozen=True)
class Rules:
    """What a checkpoint is held to, and what is allowed."""

    architectures: tuple[str, ...] = ()  # that the stack serves; with none it is not checked
    pickle: bool = False
    remote_code: bool = False
    text_only: bool = False  # a class with a vision part is served without it


@dataclass(frozen=True)
class Checkpoint:
    """What a model folder holds."""

    architectures: tuple[str, ...]
    model_type: str
    dtype: str  # as config.json states it, otherwise of most bytes of the weights
    parameters: int  # values in the weights; packed ones count as they are stored
    weight_bytes: int
    shards: tuple[str, ...]
    thinking: bool  # the chat template reads enable_thinking
    max_length: int  # tokens; 0 where the configuration does not say
    quantisation: str = ""  # "fp8", "gptq", …
    config: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def inspect(
    model: Path | Mapping[str, Path],
    rules: Rules | None = None,
    *,
    where: str = "",
    left_out: Collection[str] = (),
) -> Checkpoint:
    """Judge a model: a folder, or its files as relative name → path.

    `where` names the model in errors; `left_out` are the source's files that were not taken.
    Raises, with every finding: IntegrityError where something is damaged or missing, UsageError
    where the model can't be served or needs what the rules forbid; FilesystemError.
    """
    files = files_of(model) if isinstance(model, Path) else model
    where = where or (str(model) if isinstance(model, Path) else "model")
    documents, unreadable = _documents(files)
    headers, damaged = read_headers(files)
    index = documents.get(INDEX)
    refuse(
        f"{where}: this model can't be served as it is",
        [
            *unreadable,
            *_check(files, documents, rules or Rules(), left_out),
            *damaged,
            *check_tensors(headers, index),
        ],
    )
    config = documents[CONFIG]
    tensors = [tensor for header in headers.values() for tensor in header]
    return _describe(files, documents, config, tensors, tuple(headers))


def preview(
    files: Mapping[str, Path],
    listed: Collection[str],
    rules: Rules | None = None,
    *,
    where: str,
    left_out: Collection[str] = (),
) -> None:
    """Judge a model of which only some files (`files`) of all (`listed`) are here yet.

    Finds whatever can be found before the weights are fetched; raises as `inspect` does.
    """
    documents, unreadable = _documents(files)
    findings = [*unreadable, *_check(listed, documents, rules or Rules(), left_out)]
    refuse(f"{where}: this model can't be served as it is", findings)


def is_pickle(name: str) -> bool:
    """Whether a file's format can run code when it is loaded."""
    return PurePosixPath(name).suffix in PICKLE


def is_code(name: str) -> bool:
    """Whether a file is code."""
    return PurePosixPath(name).suffix in CODE


def _documents(files: Mapping[str, Path]) -> tuple[dict[str, Any], list[Finding]]:
    """Every JSON file parsed, and what is wrong with those left out."""
    documents = {}
    findings = []
    for name, path in sorted(files.items()):
        parsed = name.endswith(".json")
        if not parsed and name not in SNIFFED_FILES:
            continue
        try:
            data = path.read_bytes()
        except OSError as error:
            findings.append(Finding.of(from_oserror(error, "reading the model", path)))
            continue
        if impostor := sniff(data[:SNIFFED]):
            text = f"{name}: {impostor.what} ({impostor.kind})"
            findings.append(Finding(text, impostor.mend, damage=True))
        elif parsed:
            try:
                documents[name] = json.loads(data)
            except (ValueError, RecursionError) as error:
                text = f"{name}: not JSON: {error} (bad-json)"
                findings.append(Finding(text, "copy or download the file again", damage=True))
    return documents, findings


def _check(
    names: Collection[str],
    documents: Mapping[str, Any],
    rules: Rules,
    left_out: Collection[str],
) -> Iterator[Finding]:
    yield from _check_config(names, documents, rules)
    yield from _check_tokenizer(names)
    yield from _check_pickle(names, rules, left_out)
    if not rules.remote_code:
        yield from _check_code(names, documents)
    if INDEX not in names or INDEX in documents:  # an unreadable one was reported
        yield from check_names(shards_of(names), documents.get(INDEX))


def _check_config(
    names: Collection[str], documents: Mapping[str, Any], rules: Rules
) -> Iterator[Finding]:
    if CONFIG not in documents:
        if CONFIG not in names:
            yield Finding(f"{CONFIG}: missing", "name the folder that holds it and the weights")
        return
    config = documents[CONFIG]
    asked = _architectures(config)
    if not asked:
        mend = "name a whole model, not an adapter or a part of one"
        yield Finding(f"{CONFIG}: no `architectures`", mend)
        return
    if rules.architectures and not set(asked) & set(rules.architectures):
        yield Finding(
            f"{CONFIG}: the stack does not know {_some(asked)}, "
            f"model type {config.get('model_type')!r} (unknown-architecture)",
            f"choose a model of {_some(rules.architectures)}, or a newer --stack",
        )
    if "vision_config" in config and not rules.text_only and not PROCESSORS & set(names):
        yield Finding(
            "preprocessor_config.json: missing, and a class with a vision part loads it at start",
            "copy it from the base model, or serve the model as text only",
        )


def _check_tokenizer(names: Collection[str]) -> Iterator[Finding]:
    if not any(tokenizer <= set(names) for tokenizer in TOKENIZERS):
        yield Finding(
            "no tokenizer (tokenizer.json; or vocab.json and merges.txt; or tokenizer.model)",
            "copy the tokenizer's files from the base model",
        )


def _check_pickle(
    names: Collection[str], rules: Rules, left_out: Collection[str]
) -> Iterator[Finding]:
    pickles = sorted(filter(is_pickle, names))
    if not rules.pickle:
        for name in pickles:
            yield Finding(
                f"{name}: a pickle, which can run code when it is loaded (pickle)",
                "remove it, or allow it with --allow-pickle",
            )
    if shards_of(names) or pickles:
        return
    if others := sorted(filter(is_pickle, left_out)):
        yield Finding(
            f"no safetensors, only pickles, which can run code when loaded: {_some(others)}",
            "choose a source with safetensors, or allow it with --allow-pickle",
        )
    else:
        yield Finding("no weights (*.safetensors)", "name the folder that holds the weights")


def _check_code(names: Collection[str], documents: Mapping[str, Any]) -> Iterator[Finding]:
    mend = "choose a model that needs no code of its own, or allow it with --allow-remote-code"
    for name in sorted(filter(is_code, names)):
        yield Finding(f"{name}: code that comes with the model (remote-code)", mend)
    for name, document in documents.items():
        if isinstance(document, dict) and document.get("auto_map"):
            yield Finding(f"{name}: `auto_map` loads code (remote-code)", mend)


def _describe(
    files: Mapping[str, Path],
    documents: Mapping[str, Any],
    config: dict[str, Any],
    tensors: Iterable[Tensor],
    shards: tuple[str, ...],
) -> Checkpoint:
    text = config.get("text_config")
    # Multimodal classes keep the language model's settings one level down.
    merged = {**config, **text} if isinstance(text, dict) else config
    length = merged.get("max_position_embeddings")
    method = merged.get("quantization_config")
    parameters, sizes = 0, Counter[str]()
    for tensor in tensors:
        parameters += tensor.parameters()
        sizes[tensor.dtype] += tensor.end - tensor.begin
    most = max(sizes, key=sizes.__getitem__, default="")
    return Checkpoint(
        architectures=_architectures(config),
        model_type=str(config.get("model_type", "")),
        dtype=_stated_dtype(merged) or _DTYPES.get(most, ""),
        parameters=parameters,
        weight_bytes=sizes.total(),
        shards=shards,
        thinking=any("enable_thinking" in text for text in _templates(files, documents)),
        max_length=length if isinstance(length, int) else 0,
        quantisation=str(method.get("quant_method", "")) if isinstance(method, dict) else "",
        config=config,
    )


def _architectures(config: Any) -> tuple[str, ...]:
    found = config.get("architectures") if isinstance(config, dict) else None
    return tuple(map(str, found)) if isinstance(found, list) else ()


#: safetensors' names → torch's, where they differ in more than case.
_DTYPES = {
    **{name: name.lower() for name in BITS},
    "BF16": "bfloat16",
    "F16": "float16",
    "F32": "float32",
    "F8_E4M3": "float8_e4m3fn",
}


def _stated_dtype(config: Mapping[str, Any]) -> str:
    # transformers 5 writes "dtype", older ones "torch_dtype".
    return str(config.get("dtype") or config.get("torch_dtype") or "").removeprefix("torch.")


def _templates(files: Mapping[str, Path], documents: Mapping[str, Any]) -> Iterator[str]:
    """Every chat template, wherever it is kept; the separate file came with transformers 4.43."""
    for name, path in files.items():
        if name.endswith(".jinja"):
            yield path.read_text("utf-8", "replace")
    for name in ("chat_template.json", "tokenizer_config.json"):
        document = documents.get(name)
        if isinstance(document, dict):
            yield json.dumps(document.get("chat_template"), ensure_ascii=False)


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    return ", ".join(listed[:5]) + (f" and {len(listed) - 5} more" if len(listed) > 5 else "")
