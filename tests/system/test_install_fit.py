"""The model against the host's memory: in preflight, at the start, and in what the server is told.

The GPUs are those that a program in the place of nvidia-smi names, and the server is the stub.
"""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from manifests.exitcodes import ExitCode
from tests.support.small import control, free_port, install
from tests.support.variants import manifest_of, variant
from tests.system.conftest import end_servers, servers
from tests.unit.test_manifests_fit_answer import shape

SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
L4, L40S = "NVIDIA L4, 23034, 22500", "NVIDIA L40S, 46068, 45500"
#: Nothing here has a GPU's device nodes.
IGNORED = ("--ignore", "gpu")


def gpus(folder: Path, *lines: str) -> dict[str, str]:
    """An environment in which nvidia-smi names these: product, MiB, free MiB."""
    folder.mkdir(parents=True, exist_ok=True)
    tool = folder / "nvidia-smi"
    said = "".join(f"GPU-{n}, {line}, Disabled, 8.9\n" for n, line in enumerate(lines))
    tool.write_text(f"#!/bin/sh\nprintf '{said}'\n")
    tool.chmod(0o755)
    return {"PATH": f"{folder}:{SYSTEM}", "HOME": os.environ.get("HOME", "/")}


def bundlectl(prefix: Path, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    command = [str(prefix / "bin/bundlectl"), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def arguments(prefix: Path) -> list[str]:
    """Those of the one server that runs."""
    (pid,) = servers(prefix)
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def set_(prefix: Path, **settings: int) -> None:
    """Change keys of serve.toml."""
    path = prefix / "etc/serve.toml"
    lines = path.read_text().splitlines()
    for key, value in settings.items():
        lines = [f"{key} = {value}" if line.startswith(f"{key} =") else line for line in lines]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def on_gpu(small_bundle, tmp_path_factory):
    """The small bundle as one for GPUs, which says that its model is one of 9B."""
    manifest, _ = manifest_of(small_bundle)
    return variant(
        small_bundle,
        tmp_path_factory.mktemp("gpu"),
        name="small+gpu",
        target=replace(manifest.target, gpus=("sm_89",)),
        needs=replace(manifest.needs, gpus=("sm_86", "sm_89")),
        model=replace(manifest.model, shape=shape("Qwen3.5-9B")),
    )


def test_the_bundle_carries_the_shape_of_its_model(small_bundle):
    manifest, _ = manifest_of(small_bundle)
    assert manifest.model.shape is not None
    assert manifest.model.shape.architecture == "Qwen3_5ForCausalLM"


def test_preflight_refuses_what_can_t_fit(on_gpu, prefix, tmp_path):
    env = gpus(tmp_path, L4)
    done = install(on_gpu, "preflight", "--prefix", str(prefix), *IGNORED, env=env)
    assert done.returncode == ExitCode.TARGET, done.stderr
    assert "this host does not fit: model-fit: NVIDIA L4: weights 19.30 GB" in done.stderr
    assert "Qwen/Qwen3.5-4B" in done.stderr
    assert not prefix.exists()
    done = install(
        on_gpu, "preflight", "--prefix", str(prefix), *IGNORED, "--json", env=gpus(tmp_path, L4, L4)
    )
    assert done.returncode == 0, done.stderr
    found = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert found["model-fit"]["found"].startswith("2 x NVIDIA L4: weights 9.65 GB + ")
    assert found["gpu-code"]["passed"]


def test_the_start_says_what_it_chose_and_holds_serve_toml_against_it(on_gpu, prefix, tmp_path):
    env = gpus(tmp_path, L40S)
    words = ("--prefix", str(prefix), "--port", str(free_port()), *IGNORED)
    done = install(on_gpu, *words, env=env)
    assert done.returncode == 0, done.stderr
    # The model in the folder is the tiny one, whose own limit fits in any GPU.
    chosen = [
        "tensor_parallel_size 1: as many of NVIDIA L40S as the model can be split among",
        "gpu_memory_utilization 0.90: chosen",
        "max_model_len 4096: the most that the model allows",
    ]
    assert all(line in done.stderr for line in chosen)
    assert json.loads(control(prefix, "status", "--json").stdout)["sizing"] == chosen
    given = arguments(prefix)
    assert given[given.index("--max-model-len") + 1] == "4096"
    assert given[given.index("--gpu-memory-utilization") + 1] == "0.90"

    set_(prefix, max_model_len=1024, gpu_memory_utilization=50)
    done = bundlectl(prefix, "restart", "--json", env=gpus(tmp_path, "NVIDIA L40S, 46068, 30000"))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sizing"][1:] == [
        "gpu_memory_utilization 0.50: etc/serve.toml says so",
        "max_model_len 1024: etc/serve.toml says so",
    ]
    given = arguments(prefix)
    assert given[given.index("--gpu-memory-utilization") + 1] == "0.50"
    assert given.count("--max-model-len") == 1
    assert control(prefix, "stop").returncode == 0

    set_(prefix, max_model_len=8192)
    done = bundlectl(prefix, "start", env=env)
    assert done.returncode == ExitCode.TARGET, done.stderr
    assert "8192 tokens are asked for, and the model allows 4096" in done.stderr
    assert "mend: set max_model_len to 4096" in done.stderr
    set_(prefix, max_model_len=0)
    done = bundlectl(prefix, "start", env=gpus(tmp_path, "NVIDIA L40S, 46068, 2000"))
    assert done.returncode == ExitCode.TARGET, done.stderr
    assert "asks for 24.15 GB of each GPU, and 2.10 GB are free" in done.stderr
    assert servers(prefix) == []


@pytest.mark.e2e
def test_without_a_gpu_the_cache_is_chosen_and_checked(small_bundle, prefix, tmp_path):
    manifest, _ = manifest_of(small_bundle)
    server = replace(manifest.server, memory=1 << 30, environment={"VLLM_CPU_KVCACHE_SPACE": "1"})
    media = variant(small_bundle, tmp_path / "media", name="small+cache", server=server)
    done = install(media, "--prefix", str(prefix), "--port", str(free_port()))
    assert done.returncode == 0, done.stderr
    assert json.loads(control(prefix, "status", "--json").stdout)["sizing"] == [
        "VLLM_CPU_KVCACHE_SPACE 1 GiB: the stack's own",
        "max_model_len 4096: the most that the model allows",
    ]
    assert control(prefix, "stop").returncode == 0
    set_(prefix, max_model_len=100_000)
    done = control(prefix, "start")
    assert done.returncode == ExitCode.TARGET, done.stderr
    assert "100000 tokens are asked for, and the model allows 4096" in done.stderr
    assert servers(prefix) == []


@pytest.mark.e2e
def test_an_ignored_check_is_ignored_at_the_start_too(on_gpu, prefix, tmp_path):
    env = gpus(tmp_path, "NVIDIA L40S, 900, 800")
    words = ("--prefix", str(prefix), "--port", str(free_port()), *IGNORED)
    done = install(on_gpu, *words, env=env)
    assert done.returncode == ExitCode.TARGET, done.stderr
    done = install(on_gpu, *words, "--ignore", "model-fit", env=env)
    assert done.returncode == 0, done.stderr
    (line,) = json.loads(control(prefix, "status", "--json").stdout)["sizing"]
    assert line.endswith("(ignored): the server decides about its memory by itself")
    end_servers(prefix)
