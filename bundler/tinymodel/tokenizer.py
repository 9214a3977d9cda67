"""The tiny model's tokenizer: bytes, a few merges, and Qwen's special tokens and think tags.

The file format is that of the `tokenizers` library; the alphabet is GPT-2's, in which each byte
has a printable character (https://github.com/openai/gpt-2/blob/master/src/encoder.py).
"""

import string
from typing import Any

PADDING, END = "<|endoftext|>", "<|im_end|>"
SPECIAL = (
    PADDING,
    "<|im_start|>",
    END,
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
#: Added but not special, as in Qwen: they stay in the text that is shown.
TAGS = (
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
)
#: Frequent pairs of English, each of two tokens that exist by then. `_` stands for the space.
#: As many as bring the vocabulary to a multiple of 64, so that no id is without a token.
MERGES = """
_ t|h e|i n|r e|o n|e r|_t he|_ a|a t|_ s|e n|o r|_ o|_ w|i t|e s|_ c|i s|a n|o u|_ b|_ f|_ i|n d
_ m|_ p|in g|a l|e d|a r|_o f|_a nd|_ d|_t o|_i n|l e|o m|_ h|s t|r o|a s|l l|v e|_ n|u r|_ l|_ g
i c|u t|e l|_i s
"""

#: The prompt ends in an open think block, or in an empty closed one: Qwen3.5's own convention.
TEMPLATE = """\
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string %}{{- message.content }}
{%- else %}
{%- for part in message.content %}
{%- if part.type == 'text' %}{{- part.text }}
{%- elif part.type in ('image', 'image_url') %}
{{- '<|vision_start|><|image_pad|><|vision_end|>' }}
{%- elif part.type in ('video', 'video_url') %}
{{- '<|vision_start|><|video_pad|><|vision_end|>' }}
{%- endif %}
{%- endfor %}
{%- endif %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}
{{- '<think>\\n\\n</think>\\n\\n' }}
{%- else %}
{{- '<think>\\n' }}
{%- endif %}
{%- endif %}
"""


def _alphabet() -> dict[int, str]:
    """Byte → its character."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {
        byte: chr(256 + index) for index, byte in enumerate(hidden)
    }


ALPHABET = _alphabet()
_PAIRS = [
    tuple(pair.replace("_", ALPHABET[ord(" ")]).split(" "))
    for line in MERGES.split("\n")
    if line
    for pair in line.split("|")
]
_TOKENS = [
    *SPECIAL,
    *sorted(ALPHABET.values()),
    *("".join(pair) for pair in _PAIRS),
    *TAGS,
]
_IDENTIFIERS = {token: index for index, token in enumerate(_TOKENS)}
#: Number of tokens.
SIZE = len(_TOKENS)


def identifier(token: str) -> int:
    """The id of a token; KeyError where there is no such token."""
    return _IDENTIFIERS[token]


def unprintable() -> frozenset[int]:
    """Ids that a reader does not want in an answer: special tokens, tags, lone bytes."""
    readable = {ALPHABET[ord(char)] for char in string.ascii_letters + " .,"}
    return frozenset(
        index
        for token, index in _IDENTIFIERS.items()
        if token in SPECIAL or token in TAGS or not readable.issuperset(token)
    )


def files(context: int) -> dict[str, Any]:
    """The tokenizer's JSON documents by file name; `context` in tokens."""
    return {
        "tokenizer.json": {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                _added(token, special=token in SPECIAL) for token in (*SPECIAL, *TAGS)
            ],
            "normalizer": None,
            "pre_tokenizer": _byte_level(add_prefix_space=False),
            "post_processor": None,
            "decoder": _byte_level(add_prefix_space=True),
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": False,
                "vocab": {token: i for token, i in _IDENTIFIERS.items() if token not in TAGS},
                "merges": [list(pair) for pair in _PAIRS],
            },
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "clean_up_tokenization_spaces": False,
            "eos_token": END,
            "pad_token": PADDING,
            "model_max_length": context,
            "chat_template": TEMPLATE,
        },
    }


def _byte_level(*, add_prefix_space: bool) -> dict[str, Any]:
    return {
        "type": "ByteLevel",
        "add_prefix_space": add_prefix_space,
        "trim_offsets": True,
        "use_regex": True,
    }


def _added(token: str, *, special: bool) -> dict[str, Any]:
    return {
        "id": identifier(token),
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }
