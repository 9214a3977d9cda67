"""What is decided before anything is fetched: architectures, labels, cores, memory, glibc."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests.errors import TargetError, UsageError
from wheelhouse.flashattn import archs, outlook
from wheelhouse.flashattn.building import check_glibc
from wheelhouse.flashattn.recipes import check_cuda, label
from wheelhouse.flashattn.resources import Machine, jobs, this_machine, wish
from wheelhouse.flashattn.tables import tables

GB = 1_000_000_000
UNIT = tables().cost.memory


@pytest.mark.parametrize(
    ("gpus", "value"),
    [
        (("sm_80",), "80"),
        (("sm_86",), "80"),
        (("sm_89", "sm_86"), "80"),
        (("sm_90",), "90"),
        (("sm_100", "sm_103"), "100"),
        (("sm_121",), "120"),
        (("sm_120", "sm_86"), "80;120"),
        (("sm_103", "sm_90", "sm_89"), "80;90;100"),
    ],
)
def test_each_gpu_gets_the_code_that_runs_on_it(gpus, value):
    assert archs(gpus)[0] == value


def test_borrowed_code_is_said():
    assert archs(("sm_86", "sm_89"))[1] == (
        "sm_80 is built for sm_86, sm_89: flash-attn has no code of sm_86 and sm_89's own"
    )
    assert archs(("sm_90",))[1] == "sm_90 is built for itself"
    assert "sm_120 is built for itself" in archs(("sm_120", "sm_86"))[1]


@pytest.mark.parametrize("gpus", [("sm_75",), ("sm_70", "sm_86"), ("sm_87",), ("cpu",), ()])
def test_what_it_has_no_kernels_for_is_refused_in_words(gpus):
    with pytest.raises(TargetError, match="no kernels for") as caught:
        archs(gpus)
    assert all(gpu in caught.value.what for gpu in gpus if gpu != "sm_86")
    assert "sm_86" not in caught.value.what
    assert caught.value.mend


def test_only_what_setup_py_accepts_is_asked_for():
    values = [arch.value for arch in tables().archs]
    assert values == ["80", "90", "100", "120"]
    gpus = [gpu for arch in tables().archs for gpu in arch.gpus]
    assert len(gpus) == len(set(gpus))
    assert all(f"sm_{arch.value}" in arch.gpus for arch in tables().archs)


def test_a_label_says_what_it_was_built_for():
    assert label(("80", "120"), "2.10.0", "12.8") == "cu128torch2.10cxx11abitrue.sm80.sm120"


def test_a_toolkit_that_setup_py_would_drop_an_architecture_for_is_refused():
    check_cuda(("80", "120"), "12.8")
    with pytest.raises(TargetError, match=r"CUDA 12\.6.*sm_120"):
        check_cuda(("80", "120"), "12.6")


@pytest.mark.parametrize(
    ("wanted", "here", "fits"),
    [("2.31", "2.36", False), ("2.32", "2.36", True), ("2.28", "2.31", True), ("2.31", "", True)],
)
def test_a_build_that_would_not_load_there_is_refused_before_it_starts(wanted, here, fits):
    if fits:
        check_glibc(wanted, here)
        return
    with pytest.raises(TargetError, match=r"GLIBC_2\.32.*glibc 2\.31") as caught:
        check_glibc(wanted, here)
    assert "older" in caught.value.mend


def test_jobs_follow_from_cores_and_memory():
    assert jobs(Machine(16, 128 * GB)) == 16
    assert jobs(Machine(16, 3 * UNIT)) == 3
    assert jobs(Machine(2, 128 * GB)) == 2
    assert jobs(Machine(16, 128 * GB), wish=4) == 4
    assert jobs(Machine(2, UNIT), wish=40) == 1


def test_memory_that_does_not_do_for_one_unit_is_refused_with_both_figures():
    with pytest.raises(UsageError, match=r"2\.00 GB.*7\.10 GB") as caught:
        jobs(Machine(16, 2 * GB))
    assert "memory" in caught.value.mend


@given(st.integers(1, 512), st.integers(UNIT, 4096 * GB), st.integers(0, 600))
def test_jobs_never_take_more_than_there_is(cores, memory, asked):
    found = jobs(Machine(cores, memory), asked)
    assert 1 <= found <= cores
    assert found * UNIT <= memory


def test_a_wish_is_a_number():
    assert wish({}) == 0
    assert wish({"MAX_JOBS": "3"}) == 3
    with pytest.raises(UsageError, match="MAX_JOBS is 'all'"):
        wish({"MAX_JOBS": "all"})


def proc(root, available=64 * GB, cgroup=""):
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable: {available // 1024} kB\n")
    (root / "proc/self/cgroup").write_text(cgroup)
    return root


def limited(folder, **files):
    folder.mkdir(parents=True)
    for name, value in files.items():
        (folder / name.replace("__", ".")).write_text(f"{value}\n")


def test_memory_is_what_the_kernel_says_is_available(tmp_path):
    assert this_machine(proc(tmp_path)).memory == 64 * GB // 1024 * 1024


def test_a_limit_of_any_group_above_us_counts(tmp_path):
    root = proc(tmp_path, cgroup="0::/machine/build\n")
    limited(root / "sys/fs/cgroup/machine", memory__max=20 * GB, memory__current=9 * GB)
    limited(
        root / "sys/fs/cgroup/machine/build",
        memory__max="max", memory__current=9 * GB, memory__stat="anon 1",
    )  # fmt: skip
    assert this_machine(root).memory == 11 * GB


def test_page_cache_can_be_taken_back(tmp_path):
    root = proc(tmp_path, cgroup="0::/build\n")
    limited(
        root / "sys/fs/cgroup/build",
        memory__max=20 * GB, memory__current=19 * GB, memory__stat=f"inactive_file {15 * GB}",
    )  # fmt: skip
    assert this_machine(root).memory == 16 * GB


def test_groups_of_the_first_version_count(tmp_path):
    root = proc(tmp_path, cgroup="5:cpu,cpuacct:/\n4:memory:/docker/1\n0::/\n")
    limited(
        root / "sys/fs/cgroup/memory",
        memory__limit_in_bytes=8 * GB, memory__usage_in_bytes=GB,
    )  # fmt: skip
    assert this_machine(root).memory == 7 * GB


def test_the_real_machine_has_something():
    machine = this_machine()
    assert machine.cores >= 1
    assert 0 < machine.memory < 1 << 50


def test_the_plan_says_how_long_and_how_much():
    seen = outlook("2.8.3.post2", ("sm_86",), Machine(16, 128 * GB))
    assert (seen.archs, seen.units, seen.jobs) == ("80", 73, 16)
    assert seen.seconds == 73 * tables().cost.seconds // 16
    assert "about 18 minutes" in seen.text()
    assert "sm_86" in seen.text()
    two = outlook("2.8.3.post2", ("sm_86", "sm_90"), Machine(2, 128 * GB))
    assert "about 4 hours" in two.text()


def test_an_unknown_release_names_the_known_ones():
    with pytest.raises(UsageError, match=r"2\.9\.0 is not known") as caught:
        outlook("2.9.0", ("sm_86",), Machine(16, 128 * GB))
    assert "2.8.3.post2" in caught.value.mend
