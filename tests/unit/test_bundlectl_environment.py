import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundlectl.config import ServeConfig
from bundlectl.environment import prepare, server_environment, temporary_folder
from bundlectl.layout import Layout
from manifests.errors import FilesystemError, UsageError

KEY = "0123456789abcdef0123"


@pytest.fixture
def layout(tmp_path):
    layout = Layout(tmp_path / "my prefix")
    layout.create()
    yield layout
    short = temporary_folder(layout)
    if short.is_symlink():
        short.unlink()


def variables(layout, inherited=None, stack=None, **config):
    return server_environment(
        layout, layout.environment("r1"), stack or {}, ServeConfig(**config), inherited or {}, KEY
    )


def run(code, environment, before=(), **options):
    """What a Python program prints as JSON under exactly this environment."""
    done = subprocess.run(
        [*before, sys.executable, "-s", "-c", code],
        env=environment,
        capture_output=True,
        check=True,
        timeout=60,
        **options,
    )
    return json.loads(done.stdout)


def test_nothing_is_inherited_but_the_list(layout):
    secrets = {
        "HF_TOKEN": "hf_x",
        "HUGGING_FACE_HUB_TOKEN": "hf_x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "HTTP_PROXY": "http://user:pw@proxy",
        "https_proxy": "http://proxy",
        "LD_LIBRARY_PATH": "/usr/local/cuda-12.1/lib64",
        "LD_PRELOAD": "/x.so",
        "PYTHONPATH": "/x",
        "PYTHONHOME": "/x",
        "PYTHONSTARTUP": "/x",
        "CUDA_HOME": "/x",
        "VLLM_USE_MODELSCOPE": "1",
        "VLLM_API_KEY": "other",
        "HOME": "/home/me",
        "TMPDIR": "/mnt/noexec",
        "LC_ALL": "tr_TR",
        "LANG": "tr_TR",
        "NVIDIAX": "1",
        "VIRTUAL_ENV": "/x",
    }
    assert variables(layout, secrets) == variables(layout)


def test_what_is_inherited(layout):
    wanted = {
        "TERM": "dumb",
        "TZ": "UTC",
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "1",
    }
    assert wanted.items() <= variables(layout, wanted).items()


def test_libraries_and_programs_come_from_the_bundle(layout):
    found = variables(layout, {"LD_LIBRARY_PATH": "/x", "PATH": "/y"})
    environment = layout.environment("r1")
    assert found["LD_LIBRARY_PATH"] == str(environment / "server-libs")
    assert found["PATH"].split(":") == [
        str(environment / "bin"),
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ]


def test_offline_and_silent(layout):
    found = variables(layout)
    for name in (
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_DATASETS_OFFLINE",
        "HF_HUB_DISABLE_TELEMETRY",
        "VLLM_NO_USAGE_STATS",
        "DO_NOT_TRACK",
    ):
        assert found[name] == "1"
    assert found["VLLM_HOST_IP"] == "127.0.0.1"
    assert {found[f"{who}_SOCKET_IFNAME"] for who in ("GLOO", "NCCL")} == {"lo"}
    assert found["VLLM_API_KEY"] == KEY


def test_stack_then_administrator_then_what_must_hold(layout):
    stack = {"VLLM_CPU_KVCACHE_SPACE": "1", "OMP_NUM_THREADS": "2", "LD_LIBRARY_PATH": "/x"}
    found = variables(layout, stack=stack, environment={"VLLM_CPU_KVCACHE_SPACE": "4"})
    assert found["VLLM_CPU_KVCACHE_SPACE"] == "4"
    assert found["OMP_NUM_THREADS"] == "2"
    assert found["LD_LIBRARY_PATH"].endswith("/server-libs")


def test_a_stack_may_name_programs_of_the_environment(layout):
    found = variables(layout, stack={"CC": "{environment}/bin/vllm-bundle-cc", "A": "{b}"})
    assert found["CC"] == str(layout.environment("r1") / "bin/vllm-bundle-cc")
    assert found["A"] == "{b}"


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PYTHONPATH",
        "HOME",
        "TMPDIR",
        "VLLM_API_KEY",
        "HF_HUB_OFFLINE",
        "HF_TOKEN",
        "https_proxy",
        "HTTPS_PROXY",
        "BUNDLECTL_INSTANCE",
        "",
        "A=B",
        "1A",
    ],
)
def test_the_administrator_cannot_undo_it(layout, name):
    with pytest.raises(UsageError, match="may not set"):
        variables(layout, environment={name: "x"})


def test_nul_in_a_value_is_refused(layout):
    with pytest.raises(UsageError, match="may not set 'A'"):
        variables(layout, environment={"A": "x\0"})


