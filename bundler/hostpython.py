"""Stage a copy of an interpreter of this machine so that it runs from any folder.

Python built from source (pyenv, python.org, the `python` container images) keeps upstream's layout.
Debian and Ubuntu change theirs: packages go to PREFIX/local/lib/…/dist-packages, and `site` looks
there. The copy gets upstream's layout back by two small, visible additions to its standard library:

- `sitecustomize.py` adds lib/pythonX.Y/site-packages to sys.path. (Editing site.py would have no
  effect: since 3.11 an installed interpreter takes `site` from a frozen copy inside its binary.)
- a few lines in `sysconfig` make posix_prefix the default scheme, so that pip installs
  to lib/pythonX.Y/site-packages.

The prefix that was compiled into the executable stays in it: the interpreter falls back on it only
where it can't find its standard library beside itself, and the linker shares that string's tail
with others (overwriting ".../3.11.7" also took the version number away).
"""

import ast
import json
import os
import pprint
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bundler.condapackage import PLACEHOLDER
from bundler.hostlibs import loaded, set_rpath
from manifests.errors import UsageError
from manifests.records import from_data

#: Never needed by a server, or needing libraries that a server host lacks.
_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter",
    "turtledemo", "ensurepip", "lib2to3", "config-*", "*.a", "*.o", "EXTERNALLY-MANAGED",
    "sitecustomize.py", "_distutils_system_mod.py",
    "_tkinter.*", "nis.*", "_dbm.*", "_gdbm.*", "_test*.so", "_xx*.so", "xxlimited*",
    "_ctypes_test.*",
)  # fmt: skip

#: Asked of the interpreter itself; a script, because it may be another one than ours.
_QUESTIONS = """
import json, os, platform, sys, sysconfig
stdlib = os.path.dirname(os.__file__)
json.dump({
    "implementation": sys.implementation.name,
    "system": sys.platform,
    "machine": platform.machine(),
    "version": platform.python_version(),
    "glibc": platform.libc_ver()[1] if platform.libc_ver()[0] == "glibc" else "",
    "debug": hasattr(sys, "gettotalrefcount"),
    "prefix": sys.base_prefix,
    "executable": os.path.realpath(getattr(sys, "_base_executable", sys.executable)),
    "stdlib": stdlib,
    "multiarch": getattr(sys.implementation, "_multiarch", ""),
    "platlibdir": sys.platlibdir,
    "patched_layout": "deb_system" in sysconfig.get_scheme_names(),
}, sys.stdout)
"""

_SITECUSTOMIZE = '''"""Added by vllm-bundle: site-packages instead of Debian's dist-packages."""

import os
import site
import sys


def getsitepackages(prefixes=None):
    """As in an interpreter built from upstream's sources."""
    version = "python%d.%d" % sys.version_info[:2]
    return [
        os.path.join(prefix, "lib", version, "site-packages")
        for prefix in dict.fromkeys(prefixes or site.PREFIXES)
    ]


site.getsitepackages = getsitepackages
for folder in getsitepackages():
    site.addsitedir(folder)
'''

#: Put before this line, because default arguments of later functions already ask for the scheme.
_SYSCONFIG_MARK = "def get_preferred_scheme("
_SYSCONFIG = """# Added by vllm-bundle: upstream's scheme instead of Debian's posix_local.
def _get_preferred_schemes():
    return {"prefix": "posix_prefix", "home": "posix_home", "user": "posix_user"}


"""

#: Variables of `sysconfig` that are paths below the prefix, as upstream's Makefile sets them.
_PATH_VARIABLES = {
    "prefix": "",
    "exec_prefix": "",
    "host_prefix": "",
    "host_exec_prefix": "",
    "BINDIR": "/bin",
    "BINLIBDEST": "/lib/python{xy}",
    "CONFINCLUDEDIR": "/include",
    "CONFINCLUDEPY": "/include/python{xy}",
    "DESTDIRS": "",
    "DESTLIB": "/lib/python{xy}",
    "DESTSHARED": "/lib/python{xy}/lib-dynload",
    "INCLUDEDIR": "/include",
    "INCLUDEPY": "/include/python{xy}",
    "LIBDEST": "/lib/python{xy}",
    "LIBDIR": "/lib",
    "LIBPC": "/lib/pkgconfig",
    "LIBPL": "/lib/python{xy}/config-{xy}",
    "MACHDESTLIB": "/lib/python{xy}",
    "MANDIR": "/share/man",
    "SCRIPTDIR": "/lib",
    "datarootdir": "/share",
}


@dataclass(frozen=True)
class Interpreter:
    """An interpreter of this machine; in a virtual environment the one it was made from."""

    implementation: str
    system: str
    machine: str
    version: str
    glibc: str  # empty where the C library is another one
    debug: bool
    prefix: str
    executable: str
    stdlib: str
    multiarch: str
    platlibdir: str
    patched_layout: bool  # Debian's and Ubuntu's changes to sysconfig and site

    @property
    def series(self) -> str:
        """Major and minor version, "3.11"."""
        return ".".join(self.version.split(".")[:2])


