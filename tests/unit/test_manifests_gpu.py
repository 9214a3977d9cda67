import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import gpu
from manifests.errors import UsageError


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
    except UsageError as error:
        assert error.mend
