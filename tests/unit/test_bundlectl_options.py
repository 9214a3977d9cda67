import argparse
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.options import read
from manifests.trial import Option, _option


def plain_number(text):
    return int(text)


plain_number.__qualname__ = "human_readable_int"


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(message)


def parser():
    """Options of the kinds that vLLM's parser has."""
    made = Parser(allow_abbrev=False, add_help=False)
    made.add_argument("model_tag", nargs="?")
    made.add_argument("--tensor-parallel-size", "-tp", type=int)
    made.add_argument("--gpu-memory-utilization", type=float)
    made.add_argument("--dtype", choices=("auto", "half", "float16"))
    made.add_argument("--kwargs", type=json.loads)
    made.add_argument("--prefix-caching", action=argparse.BooleanOptionalAction)
    made.add_argument("--names", nargs="+")
    made.add_argument("--maybe", nargs="?")
    made.add_argument("--two", nargs=2)
    made.add_argument("--max-model-len", type=plain_number)
    made.add_argument("--odd", type=lambda text: text)
    return made


OPTIONS = tuple(_option(action) for action in parser()._actions)


def found(*words):
    return read(OPTIONS, words)


@pytest.mark.parametrize(
    ("words", "place", "text", "mend"),
    [
        (["--tensor-paralel-size", "2"], 0, "no option --tensor-paralel-size", "--tensor-parallel"),
        (["--zzz"], 0, "no option --zzz", "remove"),
        (["--names", "a", "--kwarg", "{}"], 2, "--kwarg is a part of: --kwargs", "--kwargs out"),
        (["--m", "1"], 0, "part of: --max-model-len, --maybe", "write one"),
        (["--dtype", "hal"], 0, "--dtype can't be 'hal'", "did you mean half"),
        (["--dtype=bf"], 0, "--dtype can't be 'bf'", "choose from: auto, half, float16"),
        (["-tp", "two"], 0, "-tp is 'two', and must be a whole number", "correct"),
        (["--gpu_memory_utilization", "a lot"], 0, "must be a number", "correct"),
        (["--kwargs", "{'a': 1}"], 0, "must be JSON", "correct"),
        (["--dtype"], 0, "--dtype needs a value", "--dtype=VALUE"),
        (["--names"], 0, "--names needs a value", "VALUE"),
        (["--two", "1"], 0, "--two needs a value", "VALUE"),
        (["--dtype", "half", "half"], 2, "'half' belongs to no option", "remove"),
        (["seed"], 0, "'seed' belongs to no option", "remove"),
        (["--prefix-caching=true"], 0, "takes no value", "alone"),
        (["--"], 0, "no option --", "remove"),
        (["--zz.a", "1"], 0, "no option --zz", "remove"),
    ],
)
def test_what_is_wrong_is_named(words, place, text, mend):
    (problem,) = found(*words).problems
    assert problem.place == place
    assert text in problem.text
    assert mend in problem.mend


@pytest.mark.parametrize(
    "words",
    [
        ["--tensor_parallel_size", "2", "--no-prefix-caching"],
        ["-tp=2", "--names", "a", "b", "--maybe", "--two", "1", "2"],
        ["-tp", "-1", "--gpu-memory-utilization", ".5"],
        ['--kwargs={"a b": [1]}', "--dtype", "half"],
        ["--max-model-len", "8192"],
        [],
    ],
)
def test_what_is_right_passes_and_leaves_no_doubt(words):
    assert found(*words) == read(OPTIONS, [])


@pytest.mark.parametrize(
    ("words", "doubt"),
    [
        (["--odd", "x"], ("--odd", "x")),
        (["--odd=x", "--dtype", "half"], ("--odd", "x")),
        (["--max-model-len", "8k"], ("--max-model-len", "8k")),
        (["--kwargs.a", "1"], ("--kwargs.a", "1")),
        (["--kwargs.a=1"], ("--kwargs.a=1",)),
        (["-O3"], ("-O3",)),
    ],
)
def test_what_only_the_parser_can_tell_is_left_to_it(words, doubt):
    assert found(*words).problems == ()
    assert found(*words).doubtful == (doubt,)


WORDS = st.sampled_from(
    [
        *(name for option in OPTIONS for name in option.names),
        *("--dtype=half", "--dtype=x", "-tp=1", "--kwargs={}", "--prefix-caching=1", "--names=a"),
        *("1", "-1", "0.5", "-.5", "half", "{}", '{"a": 1}', "a b", "x", "--none", "-", ""),
    ]
)


@given(st.lists(WORDS, max_size=6))
def test_argparse_says_the_same(words):
    reading = read(OPTIONS, words)
    try:
        parsed = parser().parse_args(words)
    except ValueError:
        accepted = False
    else:
        accepted = parsed.model_tag is None  # a word that belongs to nothing is taken for it
    if reading.problems:
        assert not accepted
    elif not reading.doubtful:
        assert accepted


@given(
    nargs=st.sampled_from([None, "?", "*", "+", 0, 1, 3, "...", "A...", "==SUPPRESS=="]),
    words=st.lists(WORDS, max_size=5),
    attached=st.booleans(),
)
def test_whatever_argparse_counts_values_by(nargs, words, attached):
    option = Option(("--it",), "" if nargs is None else str(nargs))
    reading = read((option, *OPTIONS), ["--it=1" if attached else "--it", *words])
    if nargs in ("...", "A...", "==SUPPRESS=="):
        assert reading.problems == ()
        assert reading.doubtful == (("--it", *(["1"] if attached else []), *words),)
