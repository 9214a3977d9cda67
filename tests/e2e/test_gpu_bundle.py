"""A real bundle for a GPU, made where there is none: the CUDA 12 stack as `--stack auto` finds it.

Takes about 20 GB of disk and 8 minutes on two cores. No GPU, so the server is not started: the
environment is installed, imported, and asked what it makes of the server's arguments and the model.
"""

import json
import shutil
import subprocess
import sys

import pytest

from bundler.tinymodel import make
from tests.support.connected import COMMAND
from tests.support.scratch import scratch
from tests.support.small import ROOT

pytestmark = pytest.mark.e2e
OFFLINE = (sys.executable, str(ROOT / "scripts/without_network.py"))
DRIVER = "535.104.05"


def run(*words, **options):
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, **options)


def bundle(*words):
    return run(*COMMAND, *words, "--json", cwd=ROOT)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The answer of `bundle create`, and the folder that holds the bundle."""
    with scratch(tmp_path_factory, "gpu") as folder:
        make(folder / "model", architecture="conditional")
        words = ["--gpu", "a10", "--driver", DRIVER, "--model", folder / "model"]
        words += ["--channel", "host", "--cache", folder / "cache", "--output", folder / "media"]
        done = bundle("create", *words)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(folder / "cache")  # 10 GB that the rest needs
        (media,) = (folder / "media").iterdir()
        yield json.loads(done.stdout), media


@pytest.fixture(scope="module")
def installed(made, tmp_path_factory):
    """The environment of the installed bundle; the installation is refused first."""
    _, media = made
    with scratch(tmp_path_factory, "host") as folder:
        prefix = folder / "prefix"
        install = [*OFFLINE, "sh", media / "install.sh", "--prefix", prefix, "--no-start"]
        refused = run(*install)
        assert refused.returncode == 5
        assert "/dev/nvidiactl" in refused.stderr
        assert "NVIDIA driver 525.60.13 or newer" in refused.stderr
        assert not prefix.exists()
        done = run(*install, "--ignore", "gpu", "--ignore", "driver")
        assert done.returncode == 0, done.stderr
        (environment,) = prefix.glob("releases/*/env")
        yield environment


def inside(environment, *words):
    """Run a program of the environment as the server is run: without network or inheritance."""
    variables = {"LD_LIBRARY_PATH": environment / "server-libs", "PATH": "/usr/bin:/bin"}
    variables |= {"HOME": environment.parent, "HF_HUB_OFFLINE": "1"}
    return run(*OFFLINE, *words, env={name: str(value) for name, value in variables.items()})


def test_the_bundle_names_what_it_was_made_for(made):
    answer, media = made
    assert media.name.endswith("+vllm-0.19.1-cu128+sm_86")
    assert 4e9 < answer["size"] < 6e9


def test_its_libraries_have_no_code_for_an_older_gpu(made):
    """For the target they have: `create` has looked, in the same way."""
    _, media = made
    found = bundle("kernels", media, "--gpu", "sm_75", "--driver", DRIVER)
    assert found.returncode == 5, found.stderr
    assert "_vllm_fa2_C" in found.stdout + found.stderr


def test_its_torch_and_vllm_are_those_of_the_stack(installed):
    code = (
        "import torch, vllm, triton; print(torch.__version__, torch.version.cuda, vllm.__version__)"
    )
    done = inside(installed, installed / "bin/python", "-s", "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-3:] == ["2.10.0+cu128", "12.8", "0.19.1"]


def test_its_server_takes_the_arguments_of_the_stack_and_knows_the_model(installed, made):
    release = installed.parents[1]
    manifest = json.loads((installed.parent / "bundle.json").read_text())
    (model,) = (release.parent / "models").iterdir()
    code = (
        "import json, sys\n"
        "import vllm.platforms\n"
        "from vllm.platforms.cpu import CpuPlatform\n"
        "vllm.platforms._current_platform = CpuPlatform()\n"  # where there is no GPU, it is told
        "from transformers import AutoConfig, AutoTokenizer\n"
        "from vllm.entrypoints.openai.cli_args import make_arg_parser\n"
        "from vllm.model_executor.models.registry import ModelRegistry\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser\n"
        "model, *words = sys.argv[1:]\n"
        "parser = make_arg_parser(FlexibleArgumentParser())\n"
        "parsed = parser.parse_args(['--model', model, *words])\n"
        "config = AutoConfig.from_pretrained(model)\n"
        "known = set(config.architectures) <= set(ModelRegistry.get_supported_archs())\n"
        "text = AutoTokenizer.from_pretrained(model).apply_chat_template(\n"
        "    [{'role': 'user', 'content': 'Hello'}], tokenize=False,\n"
        "    add_generation_prompt=True, enable_thinking=False)\n"
        "print(json.dumps([parsed.gdn_prefill_backend, known, '</think>' in text]))\n"
    )
    words = [*manifest["server"]["arguments"], "--reasoning-parser", "qwen3"]
    done = inside(installed, installed / "bin/python", "-s", "-c", code, model, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == ["triton", True, True]


def test_its_c_compiler_makes_what_triton_asks_for(installed, tmp_path):
    """As triton/runtime/build.py starts it, libcuda included, of which a stub is enough to link."""
    (headers,) = (installed / "include").glob("python3*")
    (tmp_path / "stub.c").write_text("int cuInit(unsigned flags) { return 0; }\n")
    (tmp_path / "main.c").write_text(
        "#include <Python.h>\nint cuInit(unsigned);\n"
        'static struct PyModuleDef it = {PyModuleDef_HEAD_INIT, "launcher", 0, -1, 0};\n'
        "PyMODINIT_FUNC PyInit_launcher(void) { return cuInit(0) ? 0 : PyModule_Create(&it); }\n"
    )
    compiler, shared = installed / "bin/vllm-bundle-cc", ("-O3", "-shared", "-fPIC", "-Wno-psabi")
    library, module = tmp_path / "libcuda.so.1", tmp_path / "launcher.so"
    places = (f"-L{tmp_path}", "-l:libcuda.so.1", f"-I{headers}")
    for source, result, rest in (
        ("stub.c", library, ("-Wl,-soname,libcuda.so.1",)),
        ("main.c", module, places),
    ):
        words = (compiler, tmp_path / source, *shared, "-o", result, *rest)
        done = inside(installed, *words)
        assert done.returncode == 0, done.stderr
    code = f"import ctypes, sys; ctypes.CDLL('{library}'); sys.path.insert(0, '{tmp_path}')"
    code += "; import launcher; print(launcher.__name__)"
    done = inside(installed, installed / "bin/python", "-c", code)
    assert done.stdout.splitlines()[-1:] == ["launcher"], done.stderr
