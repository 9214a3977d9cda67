"""The support file of a real installation, and of a medium before there is one."""

import stat

from tests.support.small import control, install

QUESTION = "sphinx of black quartz"


def test_a_medium_before_anything_is_installed(small_bundle, tmp_path):
    target = tmp_path / "support.txt"
    words = ("support", "--prefix", str(tmp_path / "none"), "--output", str(target))
    done = install(small_bundle, *words)
    assert done.returncode == 0, done.stderr
    text = target.read_text()
    assert f"bundle: {small_bundle.name}" in text
    assert "checks passed" in text
    assert "nothing is installed completely" in text
    assert "could not be read" not in text.partition("1. this call")[0].partition("CONTENTS")[2]
    assert not (tmp_path / "none").exists()


def test_a_server_that_runs(host, tmp_path):
    assert control(host, "ask", QUESTION).returncode == 0
    key = (host / "etc/api-key").read_text().strip()
    log = host / "state/logs/server.log"
    with log.open("a") as more:
        more.write(f"Received request x: prompt: '{QUESTION}'\nBearer {key}\n")
    target = tmp_path / "support.txt"
    done = control(host, "support", "--output", str(target))
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    text = target.read_text().replace("\n    | ", "")
    assert key not in text
    assert QUESTION not in text
    assert "--served-model-name" in text
    assert "running=True" in text
    front = text.partition("CONTENTS")[2].partition("1. this call")[0]
    assert "could not be read" not in front
    for known in ("sha256 of its manifest: ", "sequence", "serve.toml", "installed: "):
        assert known in text
