from datetime import datetime

import pytest

from manifests import stack
from manifests.errors import UsageError
from manifests.gpu import CAPABILITIES
from manifests.kernels.releases import driver_for
from tests.support.small import STACK


@pytest.fixture
def own(tmp_path):
    def read(text):
        path = tmp_path / "own.toml"
        path.write_text(text)
        return stack.named(str(path))

    return read


@pytest.mark.parametrize("found", stack.stacks().values(), ids=lambda found: found.name)
def test_every_stack_is_consistent(found):
    assert found.flavours
    assert len({flavour.name for flavour in found.flavours}) == len(found.flavours)
    assert datetime.fromisoformat(found.resolution_date).tzinfo is not None
    assert [tuple(map(int, version.split("."))) for version in (*found.python, found.glibc)]
    assert found.version in found.name
    assert found.families
    for flavour in found.flavours:
        # A repaired wheel is asked for by its label, and by nothing else.
        for repair in flavour.repairs:
            name, _, version = repair.wheel.partition("==")
            assert f"{name}=={version}+{repair.label}" in flavour.requirements
            assert repair.reason


@pytest.mark.parametrize("found", stack.stacks().values(), ids=lambda found: found.name)
def test_every_stack_says_what_it_is_for(found):
    known = {"cpu", *(f"sm_{number}" for number in CAPABILITIES)}
    assert set(found.gpus) | set(found.unserved) <= known
    assert not set(found.gpus) & set(found.unserved)
    assert {compiler.answer for compiler in found.compilers} <= {"supplied", "avoided"}
    assert (found.cuda is None) == (found.gpus == ("cpu",))


@pytest.mark.parametrize(
    "found", [one for one in stack.stacks().values() if one.cuda], ids=lambda found: found.name
)
def test_every_needed_component_serves_every_gpu_of_its_stack(found):
    assert found.components
    for part in found.components:
        assert part.wheel in {"vllm", "torch"}
        assert not set(part.gpus) & set(part.ptx)
        assert not part.needed or set(part.gpus) | set(part.ptx) == set(found.gpus)


@pytest.mark.parametrize(
    "found", [one for one in stack.stacks().values() if one.cuda], ids=lambda found: found.name
)
def test_how_compilers_are_avoided_is_what_the_server_is_told(found):
    told = " ".join(found.server.arguments)
    told += " ".join(f"{name}={value}" for name, value in found.server.environment.items())
    for compiler in found.compilers:
        for word in compiler.how.replace(",", "").split():
            if word.startswith(("--", "VLLM_", "fuse_")):
                assert word in told
    supplied = [compiler for compiler in found.compilers if compiler.answer == "supplied"]
    assert [compiler.how.split()[0] for compiler in supplied] == ["ziglang"]
    for flavour in found.flavours:
        assert any(wanted.startswith("ziglang==") for wanted in flavour.requirements)


def test_the_drivers_for_ptx_are_those_of_the_kernel_tables():
    """Two tables of NVIDIA's figures, which must not drift apart."""
    known = {"vllm-0.19.1-cu128": "8.8", "vllm-0.20.2-cu130": "9.0", "vllm-0.33.0-cu130": "9.0"}
    for name, isa in known.items():
        assert stack.named(name).cuda.driver_for_ptx == driver_for(isa)


def test_a_stack_by_name():
    for name, found in stack.stacks().items():
        assert stack.named(name) is found


def test_an_unknown_stack():
    with pytest.raises(UsageError, match="unknown stack 'vllm-99'") as caught:
        stack.named("vllm-99")
    for name in stack.stacks():
        assert name in caught.value.mend


def test_a_stack_of_one_s_own(own):
    found = own(STACK)
    assert found.name == "small"
    assert found.flavours[0].requirements == ("stub-vllm==1.0",)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name = ", "Invalid value"),
        ("", "the field 'name' is missing"),
        (STACK.replace("gpus", "gpu", 1), "unknown field 'gpu'"),
        (STACK.replace('["cpu"]', '"cpu"', 1), "gpus: a list is needed"),
        (STACK.replace('"small"', "7", 1), "name: str is needed"),
        (STACK + '[cuda]\nversion = "12.8"\n', "the field 'driver' is missing"),
        (STACK + '[[components]]\nwheel = "vllm"\n', "components[0]: the field 'name' is missing"),
        (STACK + 'unserved = ["sm_75"]\n', "flavours[0]: unknown field 'unserved'"),
        (STACK.replace("glibc", 'unserved = ["sm_75"]\nglibc', 1), "unserved: a table is needed"),
    ],
)
def test_a_stack_with_a_mistake(own, text, told):
    with pytest.raises(UsageError) as caught:
        own(text)
    assert "own.toml: not a stack" in caught.value.what
    assert told in caught.value.what
    assert "pattern" in caught.value.mend


def test_a_stack_file_that_is_not_there(tmp_path):
    with pytest.raises(UsageError, match=r"missing\.toml: not a stack"):
        stack.named(str(tmp_path / "missing.toml"))
