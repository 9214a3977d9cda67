"""Interpreters of other Pythons on this machine."""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

_SAYS = "import sys; print('%d.%d' % sys.version_info[:2])"


@cache
def others() -> dict[str, Path]:
    """Working interpreters that the builder could have instead of its own, by MAJOR.MINOR."""
    found = {}
    for minor in (11, 12, 13, 14):
        version = f"3.{minor}"
        if minor == sys.version_info.minor:
            continue
        managed = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
        places = [*filter(None, [shutil.which(f"python{version}")]), *map(str, managed)]
        for place in places:
            done = subprocess.run(
                [place, "-I", "-c", _SAYS], capture_output=True, text=True, check=False
            )
            if done.returncode == 0 and done.stdout.strip() == version:
                found[version] = Path(place)
                break
    return found


def another() -> tuple[str, Path]:
    """The newest of them; skips the test where there is none."""
    if not others():
        pytest.skip("needs an interpreter of another Python (3.11 to 3.14)")
    return list(others().items())[-1]
