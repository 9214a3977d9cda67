"""Create, carry, install, serve, ask, audit: the whole way with a stub as server."""

import json

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import bundle, control, free_port, install


@pytest.fixture
def installation(small_bundle, tmp_path):
    prefix = tmp_path / "opt with space"
    done = install(small_bundle, "--prefix", str(prefix), "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    yield prefix, done
    control(prefix, "stop")


def test_the_whole_way(installation, small_bundle):
    prefix, done = installation
    assert "answers at http://127.0.0.1:" in done.stdout
    assert "curl " in done.stdout
    assert str(prefix / "etc/api-key") in done.stdout

    on = json.loads(control(prefix, "ask", "Hello", "--thinking", "on", "--json").stdout)
    off = json.loads(control(prefix, "ask", "Hello", "--thinking", "off", "--json").stdout)
    assert on["prompt_tokens"] != off["prompt_tokens"]

    status = json.loads(control(prefix, "status", "--json").stdout)
    assert status["running"]
    assert status["release"] in status["releases"]

    for path in (small_bundle, prefix):
        assert bundle("audit", str(path)).returncode == 0
    assert control(prefix, "audit").returncode == 0

    # Idempotent: the same bundle again changes nothing and serves on.
    again = install(small_bundle, "--prefix", str(prefix))
    assert again.returncode == 0, again.stderr
    assert json.loads(control(prefix, "status", "--json").stdout)["pid"] == status["pid"]

    assert control(prefix, "stop").returncode == 0
    assert control(prefix, "status").returncode == ExitCode.SERVER
    assert control(prefix, "stop").returncode == 0
    assert control(prefix, "start").returncode == 0


def test_the_installed_audit_names_what_changed(installation):
    prefix, _ = installation
    control(prefix, "stop")
    env = prefix / "current/env"
    altered = env / "lib/python3.11/os.py" if (env / "lib/python3.11").exists() else None
    altered = altered or next(env.glob("lib/python3.*/os.py"))
    data = bytearray(altered.read_bytes())
    data[100] ^= 1
    altered.write_bytes(data)
    (env / "bin/conda-unpack").chmod(0o777)
    (env / "extra").write_bytes(b"")
    next(env.glob("lib/python3.*/abc.py")).unlink()
    link = env / "server-libs/libgcc_s.so.1"
    link.unlink()
    link.symlink_to("../lib/elsewhere")
    done = control(prefix, "audit", "--json")
    assert done.returncode == ExitCode.INTEGRITY
    findings = json.loads(done.stdout)["findings"]
    found = {(item["problem"], item["path"].rpartition("/")[2]) for item in findings}
    assert found == {
        ("altered", "os.py"),
        ("mode", "conda-unpack"),
        ("extra", "extra"),
        ("missing", "abc.py"),
        ("link", "libgcc_s.so.1"),
    }
