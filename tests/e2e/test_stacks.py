"""What the stacks claim of GPU code, against the libraries in the wheels on the index: 2 GB."""

import shutil
from fnmatch import fnmatch

import pytest

from manifests.kernels import Level, coverage
from manifests.stack import stacks
from tests.support.remotewheel import Published
from wheelhouse.kernels import scan

pytestmark = pytest.mark.e2e

ON_GPUS = [stack for stack in stacks().values() if stack.cuda is not None]


@pytest.fixture(scope="module")
def published():
    return Published()


@pytest.fixture(scope="module")
def inventories():
    """What was read of each library; two components may share one."""
    return {}


@pytest.mark.parametrize(
    ("stack", "component"),
    [
        pytest.param(stack, component, id=f"{stack.name}-{component.name.split(',')[0]}")
        for stack in ON_GPUS
        for component in stack.components
    ],
)
def test_components_have_the_code_that_the_stack_claims(
    stack, component, published, inventories, tmp_path
):
    version = stack.version if component.wheel == "vllm" else stack.versions[component.wheel]
    wheel = published.wheel(component.wheel, version, stack.python[0])
    rows = []
    for pattern in component.libraries:
        names = [name for name in wheel.archive.namelist() if fnmatch(name, pattern)]
        assert names, pattern
        for name in names:
            if (version, name) not in inventories:
                inventories[version, name] = _read(wheel.archive, name, tmp_path)
            rows += coverage(inventories[version, name], stack.gpus).rows
    native = {row.gpu for row in rows if row.native + row.compatible}
    compiled = {row.gpu for row in rows if row.ptx}
    assert set(component.gpus) <= native
    assert set(component.ptx) <= compiled
    # What the driver has to compile, it can by the release that the stack says.
    assert {row.driver for row in rows if row.ptx} <= {stack.cuda.driver_for_ptx}
    if component.needed or not _shares(stack, component):
        assert set(component.gpus) == native
    if component.wheel == "torch":
        assert {row.worst for row in rows} <= {Level.NATIVE, Level.COMPATIBLE}


def _shares(stack, component):
    """Whether its libraries do other jobs too, for which they may have more code."""
    others = [other for other in stack.components if other is not component]
    return any(set(component.libraries) & set(other.libraries) for other in others)


def _read(archive, name, folder):
    library = folder / "library.so"
    with archive.open(name) as packed, library.open("wb") as unpacked:
        shutil.copyfileobj(packed, unpacked, 8 << 20)
    try:
        return scan(library)
    finally:
        library.unlink()
