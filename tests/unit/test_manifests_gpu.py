import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import gpu
from manifests.errors import TargetError, UsageError


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("cpu", ("cpu",)),
        ("CPU", ("cpu",)),
        ("sm_86", ("sm_86",)),
        ("SM_86", ("sm_86",)),
        ("sm86", ("sm_86",)),
        ("86", ("sm_86",)),
        ("8.6", ("sm_86",)),
        ("10.0", ("sm_100",)),
        ("8.9, 8.6,sm_86", ("sm_86", "sm_89")),
    ],
)
def test_spellings(text, gpus):
    assert gpu.parse(text) == gpus


@pytest.mark.parametrize(
    ("text", "named", "mend"),
    [
        ("sm_868", "'sm_868'", "sm_86"),
        ("radeon", "'radeon'", "choose from: cpu, sm_70"),
        ("", "''", "choose from"),
        ("sm_86,", "''", "choose from"),
        ("cpus", "'cpus'", "did you mean cpu?"),
        ("8.6.1", "'8.6.1'", ""),
        ("sm_99", "'sm_99'", "did you mean"),
    ],
)
def test_what_is_no_gpu(text, named, mend):
    with pytest.raises(UsageError) as caught:
        gpu.parse(text)
    assert f"unknown GPU {named}" in caught.value.what
    assert mend in caught.value.mend
    assert caught.value.mend


def test_cpu_beside_a_gpu():
    with pytest.raises(UsageError, match="cpu stands beside a GPU") as caught:
        gpu.parse("cpu,sm_86")
    assert caught.value.mend == "make two bundles"


@given(st.lists(st.sampled_from(gpu.CAPABILITIES), min_size=1))
def test_order_and_repetition_do_not_matter(numbers):
    parsed = gpu.parse(",".join(numbers))
    assert parsed == gpu.parse(",".join(reversed(numbers)))
    assert set(parsed) == {f"sm_{number}" for number in numbers}
    assert gpu.parse(",".join(parsed)) == parsed


@given(st.text(max_size=12))
def test_any_text_gives_known_names_or_a_usage_error(text):
    known = {gpu.CPU, *(f"sm_{number}" for number in gpu.CAPABILITIES)}
    try:
        assert set(gpu.parse(text)) <= known
    except (UsageError, TargetError) as error:
        assert error.mend


@pytest.mark.parametrize(
    ("text", "capability", "gib"),
    [
        ("a10", "sm_86", 24),
        ("rtx4090", "sm_89", 24),
        ("rtx 4090", "sm_89", 24),
        ("4090", "sm_89", 24),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "sm_89", 16),
        ("NVIDIA GeForce RTX 2080 with Max-Q Design", "sm_75", 8),
        ("h200", "sm_90", 141),
        ("L40S", "sm_89", 48),
        ("NVIDIA H100 80GB HBM3", "sm_90", 80),
        ("NVIDIA H100 NVL", "sm_90", 94),
        ("Tesla V100-SXM2-32GB", "sm_70", 32),
        ("NVIDIA A100 80GB PCIe", "sm_80", 80),
        ("NVIDIA A100-SXM4-80GB", "sm_80", 80),
        ("a100-80gb", "sm_80", 80),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "sm_80", 40),
        ("NVIDIA GH200 480GB", "sm_90", 96),
        ("NVIDIA GH200 144G HBM3e", "sm_90", 144),
        ("Quadro RTX 6000", "sm_75", 24),
        ("NVIDIA RTX 6000 Ada Generation", "sm_89", 48),
        ("NVIDIA RTX A6000", "sm_86", 48),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "sm_120", 96),
        ("NVIDIA B300 SXM6 AC", "sm_103", 268),
        ("NVIDIA GB10", "sm_121", 128),
        ("b100", "sm_100", 0),
        ("sm_86", "sm_86", 0),
        ("cpu", "cpu", 0),
    ],
)
def test_products(text, capability, gib):
    (found,) = gpu.products(text)
    assert (found.capability, found.memory) == (capability, gib * gpu.GIB)
    assert gpu.parse(text) == (capability,)


@pytest.mark.parametrize(
    ("text", "named", "mend"),
    [
        ("rtx 6000", "unknown GPU 'rtx 6000'", "rtx6000ada"),  # three products could be meant
        ("a11", "unknown GPU 'a11'", "a10"),
        ("h2000", "unknown GPU 'h2000'", "h200"),
        ("NVIDIA", "unknown GPU 'NVIDIA'", "a product, such as a10"),
        ("2x", "unknown GPU '2x'", ""),
        ("0x a10", "unknown GPU '0x a10'", ""),
        ("2x cpu", "unknown GPU '2x cpu'", ""),
        ("a100-64gb", "A100 does not come with 64 GB", "it comes with 40 or 80 GB"),
    ],
)
def test_what_is_no_product(text, named, mend):
    with pytest.raises(UsageError) as caught:
        gpu.products(text)
    assert named in caught.value.what
    assert mend in caught.value.mend
    assert caught.value.mend


@pytest.mark.parametrize(
    ("text", "number"), [("p40", "6.1"), ("sm_61", "6.1"), ("3.5", "3.5"), ("Tesla K80", "3.7")]
)
def test_what_is_too_old(text, number):
    with pytest.raises(TargetError, match=f"compute capability {number}, which is too old"):
        gpu.parse(text)


def test_the_smaller_memory_is_taken_and_that_is_said():
    (found,) = gpu.products("a100")
    assert found.memory == 40 * gpu.GIB
    assert found.note == (
        "A100 comes with 40 or 80 GB: 40 GB is assumed (--gpu a100-80gb says otherwise)"
    )
    (other,) = gpu.products("a100-80gb")
    assert (other.memory, other.note) == (80 * gpu.GIB, "")


def test_counts():
    assert [item.count for item in gpu.products("2x h100, 8xA10,l4")] == [2, 8, 0]
    assert [item.count for item in gpu.products("4 x 8.6")] == [4]


def test_capabilities_compare_as_numbers():
    assert gpu.parse("12.0,9.0,a10") == ("sm_86", "sm_90", "sm_120")
    assert gpu.capability("sm_100") > gpu.capability("9.0") > gpu.capability("86")
    assert str(gpu.capability("sm_103")) == "10.3"
    with pytest.raises(UsageError, match="no compute capability"):
        gpu.capability("ampere")


def test_the_table():
    table = gpu.table()
    assert len(table) >= 60 + len([item for item in table if item.capability.number in gpu.TOO_OLD])
    for item in table:
        number = item.capability.number
        assert number in gpu.CAPABILITIES or number in gpu.TOO_OLD
        assert list(item.sizes) == sorted(item.sizes)
        assert item.arch in (gpu.X86_64, gpu.AARCH64)
        if number in gpu.CAPABILITIES:
            # Every name finds its own product, and not one that another name hides.
            found = gpu.product(f"NVIDIA {item.name}")
            assert (found.name, found.capability) == (item.name, item.capability.sm)


@given(st.sampled_from(gpu.table()), st.sampled_from(["", " ", "-", "_"]), st.booleans())
def test_names_without_blanks_or_in_capitals(item, between, upper):
    if item.capability.number in gpu.TOO_OLD:
        return
    name = item.name.replace(" ", between)
    assert gpu.product(name.upper() if upper else name.lower()).name == item.name
