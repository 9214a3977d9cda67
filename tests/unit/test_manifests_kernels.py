"""The compatibility table, what follows from it for files, and the gate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.kernels import (
    Containers,
    FileKernels,
    Image,
    Inventory,
    Level,
    absent,
    coverage,
    coverage_text,
    gate,
    inventory_text,
    runs,
)
from manifests.kernels.images import CUBIN, RELOCATABLE
from manifests.kernels.releases import CUDA_OF_PTX, DRIVER_OF_CUDA, driver_for
from manifests.records import from_data, to_data
from manifests.stack import Component

GPUS = [f"sm_{n}" for n in (70, 75, 80, 86, 87, 89, 90, 100, 103, 107, 110, 120, 121)]


def img(name, isa="8.8"):
    prefix, _, number = name.partition("_")
    kind = {"sm": "sass", "compute": "ptx", "lto": "lto"}[prefix]
    arch = number.rstrip("af")
    return Image(kind, arch, number[len(arch) :], isa if kind == "ptx" else "")


def file(path, *groups, isa="8.8", **more):
    """Groups of (count, names) as a file."""
    return FileKernels(
        path,
        tuple(
            Containers(tuple(sorted(img(name, isa) for name in names.split())), count)
            for count, names in groups
        ),
        **more,
    )


def component(*libraries, needed=True, name="attention"):
    return Component(name, "vllm", libraries, ("sm_86",), needed=needed)


@pytest.mark.parametrize(
    ("image", "served"),
    [
        ("sm_80", "80 86 89"),
        ("sm_86", "86 89"),
        ("sm_87", "87"),
        ("sm_89", "89"),
        ("sm_70", "70 75"),
        ("sm_90", "90"),
        ("sm_90a", "90"),
        ("sm_100", "100 103 107"),
        ("sm_100f", "100 103 107"),
        ("sm_100a", "100"),
        ("sm_103f", "103 107"),
        ("sm_110f", "110"),
        ("sm_120", "120 121"),
        ("sm_120f", "120 121"),
        ("sm_120a", "120"),
        ("compute_86", "86 87 89 90 100 103 107 110 120 121"),
        ("compute_90a", "90"),
        ("compute_100f", "100 103 107"),
        ("compute_120f", "120 121"),
        ("compute_121f", "121"),
        ("lto_80", ""),
    ],
)
def test_who_runs_what(image, served):
    assert [gpu for gpu in GPUS if runs(img(image), gpu).level.runs] == [
        f"sm_{number}" for number in served.split()
    ]


def test_levels():
    assert runs(img("sm_86"), "sm_86").level is Level.NATIVE
    assert runs(img("sm_80"), "sm_86").level is Level.COMPATIBLE
    assert runs(img("compute_80"), "sm_86").level is Level.JIT
    assert runs(img("sm_90"), "sm_86").level is Level.NONE


@pytest.mark.parametrize(
    ("isa", "driver", "level"),
    [
        ("8.8", "575.51.03", Level.JIT),
        ("8.8", "570.211.01", Level.TOO_NEW),
        ("8.0", "525.60.13", Level.JIT),
        ("7.8", "520.61", Level.TOO_NEW),
        ("3.2", "390.157", Level.JIT),
        ("9.9", "580.65.06", Level.TOO_NEW),
        ("9.9", "", Level.JIT),
    ],
)
def test_ptx_asks_for_a_driver(isa, driver, level):
    verdict = runs(img("compute_80", isa), "sm_90", driver)
    assert (verdict.level, verdict.isa) == (level, isa)


def test_the_tables_agree_and_grow():
    assert set(CUDA_OF_PTX.values()) - {"13.4", "13.5"} <= set(DRIVER_OF_CUDA)
    drivers = [tuple(map(int, text.split("."))) for text in DRIVER_OF_CUDA.values()]
    assert drivers == sorted(drivers)
    assert driver_for("8.7") == "570.26"
    assert driver_for("9.5") == ""


IMAGES = ["sm_70", "sm_80", "sm_86", "sm_90a", "sm_100f", "compute_80"]


@given(st.lists(st.sampled_from(IMAGES), min_size=1), st.sampled_from(GPUS))
def test_more_images_never_serve_worse(names, gpu):
    def worst(chosen):
        inventory = Inventory((file("a.so", (1, " ".join(chosen))),))
        return coverage(inventory, [gpu]).rows[0].worst

    assert worst(names) <= min(worst([name]) for name in names)


def test_a_file_is_judged_by_its_containers_not_by_their_union():
    inventory = Inventory(
        (file("vllm/_C.so", (40, "sm_80 sm_90"), (3, "sm_75"), (5, "sm_90a"), (2, "sm_75a")),)
    )
    (row,) = coverage(inventory, ["sm_86"]).rows
    assert (row.compatible, row.older, row.newer, row.specific) == (40, 3, 5, 2)
    assert row.cell() == "40/50 (5 newer, 2 specific, 3 older)"
    assert row.worst is Level.NONE


def test_ptx_of_the_originals_serves_what_was_linked_from_them():
    linked = Containers((img("sm_70"),))
    originals = Containers((img("sm_70"), img("compute_70")), 9, RELOCATABLE)
    inventory = Inventory((FileKernels("libnccl.so.2", (linked, originals)),))
    (row,) = coverage(inventory, ["sm_90"]).rows
    assert (row.total, row.ptx, row.driver) == (1, 1, "575.51.03")


def test_objects_that_were_never_linked_count_themselves():
    inventory = Inventory(
        (FileKernels("libcudadevrt.a", (Containers((img("sm_90"),), 2, RELOCATABLE),)),)
    )
    assert [row.total for row in coverage(inventory, ["sm_90"]).rows] == [2]


def test_a_container_without_a_kernel_is_no_gap():
    stub = Containers((img("sm_75"),), empty=True)
    inventory = Inventory((FileKernels("libcufftw.so.12", (stub,)),))
    assert coverage(inventory, ["sm_86"]).rows == ()


def test_code_for_nvjitlink_alone_is_no_gap():
    inventory = Inventory((file("libcufft.so.12", (11, "lto_80")),))
    assert coverage(inventory, ["sm_86"]).rows == ()


FA2 = file("vllm/fa2.so", (52, "sm_80 compute_80"))
FA3 = file("vllm/fa3.so", (192, "sm_90a"))
TORCH = file("torch/lib/libtorch_cuda.so", (475, "sm_75 sm_80 sm_86 sm_90"))


def errors(files, gpus, components=(), driver=""):
    return [
        str(finding)
        for finding in gate(coverage(Inventory(tuple(files)), gpus, driver), components)
        if finding.error
    ]


def test_known_good_gives_notes_only():
    both = component("vllm/fa2.so", "vllm/fa3.so")
    assert errors([FA2, FA3, TORCH], ["sm_86", "sm_90"], [both]) == []
    assert errors([FA2, FA3, TORCH], ["sm_90"], [both], driver="535.104.05") == []
    assert errors([FA2, FA3, TORCH], ["sm_86", "sm_90"]) == []


def test_a_needed_component_without_code_is_an_error():
    (sentence,) = errors([FA3], ["sm_86"], [component("vllm/fa3.so")])
    assert sentence == (
        "attention (vllm) can't run: vllm/fa3.so: sm_86 has no code in its 192 units "
        "(192 for newer GPUs)"
    )
    assert errors([FA3], ["sm_86"], [component("vllm/fa3.so", needed=False)]) == []


def test_a_needed_component_that_the_driver_is_too_old_for_is_an_error():
    needed = [component("vllm/fa2.so")]
    (sentence,) = errors([FA2], ["sm_90"], needed, driver="570.26")
    assert "which driver 570.26 can't compile; a driver from 575.51.03 on compiles it" in sentence
    assert errors([FA2], ["sm_90"], needed, driver="575.57.08") == []
    (note,) = gate(coverage(Inventory((FA2,)), ["sm_90"]), needed)
    assert not note.error
    assert str(note).endswith("a driver from 575.51.03 on compiles it at first use")


def test_patterns_match_in_wheels_and_in_environments():
    moved = file("lib/python3.12/site-packages/vllm/fa3.so", (1, "sm_90a"))
    assert errors([moved], ["sm_86"], [component("vllm/fa*.so")])


def test_a_uniform_library_with_a_gap_is_an_error_even_when_nobody_names_it():
    (sentence,) = errors([TORCH], ["sm_110"])
    assert sentence.startswith("torch/lib/libtorch_cuda.so: sm_110 has no code in its 475 units")
    assert errors([TORCH], ["sm_70"])
    partly = file("torch/lib/libtorch_cuda.so", (99, "sm_80 sm_90"), (1, "sm_80"))
    assert errors([partly], ["sm_90"])
    newest = file("libcusolver.so.12", (225, "sm_80 sm_90"), (1, "sm_90"))
    assert errors([newest], ["sm_80"]) == []
    assert errors([partly], ["sm_90"], [component("torch/lib/*")])


def test_fast_paths_and_bare_cubins_are_notes():
    cubins = FileKernels("cubins/*.cubin", (Containers((img("sm_100"),), 9, CUBIN),))
    mixed = file("libcublasLt.so.12", (5, "sm_90"), (5, "sm_80"))
    assert errors([FA3, cubins, mixed], ["sm_86"]) == []


def test_a_build_for_the_processor_is_told():
    nothing = coverage(Inventory(), ["sm_86"])
    (finding,) = absent(nothing, [component("vllm/fa2.so")])
    assert finding.error
    assert absent(coverage(Inventory((FA2,)), ["sm_86"]), [component("vllm/fa2.so")]) == []


def test_inventories_survive_their_record():
    inventory = Inventory((FA2, FileKernels("x.py", made_on_target=("triton",))))
    assert from_data(Inventory, to_data(inventory)) == inventory


def test_tables():
    inventory = Inventory((FA2, FA3, TORCH, FileKernels("x/**/*.py", made_on_target=("triton",))))
    assert inventory_text(inventory).splitlines() == [
        "file                        units  machine code (sm_), PTX (compute_)",
        "vllm/fa2.so                 52     sm_80 compute_80 (PTX 8.8)",
        "vllm/fa3.so                 192    sm_90a",
        "torch/lib/libtorch_cuda.so  475    sm_75 sm_80 sm_86 sm_90",
        "made on the target by triton: x/**/*.py",
    ]
    assert coverage_text(coverage(inventory, ["sm_86", "sm_90"])).splitlines() == [
        "file                        sm_86       sm_90",
        "vllm/fa3.so                 none        native",
        "vllm/fa2.so                 compatible  PTX only",
        "torch/lib/libtorch_cuda.so  native      native",
        "PTX 8.8 is compiled by drivers from 575.51.03 on",
        "made on the target by triton: x/**/*.py",
    ]
    assert coverage_text(coverage(Inventory(), ["sm_86"])) == "no GPU code found"


def test_a_long_table_shows_the_gaps_and_counts_the_rest():
    files = [file(f"lib{number:02}.so", (1, "sm_86")) for number in range(60)]
    lines = coverage_text(coverage(Inventory((*files, FA3)), ["sm_86"])).splitlines()
    assert lines == [
        "file         sm_86",
        "vllm/fa3.so  none",
        "… and 60 files with machine code for all of them",
    ]
