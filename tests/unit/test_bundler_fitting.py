"""Models against the target's memory, as it was described."""

import json

import pytest

from bundler import fitting, tinymodel
from bundler.models.folder import FolderSource
from manifests import stack
from manifests.checkpoint import Rules
from manifests.errors import TargetError
from manifests.exitcodes import ExitCode
from manifests.fit import Shape
from manifests.lock import Model, ModelFile, Target
from tests.unit.test_manifests_fit_answer import H100, L4, shape
from wheelhouse.store import Store

CUDA = stack.named("vllm-0.19.1-cu128")


def target(memory, count=0, gpus=("sm_89",)):
    return Target(gpus, "2.35", "3.12", gpu_memory=memory, gpu_count=count)


def model(name="Qwen3.5-9B"):
    return Model(name, f"hf:Qwen/{name}", "0" * 40, (ModelFile("model.safetensors", 5),))


def test_what_can_t_fit_is_refused_with_numbers_and_what_would():
    with pytest.raises(TargetError) as caught:
        fitting.require([(model(), shape("Qwen3.5-9B"))], target(L4), CUDA)
    error = caught.value
    assert error.exit_code == ExitCode.TARGET
    assert error.what == "Qwen3.5-9B does not fit the GPU memory of the target"
    assert "weights 19.30 GB" in error.findings[0]
    assert "are missing" in error.findings[1]
    assert "Qwen/Qwen3.5-4B" in error.mend
    assert error.mend.endswith("or say how many GPUs there are (--gpu '2x …')")


def test_every_model_of_a_bundle_is_judged():
    pairs = [(model("Qwen3.5-4B"), shape("Qwen3.5-4B")), (model(), shape("Qwen3.5-9B"))]
    fitting.require(pairs[:1], target(L4), CUDA)
    with pytest.raises(TargetError, match=r"Qwen3\.5-9B does not fit"):
        fitting.require(pairs, target(L4), CUDA)


@pytest.mark.parametrize(
    ("found", "where"),
    [
        (shape("Qwen3.5-9B"), target(L4, count=2)),
        (shape("Qwen3.5-9B"), target(H100)),
        (shape("Qwen3.5-397B-A17B"), target(0)),  # a compute capability was named, no product
        (shape("Qwen3.5-397B-A17B"), target(0, gpus=("cpu",))),
        (None, target(L4)),  # another class of model
    ],
)
def test_what_fits_or_is_not_known_passes(found, where):
    fitting.require([(model(), found)], where, CUDA)


def test_the_shape_of_a_folder_and_of_a_model_that_was_looked_at(tmp_path):
    folder, store = tmp_path / "model", Store(tmp_path / "store")
    tinymodel.make(folder)
    source = FolderSource(folder, "model", Rules())
    locked = source.lock()
    expected = Shape.from_config(
        json.loads((folder / "config.json").read_text()),
        (folder / "model.safetensors").stat().st_size,
    )
    assert fitting.shape_of(locked, source, store) == expected
    assert fitting.weights(locked) == expected.weights
    (folder / "config.json").write_text("[]")
    assert fitting.shape_of(locked, source, store) is None
    (folder / "config.json").unlink()
    assert fitting.shape_of(locked, source, store) is None
    assert fitting.shape_of(model(), source, store) is None
