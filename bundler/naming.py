"""What a bundle is called unless a name was given."""

import re

from manifests.lock import Lock

#: Models that a bundle's own name lists.
_NAMED = 2


def bundle_name(locked: Lock) -> str:
    """`MODEL+STACK+GPU`, as a name that every file system takes.

    Two models are both named, more are counted; a bundle without an environment says so.
    """
    models = [model.name for model in locked.models]
    if len(models) > _NAMED:
        models = [models[0], f"{len(models) - 1}-more"]
    alone = () if locked.wheels else ("models-only",)
    alone = ("overlay",) if locked.overlay is not None else alone
    text = "+".join((*models, *alone, locked.stack, *locked.target.gpus)).lower()
    return re.sub(r"[^a-z0-9._+-]", "-", text)
