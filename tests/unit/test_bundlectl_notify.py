import socket

import pytest

from bundlectl.notify import READY, notify


@pytest.mark.parametrize("abstract", [False, True])
def test_the_manager_is_told(tmp_path, abstract):
    name = f"@vllm-bundle-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0", 1))
        manager.settimeout(5)
        notify(READY, {"NOTIFY_SOCKET": name})
        assert manager.recv(100) == b"READY=1"


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/nowhere"}, {"NOTIFY_SOCKET": "odd"}])
def test_nobody_to_tell_is_fine(environ):
    notify(READY, environ)
