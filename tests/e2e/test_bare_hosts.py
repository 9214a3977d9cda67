"""The demo's bundle, with the real vLLM in it, on hosts that have no Python and no network."""

import json

import pytest

from tests.support import roots

pytestmark = pytest.mark.e2e
CONTROL = "/opt/vllm-bundle/bin/bundlectl"


@pytest.mark.parametrize("make", [roots.busybox_root, roots.debian_root], ids=["busybox", "debian"])
def test_a_real_server_on_a_bare_host(demo, make, tmp_path):
    _, run = demo
    (media,) = (run / "media").iterdir()
    with make(tmp_path / "root") as root:
        root.mount(media, "/media/bundle")
        assert root.run(["sh", "-c", "command -v python3 || command -v python"]).returncode != 0
        done = root.run(["sh", "/media/bundle/install.sh"], timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
        answers = {
            way: json.loads(root.run([CONTROL, "ask", "Hello", "--thinking", way, "--json"]).stdout)
            for way in ("on", "off")
        }
        assert answers["on"]["prompt_tokens"] < answers["off"]["prompt_tokens"]
        assert answers["on"]["reasoning"]
        assert answers["off"]["content"]
        assert root.run([CONTROL, "audit"]).returncode == 0
        assert root.run([CONTROL, "stop"]).returncode == 0
