"""Whether a model can be served: judged before packing, and again before every start.

Reads the configuration, the index and the headers of the weights, never the weights themselves,
so it takes well under a second for any size. Digests are checked elsewhere.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from manifests import configured, extras
from manifests import stack as stack_table
from manifests.digests import hash_file
from manifests.errors import from_oserror
from manifests.findings import Finding, refuse
from manifests.impostors import SNIFFED, sniff
from manifests.modelfolder import files_of
from manifests.risks import PICKLE, Risk, is_pickle, risks_of
from manifests.safetensors import BITS, Tensor
from manifests.shards import (
    INDEX,
    check_names,
    check_tensors,
    read_headers,
    shards_of,
    weight_map_of,
)

CONFIG = "config.json"
#: NVIDIA ModelOpt states the quantisation here; vLLM reads it (vllm/transformers_utils/config.py).
_QUANTISATION = "hf_quant_config.json"
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
#: What lists the pickles of a model that has several.
_PICKLE_INDEX = ".bin.index.json"
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
    include: tuple[str, ...] = ()  # patterns of further files to take; see bundler.models.selection
    exclude: tuple[str, ...] = ()

    @classmethod
    def allowing(cls, risks: Iterable[Risk]) -> Self:
        """Rules for a model whose risks were allowed when it was locked."""
        kinds = {risk.kind for risk in risks}
        return cls(pickle=PICKLE in kinds, remote_code=bool(kinds - {PICKLE}))


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
    risks: tuple[Risk, ...] = ()
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
    index, config = documents.get(INDEX), documents.get(CONFIG)
    tensors = [tensor for header in headers.values() for tensor in header]
    findings = [
        *unreadable,
        *_check(files, documents, rules or Rules(), left_out, _vocabulary_digests(files)),
        *damaged,
        *check_tensors(headers, index),
    ]
    # What is missing or damaged explains every difference between weights and configuration.
    findings = findings or list(configured.check(config, tensors, quantised=_QUANTISATION in files))
    refuse(f"{where}: this model can't be served as it is", findings)
    return _describe(files, documents, documents[CONFIG], tensors, tuple(headers))


def preview(
    files: Mapping[str, Path],
    listed: Collection[str],
    rules: Rules | None = None,
    *,
    where: str,
    left_out: Collection[str] = (),
) -> tuple[Risk, ...]:
    """Judge a model of which only some files (`files`) of all (`listed`) are here yet.

    Finds whatever can be found before the weights are fetched; raises as `inspect` does. What is
    given back are the risks that the rules allow.
    """
    documents, unreadable = _documents(files)
    findings = [*unreadable, *_check(listed, documents, rules or Rules(), left_out, {})]
    refuse(f"{where}: this model can't be served as it is", findings)
    return risks_of(listed, documents)


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


def _vocabulary_digests(files: Mapping[str, Path]) -> dict[str, str]:
    """sha256 of the vocabularies that are there; a few megabytes at most."""
    places = {one.path for one in extras.vocabularies()}
    return {name: hash_file(files[name]) for name in places & files.keys()}


def _check(
    names: Collection[str],
    documents: Mapping[str, Any],
    rules: Rules,
    left_out: Collection[str],
    digests: Mapping[str, str],
) -> Iterator[Finding]:
    yield from _check_config(names, documents, rules)
    yield from _check_tokenizer(names)
    yield from _check_risks(names, documents, rules)
    yield from _check_weights(names, left_out)
    yield from _check_pickles(names, documents)
    if rules.remote_code:
        yield from extras.check_code(names, documents)
    yield from extras.check_vocabularies(names, documents.get(CONFIG), digests)
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
            f"{stacks_for(asked)}; or a model of {_some(rules.architectures)}",
        )
    if "vision_config" in config and not rules.text_only and not PROCESSORS & set(names):
        yield Finding(
            "preprocessor_config.json: missing, and a class with a vision part loads it at start",
            "copy it from the base model, or serve the model as text only",
        )


def stacks_for(architectures: Collection[str]) -> str:
    """What mends a class that a stack does not know: the stacks of this release that do."""
    knowing = [
        f"--stack {stack.name} (vLLM {stack.version})"
        for stack in stack_table.stacks().values()
        if set(architectures) & set(stack.architectures)
    ]
    if not knowing:
        return "choose a model of a class that a stack knows (`bundle stacks`)"
    return f"choose {' or '.join(knowing)}, which knows it"


def _check_tokenizer(names: Collection[str]) -> Iterator[Finding]:
    if not any(tokenizer <= set(names) for tokenizer in TOKENIZERS):
        yield Finding(
            "no tokenizer (tokenizer.json; or vocab.json and merges.txt; or tokenizer.model)",
            "copy the tokenizer's files from the base model",
        )


def _check_risks(
    names: Collection[str], documents: Mapping[str, Any], rules: Rules
) -> Iterator[Finding]:
    for risk in risks_of(names, documents):
        if risk.kind == PICKLE and not rules.pickle:
            yield Finding(risk.text(), "remove it, or allow it with --allow-pickle")
        elif risk.kind != PICKLE and not rules.remote_code:
            yield Finding(
                risk.text(),
                "choose a model that needs no code of its own, or allow it with "
                "--allow-remote-code",
            )


def _check_weights(names: Collection[str], left_out: Collection[str]) -> Iterator[Finding]:
    if shards_of(names) or any(map(is_pickle, names)):
        return
    if others := sorted(filter(is_pickle, left_out)):
        yield Finding(
            f"no safetensors, only pickles, which can run code when loaded: {_some(others)}",
            "choose a source with safetensors, or allow it with --allow-pickle",
        )
    else:
        yield Finding("no weights (*.safetensors)", "name the folder that holds the weights")


def _check_pickles(names: Collection[str], documents: Mapping[str, Any]) -> Iterator[Finding]:
    """Pickles against their index, as far as that goes without loading them."""
    for name, document in documents.items():
        if name.endswith(_PICKLE_INDEX):
            for shard in sorted({*(weight_map_of(document) or {}).values()} - {*names}):
                yield Finding(
                    f"{shard}: missing, {name} names it (missing-shard)",
                    "copy or download the missing weight files",
                    damage=True,
                )


def _describe(
    files: Mapping[str, Path],
    documents: Mapping[str, Any],
    config: dict[str, Any],
    tensors: Iterable[Tensor],
    shards: tuple[str, ...],
) -> Checkpoint:
    merged = configured.text_of(config)
    length = merged.get("max_position_embeddings")
    method = merged.get("quantization_config")
    parameters, sizes = 0, Counter[str]()
    for tensor in tensors:
        parameters += tensor.parameters()
        sizes[tensor.dtype] += tensor.end - tensor.begin
    most = max(sizes, key=sizes.__getitem__, default="")
    # What is in a pickle is not read; its size is about that of its weights.
    pickled = 0 if shards else sum(files[n].stat().st_size for n in files if is_pickle(n))
    return Checkpoint(
        architectures=_architectures(config),
        model_type=str(config.get("model_type", "")),
        dtype=_stated_dtype(merged) or _DTYPES.get(most, ""),
        parameters=parameters,
        weight_bytes=sizes.total() + pickled,
        shards=shards,
        thinking=any("enable_thinking" in text for text in _templates(files, documents)),
        max_length=length if isinstance(length, int) else 0,
        quantisation=str(method.get("quant_method", "")) if isinstance(method, dict) else "",
        risks=risks_of(files, documents),
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
