"""Which files of a model go into a bundle: what the server loads, once, and what explains it."""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

from manifests import members, tree
from manifests.checkpoint import Rules
from manifests.errors import UsageError
from manifests.extras import HUB
from manifests.names import check_path
from manifests.risks import is_code, is_pickle
from manifests.shards import SUFFIX

#: By suffix: configuration, tokenizer, processor and generation; chat templates; vocabularies.
SUFFIXES = frozenset({".json", ".jinja", ".txt", ".model", ".tiktoken"})
#: By name, whatever the suffix: what a person or an auditor wants to read.
PAPERS = re.compile(r"(licen[cs]e|notice|copying|use_policy|readme)([._-].*)?", re.IGNORECASE)
#: Folders that hold the same weights in another format.
OTHER_FORMATS = frozenset({"original", "onnx", "openvino", "coreml", "gguf", "metal", "flax"})
#: What training leaves behind, and indexes of weights in formats that are not taken.
LEFTOVERS = re.compile(
    r"(trainer_state|training_args|optimizer|scheduler|rng_state)[\w.-]*|.+\.(h5|msgpack)\.index\.json"
)
PICKLE_INDEX = re.compile(r".+\.bin\.index\.json")
#: Mistral's own format, beside the same weights as safetensors.
CONSOLIDATED = re.compile(r"consolidated.*\.safetensors")
#: What leads to a snapshot in a Hub's cache.
_REFERENCE = re.compile(rf"{HUB}/models--[^/]+/refs/main")
#: Names that are shown where a pattern matches none.
_SHOWN = 20


def select(names: Iterable[str], rules: Rules) -> tuple[list[str], list[str]]:
    """Sorted names that are taken, and those that are left out.

    Weights are taken from the top folder only, which is where servers look for them. Pickles are
    taken where the rules allow them and there is nothing better. The rules' `include` overrides
    all that, and `exclude` overrides both: patterns of whole paths in which `*` matches `/` too,
    as the Hub's own client reads them. Raises UsageError for a pattern that no name matches.
    """
    listed = sorted(names)
    for option, patterns in (("--include", rules.include), ("--exclude", rules.exclude)):
        _check_patterns(option, patterns, listed)
    weights = [name for name in listed if name.endswith(SUFFIX) and "/" not in name]
    plain = [name for name in weights if not CONSOLIDATED.fullmatch(name)]
    chosen = set(plain or weights)
    pickles = rules.pickle and not weights
    taken = [
        name
        for name in listed
        if not _matches(name, rules.exclude)
        and (
            name in chosen
            or _matches(name, rules.include)
            or _is_taken(name, rules, pickles=pickles)
        )
    ]
    return taken, sorted(set(listed).difference(taken))


def differs(names: Iterable[str], include: Iterable[str], exclude: Iterable[str]) -> str:
    """What a locked model's files have against patterns that are asked for; empty for nothing."""
    listed = sorted(names)
    for pattern in include:
        if not any(_matches(name, (pattern,)) for name in listed):
            return f"holds no file of the model for --include {pattern}"
    for pattern in exclude:
        for name in listed:
            if _matches(name, (pattern,)):
                return f"holds {name}, which --exclude {pattern} leaves out"
    return ""


def check_names(names: Iterable[str]) -> None:
    """Refuse names that a bundle can't hold, by themselves or beside each other.

    Raises IntegrityError.
    """
    entries = (tree.Entry(check_path(name)) for name in names)
    tree.check(members.with_folders(entries), "the model")


def _matches(name: str, patterns: Iterable[str]) -> bool:
    # A pattern of a folder means all that is in it.
    return any(fnmatchcase(name, p + "*" if p.endswith("/") else p) for p in patterns)


def _check_patterns(option: str, patterns: Sequence[str], names: Sequence[str]) -> None:
    for pattern in patterns:
        if not any(_matches(name, (pattern,)) for name in names):
            raise UsageError(
                f"{option} {pattern}: the model has no such file",
                why="a pattern stands for whole paths, and * for any part of them",
                mend="correct it, or leave it out",
                findings=[f"there is {name}" for name in names[:_SHOWN]]
                + ([f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []),
            )


def _is_taken(name: str, rules: Rules, *, pickles: bool) -> bool:
    path = PurePosixPath(name)
    if path.parts[0] == HUB and len(path.parts) > 1:  # code of other repositories, nothing else
        return rules.remote_code and (is_code(name) or _REFERENCE.fullmatch(name) is not None)
    if any(part in OTHER_FORMATS or part.startswith(".") for part in path.parts):
        return False
    if LEFTOVERS.fullmatch(path.name):
        return False
    if is_code(name):
        return rules.remote_code
    if is_pickle(name) or PICKLE_INDEX.fullmatch(path.name):
        return pickles and "/" not in name
    return path.suffix in SUFFIXES or PAPERS.fullmatch(path.name) is not None
