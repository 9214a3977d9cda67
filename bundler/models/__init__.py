"""Models and where they come from: a folder, a Hub's cache, a Hub.

Every source first says what it would take, with digests (`lock`), then hands out the files
(`fetch`). What is fetched is judged by `manifests.checkpoint` before anybody packs it.
"""

from bundler.models.resolve import resolve
from bundler.models.source import ModelSource, Snapshot, stream

__all__ = ["ModelSource", "Snapshot", "resolve", "stream"]
