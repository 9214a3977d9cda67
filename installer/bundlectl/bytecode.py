"""Compile a release's Python packages before its first start, as its server would at that start.

The bytecode goes where the server looks for it (PYTHONPYCACHEPREFIX, in the cache): nothing is
written beside the sources, neither in a release nor in an environment below it. It only saves time,
so nothing here fails: what is not compiled is compiled by the start that needs it, and what a kill
left undone by the next install.

Python believes what lies there, and whoever owns the cache may put there what they like: where that
is another account, nothing is run with it and nothing in it is removed.
"""

import contextlib
import os
import shutil
import subprocess

from bundlectl.environment import BYTECODE
from bundlectl.layout import Layout
from manifests import digests

#: Processes that compile. Each takes some 50 MB, and files are small: more hardly help.
_WORKERS = 16
#: Bytes that are left free; bytecode of a real stack takes 0.3 GB.
_RESERVE = 2 << 30
#: Compiles all packages that the interpreter running it would find, but not the standard library,
#: which a start compiles in a second. Of hundreds of models one is served. Something that serves
#: already goes before.
_COMPILE = """\
import compileall, os, re, sys
os.nice(10)
standard = os.path.dirname(os.__file__)
for folder in sys.path:
    if os.path.isdir(folder) and folder not in (standard, standard + "/lib-dynload"):
        left_out = re.compile(re.escape(folder) + "/(.*/)?(models|tests?|testing)/")
        compileall.compile_dir(folder, quiet=2, rx=left_out, workers=int(sys.argv[1]))
"""


def prepare(layout: Layout, release: str) -> None:
    """Compile what the server of a release imports, as far as it is not compiled yet."""
    if not _is_ours(layout):
        return
    folder = layout.cache / BYTECODE
    words = (str(layout.environment(release) / "bin/python"), "-s", "-P")
    count = str(min(digests.workers(), _WORKERS))
    # As a variable: workers get the options of the interpreter, but not -X pycache_prefix (from
    # Python 3.12 on they are no forks), and would write beside the sources.
    clean = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "PYTHONPYCACHEPREFIX": str(folder)}
    with contextlib.suppress(OSError):
        folder.mkdir(0o700, exist_ok=True)
        if shutil.disk_usage(folder).free > _RESERVE:
            subprocess.run(
                [*words, "-c", _COMPILE, count], env=clean, capture_output=True, check=False
            )


def forget(layout: Layout, release: str) -> None:
    """Remove the bytecode of a release, of every instance; it repeats the sources' full paths."""
    for sources in {layout.release(release), layout.release(release).resolve()}:
        for one in filter(_is_ours, layout.every()):
            folder = one.cache / BYTECODE / sources.relative_to("/")
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(layout: Layout) -> bool:
    with contextlib.suppress(OSError):
        return layout.cache.lstat().st_uid == os.geteuid()
    return False
