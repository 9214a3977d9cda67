"""What the server says that it can serve, read from its wheel: nothing is imported or run.

`_VLLM_MODELS` in vllm/model_executor/models/registry.py maps the `architectures` of a config.json,
`_CONFIG_REGISTRY` in vllm/transformers_utils/config.py the model types that transformers lacks.
"""

import ast
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_REGISTRY = "vllm/model_executor/models/registry.py"
_CONFIGS = "vllm/transformers_utils/config.py"
_MODELS, _DROPPED, _TYPES = "_VLLM_MODELS", "_PREVIOUSLY_SUPPORTED_MODELS", "_CONFIG_REGISTRY"
#: Any class of transformers that is written for it is served through this one.
FALLBACK = "TransformersForCausalLM"


@dataclass(frozen=True)
class Registry:
    """What one release of vLLM knows."""

    architectures: frozenset[str]
    model_types: frozenset[str] = frozenset()  # beside those of transformers
    dropped: Mapping[str, str] = field(default_factory=dict)  # architecture → last release with it


def read(wheel: Path) -> Registry | None:
    """What the vLLM in a wheel knows; None where the wheel keeps that in another way, or none.

    Raises OSError where the wheel can't be read.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            tables = _tables(archive.read(_REGISTRY))
            configs = _assigned(ast.parse(archive.read(_CONFIGS)))
    except (KeyError, ValueError, SyntaxError, RecursionError, zipfile.BadZipFile):
        return None
    architectures = tables.get(_MODELS, {})
    if not architectures:
        return None
    return Registry(
        frozenset(architectures),
        frozenset(_keywords(configs.get(_TYPES))),
        {name: value for name, value in tables.get(_DROPPED, {}).items() if value},
    )


def _tables(source: bytes) -> dict[str, dict[str, str]]:
    """Every table of the module: keys, and the values that are texts; `**OTHER` is resolved."""
    found: dict[str, dict[str, str]] = {}
    for name, value in _assigned(ast.parse(source)).items():
        if isinstance(value, ast.Dict):
            found[name] = dict(_items(value, found))
    return found


def _items(table: ast.Dict, known: Mapping[str, Mapping[str, str]]) -> Iterable[tuple[str, str]]:
    for key, value in zip(table.keys, table.values, strict=True):
        if key is None and isinstance(value, ast.Name):
            yield from known.get(value.id, {}).items()
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value, _text(value)


def _text(node: ast.expr) -> str:
    value = node.value if isinstance(node, ast.Constant) else ""
    return value if isinstance(value, str) else ""


def _assigned(module: ast.Module) -> dict[str, ast.expr]:
    """What is assigned to names at the top of a module, in order."""
    found: dict[str, ast.expr] = {}
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value:
            found[node.target.id] = node.value
    return found


def _keywords(call: ast.expr | None) -> list[str]:
    """The names of a call's arguments, `LazyConfigDict(qwen3_5="Qwen3_5Config", …)`."""
    if not isinstance(call, ast.Call):
        return []
    return [keyword.arg for keyword in call.keywords if keyword.arg]
