"""`bundlectl config` before it touches anything: a key as it was typed, and the list of all."""

import pytest

from bundlectl.config import ServeConfig, parse, render_default
from bundlectl.settingsedit import edited
from bundlectl.settingslist import rows
from manifests.errors import UsageError


@pytest.mark.parametrize(
    ("name", "typed", "key", "value"),
    [
        ("port", "8001", "port", 8001),
        ("thinking", "off", "thinking", False),
        ("thinking", "true", "thinking", True),
        ("served_model_name", "qwen 3", "served_model_name", "qwen 3"),
        ("served_model_name", "'qwen'", "served_model_name", "qwen"),
        ("extra_arguments", '["--seed", "0"]', "extra_arguments", ("--seed", "0")),
        ("environment.OMP_NUM_THREADS", "8", "environment", {"OMP_NUM_THREADS": "8"}),
    ],
)
def test_a_value_as_it_is_typed(name, typed, key, value):
    settings = parse(edited(render_default(), "serve.toml", name, typed), "serve.toml")
    assert getattr(settings, key) == value


@pytest.mark.parametrize(
    ("name", "typed", "what", "mend"),
    [
        ("prot", "1", "unknown key 'prot'", "did you mean port?"),
        ("port", "many", "port: 'many' is no value", "config set port 8000"),
        ("extra_arguments", "--seed 0", "is no value", '\'["--seed", "0"]\''),
        ("environment", "A=1", "'environment' can't be set", "environment.OMP_NUM_THREADS"),
        ("port.x", "1", "'port.x' can't be set", ""),
        ("port", "1\nhost = '::'", "is no value", ""),
        ("port", "1979-05-27", "is no value", ""),
        ("port", "{ a = 1 }", "is no value", ""),
    ],
)
def test_what_is_no_value_of_the_key_is_refused(name, typed, what, mend):
    with pytest.raises(UsageError) as caught:
        edited(render_default(), "serve.toml", name, typed)
    assert what in caught.value.what
    assert mend in caught.value.mend


def test_a_new_key_brings_its_documentation():
    text = edited("port = 1\n", "serve.toml", "dtype", "float16")
    assert text.startswith("port = 1\n\n# Numbers that the model works with.")
    assert text.endswith('dtype = "float16"\n')


def test_a_key_can_be_taken_out_and_one_that_is_not_there_changes_nothing():
    text = render_default()
    assert parse(edited(text, "x", "port", None), "x").port == 8000
    assert edited(text, "x", "environment.A", None) == text


def test_a_file_that_is_no_toml_is_refused_with_its_line():
    with pytest.raises(UsageError, match="line 2"):
        edited("port = 1\nhost =\n", "serve.toml", "port", "2")


def test_the_list_says_where_each_value_comes_from():
    text = "max_model_len = 0\nport = 9\ntensor_parallel_size = 2\n"
    chosen = {"max_model_len": "8192: what fits", "tensor_parallel_size": "2: the file says so"}
    listed = {row.key.name: row for row in rows(text, parse(text, "x"), chosen)}
    assert list(listed) == list(ServeConfig.__dataclass_fields__)
    assert (listed["port"].source, listed["port"].line) == ("file", 2)
    assert (listed["host"].source, listed["host"].line) == ("default", 0)
    assert (listed["max_model_len"].source, listed["max_model_len"].chosen) == (
        "fit",
        "8192: what fits",
    )
    assert listed["tensor_parallel_size"].chosen == ""
    assert "# TCP port.\nport = 9   (line 2)" in listed["port"].text
    assert listed["port"].record["default"] == 8000


@pytest.mark.parametrize("name", ["served_model_name", "environment.A", "extra_arguments"])
def test_bytes_that_are_no_text_are_refused(name):
    with pytest.raises(UsageError, match="no text in UTF-8"):
        edited(render_default(), "serve.toml", name, "\udcff")


def test_the_list_hides_the_secrets_of_the_environment():
    text = '[environment]\nHF_TOKEN = "correct-horse"\nOMP_NUM_THREADS = "8"\n'
    row = rows(text, parse(text, "x"), {})[-1]
    assert row.record["value"] == {"HF_TOKEN": "[removed:named-secret]", "OMP_NUM_THREADS": "8"}
    assert "correct-horse" not in row.text
    assert "OMP_NUM_THREADS" in row.text
