"""Checks of the Python environment below an overlay, against what the bundle was made for."""

from bundlectl import basepython
from bundlectl.checks.model import STOP, Check, Needs, Verdict, listed
from bundlectl.host import Host
from manifests import overlay

#: Distributions that are named on one line.
_SHOWN = 12
_NONE = Verdict(True, "the bundle brings its own")


def _python(needs: Needs, host: Host) -> Verdict:
    if needs.overlay is None:
        return _NONE
    below = host.below
    if below is None or below.inventory is None:
        mend = f"put {needs.base.python} back as it was" if needs.base else basepython.MEND
        return Verdict(False, below.problem if below else "none is named", mend=mend)
    wrong = overlay.wrong_python(needs.overlay, below.inventory)
    if wrong is not None:
        return Verdict(False, f"{below.python}: {wrong.text}", mend=wrong.mend)
    program = basepython.executable(below.inventory)
    if needs.base is not None and program != needs.base.executable:
        moved = f"{below.python} is {program} now, and was {needs.base.executable}"
        return Verdict(False, f"{moved} when the release was put on it")
    return Verdict(True, f"{below.python}: Python {below.inventory.interpreter.version}")


def _environment(needs: Needs, host: Host) -> Verdict:
    if needs.overlay is None:
        return _NONE
    if host.below is None or host.below.inventory is None or not _python(needs, host).passed:
        return Verdict(True, "not looked at: its Python is not the one")
    found = overlay.differences(needs.overlay, host.below.inventory)
    texts = tuple(one.text for one in found)
    mends = "; ".join(dict.fromkeys(one.mend for one in found))
    count = len(needs.overlay.provided)
    right = f"{count} distributions of {host.below.python} are what the bundle was made for"
    return Verdict(not found, listed(texts, _SHOWN) or right, mend=mends)


CHECKS = (
    Check("base-python", STOP, "the Python that an overlay is put on", _python,
          "put that environment back as it was, or install into another --prefix, on another one",
          can_be_ignored=False, at_start=True),
    Check("base-environment", STOP, "the distributions that an overlay finds below it",
          _environment, at_start=True),
)  # fmt: skip
