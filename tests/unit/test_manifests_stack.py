from datetime import datetime

import pytest

from manifests import stack
from manifests.errors import TargetError, UsageError
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
    for flavour in found.flavours:
        # A repaired wheel is asked for by its label, and by nothing else.
        for repair in flavour.repairs:
            name, _, version = repair.wheel.partition("==")
            assert f"{name}=={version}+{repair.label}" in flavour.requirements
            assert repair.reason


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


def test_a_stack_is_chosen_by_gpu():
    assert "cpu" in stack.choose(("cpu",)).gpus


def test_a_gpu_that_no_stack_serves():
    served = {gpu for found in stack.stacks().values() for gpu in found.gpus}
    assert "sm_72" not in served  # Jetson Xavier
    with pytest.raises(TargetError, match="no stack of this release serves sm_72") as caught:
        stack.choose(("sm_72",))
    for gpu in served:
        assert gpu in caught.value.mend
