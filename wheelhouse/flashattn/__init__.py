"""FlashAttention for a described GPU: built from its published source, or brought by the user.

At lock time `recipe` pins a build, at create time `obtain` carries it out; `inspect` judges a wheel
of the user's. `archs` and `outlook` say beforehand what would be built.
"""

from wheelhouse.flashattn.architectures import archs
from wheelhouse.flashattn.building import Builder, check_glibc, obtain
from wheelhouse.flashattn.given import inspect
from wheelhouse.flashattn.plan import Outlook, outlook
from wheelhouse.flashattn.recipes import recipe
from wheelhouse.flashattn.resources import Machine, this_machine

__all__ = [
    "Builder",
    "Machine",
    "Outlook",
    "archs",
    "check_glibc",
    "inspect",
    "obtain",
    "outlook",
    "recipe",
    "this_machine",
]