def test_certificates_only_where_they_exist(layout):
    assert "SSL_CERT_FILE" not in variables(layout)
    certificates = layout.environment("r1") / "ssl/cacert.pem"
    certificates.parent.mkdir(parents=True)
    certificates.touch()
    assert variables(layout)["SSL_CERT_FILE"] == str(certificates)


def test_every_folder_named_exists_after_prepare_and_is_private(layout):
    prepare(layout)
    prepare(layout)
    found = variables(layout)
    for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "PYTHONPYCACHEPREFIX"):
        assert Path(found[name]).resolve().is_relative_to(layout.cache), name
        assert Path(found[name]).stat().st_mode & 0o77 == 0, name


def test_no_value_leads_outside_the_prefix(layout):
    allowed = (str(layout.prefix), "/usr/", "/bin", "/sbin", str(temporary_folder(layout)))
    for name, value in variables(layout).items():
        for part in value.split(":"):
            assert not part.startswith("/") or part.startswith(allowed), name


WRITES = """
import getpass, json, os, pathlib, tempfile
places = [os.path.expanduser("~/.cache/x"), os.path.join(tempfile.gettempdir(), "x")]
places += [os.path.join(os.environ["XDG_CACHE_HOME"], "y")]
for place in places:
    pathlib.Path(place).write_text("x")
print(json.dumps({"user": getpass.getuser(), "places": [os.path.realpath(p) for p in places]}))
"""


def test_an_account_without_name_or_home_writes_inside_the_prefix_only(layout):
    """Case B59: KeyError from the account's name, caches in a folder called `~`."""
    nameless = ["unshare", "--user", "--map-user=123456", "--map-group=123456"]
    if subprocess.run([*nameless, "true"], capture_output=True).returncode:
        pytest.skip("user namespaces are not allowed here")
    with pytest.raises(subprocess.CalledProcessError):  # what it is for
        run(WRITES, {"PATH": os.environ["PATH"]}, before=nameless)
    prepare(layout)
    answer = run(WRITES, variables(layout), before=nameless, cwd=layout.run)
    assert answer["user"] == "vllm"
    assert all(Path(place).is_relative_to(layout.cache) for place in answer["places"])


def test_text_is_utf8_even_where_python_would_not_coerce(layout, tmp_path):
    """Case B77: a C locale with UTF-8 mode and coercion off."""
    (tmp_path / "template").write_bytes("„ß“".encode())
    read = f"open({str(tmp_path / 'template')!r}).read()"
    code = f"import json, sys; print(json.dumps([{read}, sys.flags.utf8_mode]))"
    inherited = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert run(code, variables(layout, inherited)) == ["„ß“", 1]


def test_bytecode_stays_out_of_the_release(layout, tmp_path):
    release = tmp_path / "release"
    release.mkdir()
    (release / "part.py").write_text("x = 1\n")
    prepare(layout)
    code = f"import sys; sys.path.insert(0, {str(release)!r}); import part; print(part.x)"
    assert run(code, variables(layout)) == 1
    assert [item.name for item in release.iterdir()] == ["part.py"]
    assert list((layout.cache / "pycache").rglob("part.*.pyc"))


LISTENS = """
import json
from multiprocessing.connection import Listener
with Listener(family="AF_UNIX") as listener:
    print(json.dumps(listener.address))
"""


def test_sockets_fit_below_a_long_prefix(tmp_path):
    layout = Layout(tmp_path / ("long " * 12))
    layout.create()
    short = temporary_folder(layout)
    try:
        prepare(layout)
        prepare(layout)
        address = run(LISTENS, variables(layout))
        assert len(address) < 108
        assert Path(address).parent.parent == short
        assert short.resolve() == layout.cache / "tmp"
        refused = variables(layout) | {"TMPDIR": str(layout.cache / "tmp")}
        with pytest.raises(subprocess.CalledProcessError):  # what it is for
            run(LISTENS, refused)
    finally:
        short.unlink()


def test_a_short_prefix_needs_no_link(tmp_path):
    layout = Layout(Path("/opt/vllm-bundle"))
    assert temporary_folder(layout) == layout.cache / "tmp"


def test_somebody_elses_file_in_the_place_of_the_link_is_refused(tmp_path):
    layout = Layout(tmp_path / ("long " * 12))
    layout.create()
    short = temporary_folder(layout)
    short.mkdir()
    try:
        with pytest.raises(UsageError, match="is not the link"):
            prepare(layout)
    finally:
        short.rmdir()


def test_a_file_in_the_place_of_a_cache_folder(layout):
    shutil.rmtree(layout.cache)
    layout.cache.touch()
    with pytest.raises(FilesystemError, match="cache"):
        prepare(layout)