def describe(python: str | os.PathLike[str]) -> Interpreter:
    """Ask an interpreter about itself.

    Raises UsageError where it can't be run or where a copy of it would be of no use: other than
    CPython on Linux x86_64 with glibc, or a debug build.
    """
    try:
        answer = subprocess.run(
            [python, "-I", "-B", "-c", _QUESTIONS], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UsageError(f"{python}: can't be run as a Python interpreter ({error})") from None
    return accept(from_data(Interpreter, json.loads(answer.stdout), str(python)))


def accept(found: Interpreter) -> Interpreter:
    """An interpreter that can be copied, unchanged; UsageError naming everything against it."""
    against = [
        f"{what} is {value or 'unknown'}, {needed} is needed"
        for what, value, needed in (
            ("the implementation", found.implementation, "cpython"),
            ("the system", found.system, "linux"),
            ("the processor", found.machine, "x86_64"),
            ("its library folder", found.platlibdir, "lib"),
        )
        if value != needed
    ]
    if not found.glibc:
        against.append("its C library is not glibc (Alpine and other musl systems)")
    if found.debug:
        against.append("it is a debug build")
    if against:
        raise UsageError(
            f"the interpreter {found.executable} can't become the bundle's Python",
            findings=against,
            mend="run `bundle` with another interpreter, or name a channel with --channel URL",
        )
    return found


def stage(found: Interpreter, root: Path) -> list[Path]:
    """Copy the interpreter below `root` in upstream's layout.

    Returns the originals of the ELF files copied, the executable first. Raises OSError where a
    file can't be read or written.
    """
    lib = root / "lib" / f"python{found.series}"
    shutil.copytree(found.stdlib, lib, ignore=_LEFT_OUT, ignore_dangling_symlinks=True)
    (lib / "site-packages").mkdir()
    (lib / "site-packages" / "README.txt").write_text("Packages are installed here.\n")
    _stage_headers(found, root / "include" / f"python{found.series}")
    for data in lib.glob("_sysconfigdata*.py"):
        _relocate_sysconfig(found, data)
    if found.patched_layout:
        _restore_layout(lib)
    copies = _stage_binaries(found, root)
    for module in sorted((lib / "lib-dynload").glob("*.so")):
        copies[module] = Path(found.stdlib, "lib-dynload", module.name)
    for copy in copies:
        set_rpath(copy, "$ORIGIN/" + os.path.relpath(root / "lib", copy.parent))
    return list(copies.values())


def _restore_layout(lib: Path) -> None:
    """Upstream's places for packages in Debian's or Ubuntu's standard library."""
    (lib / "sitecustomize.py").write_text(_SITECUSTOMIZE, "utf-8")
    package = lib / "sysconfig" / "__init__.py"
    module = package if package.exists() else lib / "sysconfig.py"
    text = module.read_text("utf-8")
    if _SYSCONFIG_MARK not in text:
        raise UsageError(
            f"this distribution changed {module.name} in a way that is not known here",
            mend="run `bundle` with an interpreter from another source, or name a channel",
        )
    module.write_text(text.replace(_SYSCONFIG_MARK, _SYSCONFIG + _SYSCONFIG_MARK, 1), "utf-8")


def _stage_binaries(found: Interpreter, root: Path) -> dict[Path, Path]:
    """The executable and its libpython, if it has one; copy → original."""
    (root / "bin").mkdir()
    executable = Path(found.executable)
    python = root / "bin" / f"python{found.series}"
    shutil.copy(executable, python)
    for link in ("python", "python3"):
        (root / "bin" / link).symlink_to(python.name)
    copies = {python: executable}
    for soname, path in loaded([executable]).items():
        if soname.startswith("libpython"):
            copies[Path(shutil.copy(path, root / "lib" / soname))] = path
    return copies


def _stage_headers(found: Interpreter, target: Path) -> None:
    """Headers are optional: a Debian without python3-dev has none."""
    source = Path(found.prefix, "include", f"python{found.series}")
    if not (source / "Python.h").exists():
        return
    shutil.copytree(source, target)
    # Debian's pyconfig.h only includes the one for this architecture, by a path below /usr/include.
    own = source.parent / found.multiarch / source.name / "pyconfig.h"
    if found.multiarch and own.exists():
        shutil.copy(own, target)


def _relocate_sysconfig(found: Interpreter, data: Path) -> None:
    """Make every path variable follow the prefix, and let no other name the builder's folders."""
    statement = ast.parse(data.read_text("utf-8")).body[-1]
    assert isinstance(statement, ast.Assign)
    variables = ast.literal_eval(statement.value)
    for name, tail in _PATH_VARIABLES.items():
        if name in variables:
            variables[name] = PLACEHOLDER + tail.format(xy=found.series)
    if found.prefix not in ("/usr", "/usr/local"):
        whole = re.compile(re.escape(found.prefix) + r"(?![\w.-])")
        for name, value in variables.items():
            if isinstance(value, str):
                variables[name] = whole.sub(PLACEHOLDER, value)
    text = pprint.pformat(variables, sort_dicts=True, width=100)
    data.write_text(f"# See bundler.hostpython.\nbuild_time_vars = {text}\n", "utf-8")
