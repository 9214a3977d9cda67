"""What an audit of folders tells, beside what the tests of installing and repairing show."""

import os
import shutil
import subprocess
import sys

import pytest

from manifests import tree
from manifests.audit.installation import audit_tree, extras
from manifests.audit.report import EXTRA, INSTALLATION, Finding, Report
from tests.support.small import environment

ENTRIES = [tree.Entry("lib", tree.FOLDER), tree.Entry("lib/x", size=0, sha256="0" * 64)]


def test_how_to_mend_is_said_where_it_can_be():
    finding = Finding(EXTRA, "x")
    damaged = Report(INSTALLATION, "/x", (), 1, 1, (finding,))
    assert "sh install.sh repair" in damaged.text()
    assert damaged.as_record()["mend"] in damaged.text()
    for whole in (
        Report(INSTALLATION, "/x", (), 1, 1, ()),
        Report("media", "/x", (), 1, 1, (finding,)),
    ):
        assert "mend" not in whole.text()
        assert whole.as_record()["mend"] == ""


def test_a_folder_that_can_not_be_listed_is_told(tmp_path):
    """Every finding, never the first alone: what lies behind a closed door is one of them."""
    root = tmp_path / "tree"
    (root / "lib").mkdir(parents=True)
    (root / "lib/x").touch()
    (root / "lib").chmod(0)
    code = (
        "import sys; from pathlib import Path; from manifests import tree\n"
        "from manifests.audit.installation import audit_tree, extras\n"
        "entries = [tree.Entry('lib', tree.FOLDER), tree.Entry('lib/x', sha256='0' * 64)]\n"
        "found = audit_tree(Path(sys.argv[1]), entries)\n"
        "print(*(f'{f.problem}:{f.path}' for f in found))\n"
        "print(*(f'{f.problem}:{f.path}' for f in extras(Path(sys.argv[1]), entries)))\n"
    )
    launcher = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]
    command = [*(launcher if os.geteuid() == 0 else []), sys.executable, "-c", code, str(root)]
    if shutil.which(command[0]) is None:
        pytest.skip("this machine lacks setpriv")
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    (root / "lib").chmod(0o755)
    assert done.stdout.splitlines() == ["mode:lib unreadable:lib/x", "unreadable:lib"], done.stderr
    assert extras(root, ENTRIES) == []
    (root / "other").symlink_to("lib")
    assert [f.path for f in audit_tree(root, ENTRIES) if f.problem == EXTRA] == ["other"]
