import base64
import json
import time
from urllib.parse import quote

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bundlectl.redaction import KNOWN, Redactor, mark, of_variable, redact

KEY = "vQ7-xk_P0~sZ3.mN+e/Yb4=Tq9"
PEM = """-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEAwJ1kq0Vt3o9c4bZ8b5xR2nHk1yq7sL0uWm3tE6vXg9pQd2aF
c8zR5nJk1yq7sL0uWm3tE6vXg9pQd2aFc8zR5nJk1yq7sL0uWm3tE6vXg9pQd2aF
-----END RSA PRIVATE KEY-----"""

#: Made-up secrets by shape, each with what has to be gone.
SHAPES = {
    "hugging face": ("hf_" + "AbCdEfGhIjKlMnOpQrStUvWx", "AbCdEfGh"),
    "openai": ("sk-" + "proj-a1B2c3D4e5F6g7H8", "a1B2c3"),
    "github": ("ghp_" + "a1B2c3D4e5F6g7H8i9J0", "a1B2c3"),
    "aws id": ("AKIA" + "IOSFODNN7EXAMPLE", "IOSFODNN7"),
    "aws secret": ("wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY", "wJalrXUtn"),
    "jwt": ("eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0In0.sig-na_ture", "eyJzdWIi"),
    "google": ("AIza" + "SyA1B2C3D4E5F6G7H8I9J0K1L2M3N4O5P6Q", "SyA1B2"),
    "nvidia": ("nvapi-" + "a1B2c3D4e5F6g7H8i9", "a1B2c3"),
    "bearer": ("Authorization: Bearer abc.def", "abc.def"),
    "bearer in a dictionary": ("{'authorization': 'Bearer abc.def', 'x': 1}", "abc.def"),
    "basic": ("Proxy-Authorization: Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
    "bare bearer": ("using bearer abcdef123", "abcdef123"),
    "cookie": ("Cookie: session=abc; other=hunter2", "hunter2"),
    "url": ("http://user:hunter2@proxy:3128", "hunter2"),
    "url with @ and /": ("http://user:hunt@er/2x@proxy:3128", "er/2x"),
    "query": ("GET https://host/path?sig=hunter2&x=1", "hunter2"),
    "access line": ('INFO: 127.0.0.1:5 - "GET /v1/models?key=hunter2 HTTP/1.1" 200', "hunter2"),
    "assignment": ("DB_PASSWORD=hunter2", "hunter2"),
    "words in quotes": ('"password": "correct horse battery"', "battery"),
    "quote in quotes": (r'"password": "corr\"ect horse"', "horse"),
    "no end": ('"password": "correct horse', "horse"),
    "json in json": (r'"{\"api_key\": \"my \\\"zebra\\\" key\"}"', "zebra"),
    "yaml": ("client_secret: hunter2", "hunter2"),
    "option": ("vllm serve --api-key hunter2 --port 1", "hunter2"),
    "option with =": ("tool --hf-token=hunter2", "hunter2"),
    "option in a list": ("['--password', 'hunter2', '--port']", "hunter2"),
    "curl": ("curl -u admin:hunter2 http://x", "hunter2"),
    "partly known": (f"password={KEY}tail-of-it", "tail-of-it"),
    "private key": (PEM, "c8zR5nJk1"),
    "private key on one line": (PEM.replace("\n", "\\n"), "c8zR5nJk1"),
    "private key cut off": (PEM[:150], "MIIEpAIB"),
    "private key, each line of it logged": (
        "\n".join(f"INFO 11-30 [a.py:1] {line}" for line in PEM.splitlines()),
        "c8zR5nJk1",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_looks_like_a_secret_goes(name):
    text, gone = SHAPES[name]
    for around in ("{}", "before {} after", "x\n{}\ny"):
        cleaned = redact(around.format(text), [KEY])
        assert gone not in cleaned
        assert "[removed:" in cleaned


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


#: How programs write a secret down.
WRITTEN = {
    "raw": str,
    "url": lambda s: quote(s, safe=""),
    "json": lambda s: json.dumps({"k": s}),
    "json in json": lambda s: json.dumps(json.dumps({"k": s})),
    "repr": repr,
    "hex": lambda s: s.encode().hex(),
    "base64": encoded,
    "base64 after one letter": lambda s: encoded(f"u{s}"),
    "base64 after two letters": lambda s: encoded(f"u:{s}"),
    "base64 between": lambda s: encoded(f"user:{s}:more"),
    "urlsafe base64": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
}


@pytest.mark.parametrize("form", WRITTEN)
@given(
    secret=st.text(
        st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=12, max_size=40
    ),
    before=st.text(max_size=20),
    after=st.text(max_size=20),
)
def test_a_known_secret_never_survives(form, secret, before, after):
    assume(secret.strip() == secret and secret not in mark(KNOWN))
    written = WRITTEN[form](secret)
    inner = written[4:-4] if "base64" in form else written.strip("{}\"'\\ k:")
    cleaned = redact(before + written + after, [secret])
    assert secret not in cleaned.replace(before, "").replace(after, "") or secret in before + after
    assert inner not in cleaned or len(inner) < 8


@given(st.text(max_size=200), st.sampled_from(sorted(SHAPES)), st.text(max_size=50))
def test_twice_is_as_good_as_once(before, name, after):
    once = redact(before + SHAPES[name][0] + after, [KEY])
    assert redact(once, [KEY]) == once


@given(st.text(st.sampled_from("ab1-_:=/@\"'\\ \n.,[]{}?&" + "password"), max_size=80))
def test_any_text_can_be_treated_twice(text):
    once = redact(text, [KEY])
    assert redact(once, [KEY]) == once


def test_the_beginning_of_a_known_secret_that_was_cut_off():
    assert redact(f"key {KEY[:14]}", [KEY]) == f"key {mark(KNOWN)}"


@pytest.mark.parametrize(
    "text",
    [
        "max_num_batched_tokens=8192, eos_token_id=2, hf_token=None, tokenizer='/m/x'",
        "Avg prompt throughput: 12.0 tokens/s, Avg generation throughput: 3.4 tokens/s",
        "Resolved architecture: Qwen3_5ForConditionalGeneration",
        "vllm/model_executor/models/qwen3_next.py:61 DeepseekV2Eagle3ModelForCausalLM",
        "sha256 " + "0123456789abcdef" * 4,
        "ipc:///tmp/56ea4481-f535-4f28-be15-33cb7d5efe2d",
        "GPU 0: NVIDIA H200 (UUID: GPU-8932f937-d72c-4106-c12f-20bd9faed9f6)",
        "tcp://127.0.0.1:50263 backend=nccl",
        "/opt/vllm-bundle/releases/qwen3.5-14b+vllm-0.19.1+sm_86-1a2b3c4d/env/lib/python3.12",
        "basic information about the authors of task-scheduler-with-a-long-name",
        "libstdcxx-ng-15.2.0-h7e041cc_5.conda",
    ],
)
def test_what_helps_stays(text):
    assert redact(text) == text


def test_what_was_removed_is_counted_by_kind():
    redactor = Redactor([KEY])
    redactor(f"{KEY} and {KEY} and http://u:p@h/ and {SHAPES['github'][0]}")
    assert redactor.removed == {KNOWN: 2, "credentials": 1, "token": 1}
    redactor(redactor(""))
    assert redactor.removed.total() == 4


def test_short_secrets_do_not_tear_words_apart():
    assert redact("a cat sat", ["cat", ""]) == "a cat sat"


@pytest.mark.parametrize(
    "piece", ["://", "://a?", '"GET /', "eyJaaaaaaaa", "secret", 'token:"', "--secret", "hf_", "\\"]
)
def test_no_text_is_looked_at_over_and_over(piece):
    """300 kB: seconds where each place is searched from anew, a third of one where it is not."""
    text = piece * (300_000 // len(piece))
    began = time.process_time()
    redact(text, [KEY])
    assert time.process_time() - began < 3


def test_an_address_is_found_however_long_it_is():
    assert redact(f"http://{'a' * 3000}:pw@host/") == "http://[removed:credentials]@host/"
    assert redact(f"http://host/{'a' * 3000}?sig=abc") == (
        f"http://host/{'a' * 3000}?[removed:query]"
    )


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("OMP_NUM_THREADS", "8", "8"),
        ("TOKENIZERS_PARALLELISM", "false", "false"),
        ("DB_PASSWORD", "48151623", "[removed:named-secret]"),
        ("MIRROR", "http://u:pw@host/x", "http://[removed:credentials]@host/x"),
        ("TRITON_LIBCUDA_PATH", "/usr/lib64", "/usr/lib64"),
    ],
)
def test_a_variables_value_is_shown_unless_it_is_a_secret(name, value, shown):
    assert of_variable(name, value) == shown
