"""What gives 203/EXEC, found before it happens."""

import os
import re

import pytest

from bundlectl.startable import obstacles
from tests.support.mounts import needs_root, tmpfs


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "bin/bundlectl"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def enforcing(tmp_path):
    folder = tmp_path / "selinux"
    folder.mkdir()
    (folder / "enforce").write_text("1")
    return folder


def labelled(path, kind: str) -> None:
    try:
        os.setxattr(path, "security.selinux", f"system_u:object_r:{kind}:s0\0".encode())
    except OSError as error:
        pytest.skip(f"labels can't be written here: {error}")


def test_a_program_that_runs_has_none(program, enforcing):
    assert obstacles(program) == ()
    assert obstacles(program, enforcing) == ()  # without any label


def test_a_program_that_is_not_there(tmp_path):
    (found,) = obstacles(tmp_path / "bundlectl")
    assert "is not there" in found.what


def test_a_program_without_its_bit(program):
    program.chmod(0o644)
    (found,) = obstacles(program)
    assert found.mend == f"chmod 755 {program}"


@pytest.mark.parametrize("name", ['a"b', "a'b", "a\\b"])
def test_a_path_that_systemd_can_not_write(tmp_path, name):
    program = tmp_path / name / "bundlectl"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (found,) = obstacles(program)
    assert "systemd takes no program with such a path" in found.what


@needs_root
def test_a_file_system_without_programs(tmp_path):
    with tmpfs(tmp_path / "mounted", "noexec") as folder:
        program = folder / "bundlectl"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        (found,) = obstacles(program)
    assert "noexec" in found.what


@pytest.mark.parametrize("kind", ["user_home_t", "admin_home_t", "user_tmp_t", "default_t"])
def test_a_label_that_the_init_system_may_not_execute(program, enforcing, kind):
    labelled(program, kind)
    (found,) = obstacles(program, enforcing)
    assert re.search(rf"whose type is {kind}$", found.what)
    assert f"chcon -R -t bin_t {program.parent}" in found.mend
    assert "semanage fcontext" in found.mend and "restorecon -R" in found.mend


@pytest.mark.parametrize("kind", ["bin_t", "usr_t", "lib_t"])
def test_a_label_that_it_may(program, enforcing, kind):
    labelled(program, kind)
    assert obstacles(program, enforcing) == ()


@pytest.mark.parametrize("mode", ["0", "", None])
def test_a_label_means_nothing_where_selinux_only_warns(program, enforcing, mode):
    labelled(program, "user_home_t")
    (enforcing / "enforce").unlink()
    if mode is not None:
        (enforcing / "enforce").write_text(mode)
    assert obstacles(program, enforcing) == ()
