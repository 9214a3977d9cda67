"""Overlays: a bundle on top of a Python environment that the isolated host already has.

Many isolated hosts hold a vendor's PyTorch image. The host's *inventory* says which distributions
that environment has; the bundle carries only the rest, and its environment becomes a virtual
environment (PEP 405) on top, which changes nothing in the one below.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from manifests import members, tree
from manifests.digests import sha256
from manifests.findings import Finding
from manifests.inventory import Distribution, Inventory

#: Processed after every other .pth file of its folder, so that what the bundle carries comes first.
_LINK_TO_BASE = "zz_vllm_bundle_base.pth"
_ANOTHER = (
    "name the Python of the environment whose inventory the bundle was made with, "
    "or make a bundle with this one's inventory (`bundlectl inventory`)"
)
_AGAIN = (
    "put the environment back as it was, or make a bundle with an inventory of what it is now "
    "(`bundlectl inventory`)"
)


@dataclass(frozen=True)
class Provided:
    """A distribution that the host's environment has, and that the bundle does not carry."""

    name: str  # normalised (PEP 503)
    version: str  # PEP 440
    record_sha256: str  # of its RECORD, which lists every file of it; empty where it has none


@dataclass(frozen=True)
class Overlay:
    """What the host's environment has to be, as its inventory said when the lock was made."""

    python: str  # "3.12.3"; another patch release does as well
    soabi: str  # sysconfig's SOABI, "cpython-312-x86_64-linux-gnu"
    provided: tuple[Provided, ...]  # sorted by name


@dataclass(frozen=True)
class Base:
    """The environment below an installed overlay, as a receipt keeps it. Paths are absolute."""

    python: str  # the interpreter that the operator named
    executable: str  # what it is in the end (sys._base_executable), for the link in bin/
    version: str  # "3.12.3"
    sites: tuple[str, ...]  # folders of its packages, in the order of its sys.path


def differences(overlay: Overlay, inventory: Inventory) -> tuple[Finding, ...]:
    """Where an environment is not the one that a bundle was made for; in order of weight.

    What it has beside is its own affair, and so is another patch release of its Python.
    """
    wrong = wrong_python(overlay, inventory)
    if wrong is not None:
        return (wrong,)
    there = inventory.by_name()
    found = (_difference(one, there.get(one.name)) for one in overlay.provided)
    return tuple(finding for finding in found if finding is not None)


def wrong_python(overlay: Overlay, inventory: Inventory) -> Finding | None:
    """Why an interpreter can't take what a bundle holds; None where it can."""
    host, wanted = inventory.interpreter, overlay.python.split(".")[:2]
    if host.version.split(".")[:2] != wanted:
        other = f"its Python is {host.version}, the bundle was made for {'.'.join(wanted)}"
        return Finding(other, _ANOTHER)
    if host.soabi != overlay.soabi:
        other = f"its Python loads {host.soabi} modules, the bundle was made for {overlay.soabi}"
        return Finding(other, _ANOTHER)
    return None


def _difference(wanted: Provided, found: Distribution | None) -> Finding | None:
    if found is None:
        return Finding(f"{wanted.name} {wanted.version} is not there", _AGAIN)
    if found.version != wanted.version:
        what = f"{wanted.name} is {found.version}, needed is {wanted.version}"
        return Finding(what, _AGAIN)
    if found.record_sha256 != wanted.record_sha256:
        what = f"{wanted.name} {wanted.version} has other files (its RECORD is another)"
        return Finding(what, _AGAIN)
    return None


def generated(base: Base) -> tuple[tuple[tree.Entry, bytes], ...]:
    """What makes an environment a virtual one (PEP 405) on top of a base: entries and contents.

    Paths are below the environment, and folders are left out. The links lead out of it, to the
    base's interpreter.
    """
    python = ".".join(base.version.split(".")[:2])
    home = base.executable.rpartition("/")[0] or "/"
    settings = f"home = {home}\ninclude-system-site-packages = false\nversion = {base.version}\n"
    # A folder's own .pth files count only where site is asked for it. In ASCII: until Python 3.12
    # such a file is read in the locale's encoding (site.addpackage).
    calls = [f"site.addsitedir({site!a})" for site in base.sites]
    line = "; ".join(("import site", *calls)) + "\n"
    return (
        _file("pyvenv.cfg", settings),
        *(
            (tree.Entry(f"bin/{name}", tree.LINK, target=base.executable), b"")
            for name in ("python", "python3", f"python{python}")
        ),
        _file(f"lib/python{python}/site-packages/{_LINK_TO_BASE}", line),
    )


def _file(path: str, text: str) -> tuple[tree.Entry, bytes]:
    content, hasher = text.encode(), sha256()
    hasher.update(content)
    return tree.Entry(path, size=len(content), sha256=hasher.hexdigest()), content


def installed(environment: Sequence[tree.Entry], base: Base) -> tuple[tree.Entry, ...]:
    """All that lies in an environment on top of a base."""
    known = {entry.path for entry in environment}
    made = members.with_folders(entry for entry, _ in generated(base))
    new = (entry for entry in made if entry.kind != tree.FOLDER or entry.path not in known)
    return (*environment, *new)


def unknown_base(overlay: Overlay) -> Base:
    """What stands for a base that no receipt tells: generated paths and kinds are the same."""
    return Base("", "unknown", overlay.python, ())


def check(overlay: Overlay, environment: Sequence[tree.Entry], where: str) -> None:
    """Refuse an environment that has something of its own where files are generated.

    Raises IntegrityError; `where` starts its sentences.
    """
    tree.check(installed(environment, unknown_base(overlay)), where)
