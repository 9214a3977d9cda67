import base64
import hashlib
import json
import os
import stat
import tempfile
from urllib.parse import quote

import pytest

from bundlectl import support
from bundlectl.cli import main
from bundlectl.layout import Layout
from bundlectl.supportpaper import LIMIT, WIDTH
from manifests.errors import UsageError
from tests.unit.test_bundlectl_loglines import PROMPTS, SECRET, TELLING
from tests.unit.test_bundlectl_redaction import KEY, PEM, SHAPES

PASSWORD = "correct-horse-battery-staple"
SETTINGS = f"""\
host = "127.0.0.1"
extra_arguments = ["--download-dir", "http://karin:{PASSWORD}@files/x"]
[environment]
VLLM_LOGGING_LEVEL = "DEBUG"
INTERNAL_TOKEN = "{PASSWORD}"
HARMLESS_NAME = "{PASSWORD}"
WORD = "hunterwords"
DB_PASSWORD = "48151623"
"""


@pytest.fixture
def layout(tmp_path):
    """An installation without a release, which has logs of servers all the same."""
    made = Layout(tmp_path / "prefix")
    made.create()
    made.config_file.write_text(SETTINGS)
    made.api_key.write_text(KEY + "\n")
    made.api_key.chmod(0o600)
    basic = base64.b64encode(f"user:{KEY}".encode()).decode()
    head = "(APIServer pid=1) INFO 11-30 15:14:13 [config/a.py:1] "
    secrets = [
        f"key {KEY}", f"url /x/{quote(KEY, safe='')}", json.dumps({"k": KEY}), f"blob {basic}",
        f"password {PASSWORD}", *(text for text, _ in SHAPES.values()), PEM,
    ]  # fmt: skip
    log = [head + part for text in secrets for part in text.split("\n")]
    for wording in PROMPTS.values():
        log += [*wording.split("\n"), f"{head}the next"]
    made.logs.joinpath("server.log").write_text("\n".join([*log, *TELLING]) + "\n")
    made.logs.joinpath("server.log.1").write_bytes(b"\xff\x00\x1b[31m" + KEY.encode() * 3 + b"\n")
    return made


def written(layout, tmp_path, *words):
    target = tmp_path / "support.txt"
    status = main(["support", "--prefix", str(layout.prefix), "--output", str(target), *words])
    assert status == 0
    return target.read_text("utf-8")


def unbroken(text):
    return text.replace("\n    | ", "")


