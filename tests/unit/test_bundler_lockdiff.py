import dataclasses

import pytest

from bundler.lockdiff import changes
from manifests import lock
from manifests.lock import CondaPackage, Lock, Model, ModelFile, Target, Wheel

CONDA = CondaPackage("python", "3.11.9", "h0", "linux-64", "host:x/p.conda", "0" * 64, 1)
LOCK = Lock(
    schema=lock.SCHEMA,
    created=0,
    target=Target(("sm_86",), "2.31", "3.11"),
    stack="stack-1",
    channel="host",
    flavour="plain",
    conda=(CONDA,),
    runtime_conda=(),
    wheels=(Wheel("a", "1", "a-1-py3-none-any.whl", "u", "0" * 64),),
    runtime_wheels=(),
    model=Model("m", "hf:Org/Name", "c" * 40, (ModelFile("config.json", 1, "0" * 64),)),
)


def test_when_it_was_made_does_not_count():
    assert changes(LOCK, dataclasses.replace(LOCK, created=9)) == ()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"stack": "stack-2"}, "stack: stack-1 -> stack-2"),
        ({"flavour": "rich"}, "flavour: plain -> rich"),
        ({"conda": ()}, "conda package python: 3.11.9 -> absent"),
        ({"runtime_conda": (CONDA,)}, "runtime's conda package python: absent -> 3.11.9"),
        ({"wheels": (dataclasses.replace(LOCK.wheels[0], version="2"),)}, "a: 1 -> 2"),
        ({"wheels": ()}, "a: 1 -> absent"),
        ({"runtime_wheels": LOCK.wheels}, "runtime's a: absent -> 1"),
        (
            {"wheels": (dataclasses.replace(LOCK.wheels[0], filename="a-1-1-py3-none-any.whl"),)},
            "a: a-1-py3-none-any.whl -> a-1-1-py3-none-any.whl",
        ),
        (
            {"wheels": (dataclasses.replace(LOCK.wheels[0], sha256="1" * 64),)},
            f"a: {'0' * 64} -> {'1' * 64}",
        ),
        (
            {"model": dataclasses.replace(LOCK.model, revision="d" * 40)},
            f"model: {'c' * 40} -> {'d' * 40}",
        ),
        (
            {"model": dataclasses.replace(LOCK.model, files=())},
            f"model file config.json: {'0' * 64} -> absent",
        ),
    ],
)
def test_each_difference_is_one_sentence(change, told):
    assert changes(LOCK, dataclasses.replace(LOCK, **change)) == (told,)


def test_another_target():
    (told,) = changes(LOCK, dataclasses.replace(LOCK, target=Target(("sm_90",), "2.31", "3.11")))
    assert told.startswith("target: ")
    assert "sm_86" in told and "sm_90" in told
