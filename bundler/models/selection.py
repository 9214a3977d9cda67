"""Which files of a model go into a bundle: what the server loads, once, and what explains it."""

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from manifests import bundle, tree
from manifests.checkpoint import Rules, is_code, is_pickle
from manifests.names import check_path
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


def select(names: Iterable[str], rules: Rules) -> tuple[list[str], list[str]]:
    """Sorted names that are taken, and those that are left out.

    Weights are taken from the top folder only, which is where servers look for them. Pickles are
    taken where the rules allow them and there is nothing better.
    """
    listed = sorted(names)
    weights = [name for name in listed if name.endswith(SUFFIX) and "/" not in name]
    plain = [name for name in weights if not CONSOLIDATED.fullmatch(name)]
    chosen = set(plain or weights)
    pickles = rules.pickle and not weights
    taken = [name for name in listed if name in chosen or _is_taken(name, rules, pickles=pickles)]
    return taken, sorted(set(listed).difference(taken))


def check_names(names: Iterable[str]) -> None:
    """Refuse names that a bundle can't hold, by themselves or beside each other.

    Raises IntegrityError.
    """
    entries = (tree.Entry(check_path(name)) for name in names)
    tree.check(bundle.with_folders(entries), "the model")


def _is_taken(name: str, rules: Rules, *, pickles: bool) -> bool:
    path = PurePosixPath(name)
    if any(part in OTHER_FORMATS or part.startswith(".") for part in path.parts):
        return False
    if LEFTOVERS.fullmatch(path.name):
        return False
    if is_code(name):
        return rules.remote_code
    if is_pickle(name) or PICKLE_INDEX.fullmatch(path.name):
        return pickles and "/" not in name
    return path.suffix in SUFFIXES or PAPERS.fullmatch(path.name) is not None