def test_no_planted_secret_and_no_prompt_is_in_it(layout, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", PASSWORD + "-2")
    monkeypatch.setenv("https_proxy", f"http://karin:{PASSWORD}@proxy:1")
    text = unbroken(written(layout, tmp_path, "--log-lines", "5000"))
    assert KEY not in text
    assert KEY[:12] not in text
    assert base64.b64encode(KEY.encode()).decode()[:20] not in text
    for secret in (PASSWORD, SECRET, "hunterwords", "48151623"):
        assert secret not in text
    for name, (_, gone) in SHAPES.items():
        assert gone not in text, name
    for line in PEM.splitlines()[1:-1]:
        assert line not in text


def test_what_helps_is_in_it(layout, tmp_path):
    text = unbroken(written(layout, tmp_path))
    for line in TELLING:
        if "NCCL" not in line:
            assert line in text
    assert "VLLM_LOGGING_LEVEL = DEBUG" in text
    assert "INTERNAL_TOKEN = [removed:named-secret]" in text
    assert "kernel: Linux" in text
    assert "checks passed" in text
    assert "\ngpu-out-of-memory" in text or "out-of-memory" in text
    assert "known-secret" in text.partition("CONTENTS")[0]


def test_it_is_small_printable_private_and_told_of(layout, tmp_path, capsys):
    old = os.umask(0)
    try:
        text = written(layout, tmp_path, "--json", "--log-lines", "100000")
    finally:
        os.umask(old)
    target = tmp_path / "support.txt"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert list(tmp_path.glob(".support*")) == []
    assert len(text.encode()) <= LIMIT
    for line in text.split("\n"):
        assert line.isprintable()
        assert len(line) <= WIDTH
    record = json.loads(capsys.readouterr().out)
    assert record["sha256"] == hashlib.sha256(target.read_bytes()).hexdigest()
    assert record["removed"]["request-line"] > 5
    assert record["size"] == target.stat().st_size


def test_names_and_addresses_go_where_that_is_asked(layout, tmp_path, monkeypatch):
    monkeypatch.setattr("platform.node", lambda: "gpu-node7.example.org")
    monkeypatch.setenv("SUDO_USER", "karin")
    log = layout.logs / "server.log"
    log.write_text("INFO 11-30 15:14:13 [a.py:1] karin of gpu-node7 at 10.1.2.3, /home/lee/x\n")
    plain = written(layout, tmp_path)
    assert "karin of gpu-node7 at 10.1.2.3, /home/lee/x" in plain
    text = written(layout, tmp_path, "--anonymous")
    for name in ("karin", "gpu-node7", "10.1.2.3", "lee/"):
        assert name not in text
    assert "host-1" in text
    assert "were replaced" in text


def damage_nothing(layout):
    pass


def damage_papers(layout):
    layout.receipts.joinpath("x.json").write_text("{")
    layout.config_file.write_text("host = [\nINTERNAL_TOKEN = 'abc-def-ghi'\n")
    layout.api_key.write_bytes(b"\xff\xfe")
    layout.run.joinpath("server.json").write_text("rubbish")
    layout.state.joinpath("audit.json").write_text("rubbish")
    layout.current.symlink_to("releases/../../elsewhere")


def damage_folders(layout):
    for folder in (layout.receipts, layout.journal):
        folder.rmdir()
    layout.receipts.write_text("a file")


def damage_instances(layout):
    layout.instances.mkdir()
    layout.instances.joinpath("two").symlink_to("two")


@pytest.mark.parametrize(
    "damage", [damage_nothing, damage_papers, damage_folders, damage_instances]
)
def test_a_section_that_fails_says_so_and_costs_no_other(layout, tmp_path, damage):
    damage(layout)
    text = written(layout, tmp_path)
    assert "Traceback" not in text.partition("log /")[0]
    assert "abc-def-ghi" not in text
    assert "kernel: Linux" in text
    assert "EngineCore failed to start" in text
    if damage is damage_papers:
        assert "could not be read" in text
        assert "not valid TOML" in text


def test_without_any_installation(tmp_path):
    text = written(Layout(tmp_path / "none"), tmp_path)
    assert "nothing is installed completely" in text
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["there", "link", "no/such/folder"])
def test_a_place_that_can_not_be_a_file_is_refused(layout, tmp_path, capsys, name):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    words = ["support", "--prefix", str(layout.prefix), "--output", str(tmp_path / name)]
    assert main(words) == 2
    assert "choose another --output" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_without_room_leaves_nothing(layout, tmp_path, monkeypatch, capsys):
    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    words = ["support", "--prefix", str(layout.prefix), "--output", str(tmp_path / "s.txt")]
    assert main(words) == 4
    assert "No space left" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [layout.prefix]


def test_where_this_folder_can_not_be_written_it_goes_home_or_where_there_is_room(
    tmp_path, monkeypatch
):
    spare = tmp_path / "spare"
    spare.mkdir()
    said = []
    monkeypatch.chdir("/proc/self")  # not even root makes a file there
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(spare))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert support._somewhere(said.append) == tmp_path
    monkeypatch.setenv("HOME", "/proc/self")
    assert support._somewhere(said.append) == spare
    assert str(tmp_path) in said[0]
    assert str(spare) in said[1]
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/proc/self")
    with pytest.raises(UsageError, match="can be written"):
        support._somewhere(said.append)
