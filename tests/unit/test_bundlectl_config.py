import contextlib
import dataclasses
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.config import ServeConfig, load, parse, render_default
from manifests.errors import FilesystemError, UsageError

TEXT = st.text(st.characters(codec="utf-8"))
NATURAL = st.integers(0, 2**31)
CONFIGS = st.builds(
    ServeConfig,
    host=st.sampled_from(["127.0.0.1", "::1", "localhost", "127.1.2.3"]),
    port=st.integers(1, 65535),
    allow_remote=st.booleans(),
    thinking=st.booleans(),
    served_model_name=TEXT,
    max_model_len=NATURAL,
    max_num_seqs=NATURAL,
    reasoning_parser=TEXT,
    pictures=st.booleans(),
    dtype=st.sampled_from(["auto", "bfloat16", "float16", "float32"]),
    prefix_caching=st.booleans(),
    log_requests=st.booleans(),
    tensor_parallel_size=st.integers(0, 1024),
    gpu_memory_utilization=st.integers(0, 100),
    start_timeout=st.integers(1, 86400),
    stop_timeout=st.integers(0, 3600),
    extra_arguments=st.lists(TEXT).map(tuple),
    environment=st.dictionaries(TEXT, TEXT),
)


@given(CONFIGS)
def test_what_is_written_is_what_is_read(config):
    assert parse(render_default(config), "serve.toml") == config


def test_the_default_file_documents_every_key():
    text = render_default()
    assert parse(text, "serve.toml") == ServeConfig()
    for key in dataclasses.fields(ServeConfig):
        assert f"{key.name} = " in text or f"[{key.name}]" in text
        assert f"# {key.metadata['about'][0]}" in text
    assert set(tomllib.loads(text)) == {key.name for key in dataclasses.fields(ServeConfig)}


def test_an_empty_file_is_the_defaults_and_they_are_safe():
    config = parse("", "serve.toml")
    assert config == ServeConfig()
    assert config.host == "127.0.0.1"
    assert not config.allow_remote


@pytest.mark.parametrize(
    ("text", "message", "mend"),
    [
        ("thinkin = true", "serve.toml:1: unknown key 'thinkin'", "thinking"),
        ("# a\n\nmax-model-len = 1", "serve.toml:3: unknown key", "max_model_len"),
        ("[enviroment]\nA = '1'", "serve.toml:1: unknown key", "environment"),
        ("zzz = 1", "unknown key 'zzz'", "choose from: host, port"),
        ('port = "8000"', "port must be a whole number, found '8000'", "port = 8000"),
        ("port = true", "port must be a whole number", "port = 8000"),
        ("port = 8000.0", "port must be a whole number", "port = 8000"),
        ("thinking = 1", "thinking must be true or false", "thinking = true"),
        ('thinking = "off"', "thinking must be true or false", "thinking = true"),
        ("host = 1", "host must be text", 'host = "127.0.0.1"'),
        ("extra_arguments = '--seed 0'", "must be a list of texts", "extra_arguments = []"),
        ("extra_arguments = ['--seed', 0]", "must be a list of texts", "extra_arguments = []"),
        ("[environment]\nA = 1", "must be a table of texts", "[environment]"),
        ("environment = 'A=1'", "must be a table of texts", "[environment]"),
        ("\nport = 0", "serve.toml:2: port is 0", "correct"),
        ("port = 65536", "port is 65536", "correct"),
        ("max_model_len = -1", "max_model_len is -1", "correct"),
        ("start_timeout = 0", "start_timeout is 0", "correct"),
        ("dtype = 'bfloat'", "dtype is 'bfloat'", "did you mean bfloat16?"),
        ("\ndtype = 'int4'", "serve.toml:2: dtype is 'int4'", "correct that line"),
        ("port = ", "not valid TOML", "correct that line"),
        ("port = 1\nport = 2", "not valid TOML", "correct that line"),
        ("host = 'example.org'", "must be an IP address or localhost", "127.0.0.1"),
        ("host = ''", "must be an IP address or localhost", "127.0.0.1"),
        ("\n\nhost = '0.0.0.0'", "serve.toml:3: host 0.0.0.0 lets other machines in", "allow_rem"),
        ("host = '::'", "lets other machines in", "allow_remote"),
        ("host = '192.0.2.1'", "lets other machines in", "allow_remote"),
    ],
)
def test_mistakes_name_file_line_key_and_mend(text, message, mend):
    with pytest.raises(UsageError) as caught:
        parse(text, "serve.toml")
    assert message in caught.value.what
    assert mend in caught.value.mend


def test_toml_errors_name_the_line():
    with pytest.raises(UsageError, match="line 2"):
        parse("port = 1\nhost =\nthinking = true", "serve.toml")


def test_other_machines_only_by_an_explicit_key():
    assert not parse("host = '0.0.0.0'\nallow_remote = true", "x").loopback


@given(TEXT)
def test_no_text_at_all_causes_another_error(text):
    with contextlib.suppress(UsageError):
        parse(text, "serve.toml")


def test_files(tmp_path):
    path = tmp_path / "serve.toml"
    with pytest.raises(FilesystemError, match=r"serve\.toml"):
        load(path)
    path.write_text("port = 9000\n")
    assert load(path).port == 9000
    path.write_bytes(b"# \xff\n")
    with pytest.raises(UsageError, match="not UTF-8"):
        load(path)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        # As vLLM's own flag takes it.
        ("gpu_memory_utilization = 0.9", "must be a whole number, found float"),
        ("gpu_memory_utilization = 101", "from 0 to 100"),
        ("tensor_parallel_size = -1", "from 0 to 1024"),
    ],
)
def test_figures_about_gpus(line, words):
    with pytest.raises(UsageError) as caught:
        parse(f"{line}\n", "serve.toml")
    assert "serve.toml:1: " in caught.value.what
    assert words in caught.value.render()
