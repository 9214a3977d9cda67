"""Why systemd could not execute a program: its status 203/EXEC, looked for before it happens.

A program that runs by hand may not run as a service: the label that SELinux goes by depends on
where a file was first written, and systemd may execute only some of them.
"""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

_SELINUX = Path("/sys/fs/selinux")
_LABEL = "security.selinux"  # the extended attribute, selinux(8)
#: systemd.service(5), ExecStart: no quoting helps in a program's path ("special characters").
_UNNAMEABLE = set("\"'\\")
#: Types that init_t may not execute in the reference policy: homes, temporary folders, and what has
#: no label of its own.
_REFUSED = (
    "user_home_t",
    "user_home_dir_t",
    "data_home_t",
    "config_home_t",
    "cache_home_t",
    "gconf_home_t",
    "admin_home_t",
    "home_root_t",
    "home_bin_t",
    "user_tmp_t",
    "tmp_t",
    "default_t",
    "unlabeled_t",
    "file_t",
    "mnt_t",
    "var_t",
    "removable_t",
    "nfs_t",
    "cifs_t",
)


@dataclass(frozen=True)
class Obstacle:
    """What keeps systemd from executing a program, and the command that mends it."""

    what: str
    mend: str


def obstacles(program: Path, selinux: Path = _SELINUX) -> tuple[Obstacle, ...]:
    """Everything that gives 203/EXEC, in the order in which it is worth looking."""
    quoted = shlex.quote(str(program))
    if not program.is_file():
        return (Obstacle(f"{program} is not there", "install the bundle again, or repair it"),)
    found = []
    if _UNNAMEABLE & set(str(program)):
        mend = "install into a folder whose path has no quotes and backslashes"
        found.append(Obstacle(f"systemd takes no program with such a path: {program}", mend))
    if not program.stat().st_mode & 0o111:
        found.append(Obstacle(f"{program} is not executable", f"chmod 755 {quoted}"))
    if os.statvfs(program).f_flag & os.ST_NOEXEC:
        mend = "mount that file system without noexec, or install elsewhere"
        found.append(Obstacle(f"{program} lies on a file system mounted noexec", mend))
    if _enforcing(selinux) and (kind := _type(label(program))) in _REFUSED:
        folder, pattern = (shlex.quote(f"{program.parent}{end}") for end in ("", "(/.*)?"))
        mend = (
            f"semanage fcontext -a -t bin_t {pattern} && restorecon -R {folder}; "
            f"or, until files are labelled anew: chcon -R -t bin_t {folder}"
        )
        what = f"SELinux does not let systemd execute {program}, whose type is {kind}"
        found.append(Obstacle(what, mend))
    return tuple(found)


def label(program: Path) -> str:
    """The SELinux label of a file, `user:role:type:level`; empty where it has none."""
    try:
        return os.getxattr(program, _LABEL).decode(errors="replace").rstrip("\0")
    except OSError:
        return ""


def _type(text: str) -> str:
    parts = text.split(":")
    return parts[2] if len(parts) > 2 else ""


def _enforcing(selinux: Path) -> bool:
    try:
        return (selinux / "enforce").read_text("ascii").strip() == "1"
    except (OSError, ValueError):
        return False
