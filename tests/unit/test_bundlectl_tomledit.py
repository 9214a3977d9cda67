import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.config import parse, render_default
from bundlectl.tomledit import changed, key_text, rendered, statements, without
from manifests.errors import UsageError

FILE = """\
# The first line.
host = "127.0.0.1"  # here

port=8000
extra_arguments = [  # several
  "--seed",  # with # and ]
  '0',
]
note = '''
[environment]
port = 1 # not this one
'''

[environment]  # last
OMP_NUM_THREADS = "4"
"""


@pytest.mark.parametrize(
    ("path", "value", "before", "after"),
    [
        (("host",), "::1", '"127.0.0.1"  # here', '"::1"  # here'),
        (("port",), 8001, "port=8000\n", "port=8001\n"),
        (("extra_arguments",), (), FILE[FILE.index("[  #") : FILE.index("note")], "[]\n"),
        (("environment", "OMP_NUM_THREADS"), "8", '"4"', '"8"'),
    ],
)
def test_a_value_is_replaced_and_nothing_beside_it(path, value, before, after):
    assert changed(FILE, path, value) == FILE.replace(before, after)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_new_key_stands_after_its_table_s_last_one(newline):
    text = FILE.replace("\n", newline)
    more = changed(text, ("thinking",), False, ("What it", "is for."))
    block = newline.join(("", "# What it", "# is for.", "thinking = false", ""))
    assert more == text.replace(f"'''{newline}{newline}[", f"'''{newline}{block}{newline}[")
    assert changed(text, ("environment", "A B"), "x").endswith(f'"4"{newline}"A B" = "x"{newline}')


@pytest.mark.parametrize(
    ("text", "path", "after"),
    [
        ("", ("port",), "port = 1\n"),
        ("# only words", ("port",), "# only words\nport = 1\n"),
        ("a = 2", ("port",), "a = 2\nport = 1\n"),
        ("[environment]\n", ("port",), "port = 1\n[environment]\n"),
        ("[environment]", ("environment", "A"), "[environment]\nA = 1\n"),
        ("", ("environment", "A"), "[environment]\nA = 1\n"),
        ("a = 2\n", ("environment", "A"), "a = 2\n\n[environment]\nA = 1\n"),
        ('environment = { B = "2" }\n', ("environment", "A"), 'environment = { B = "2", A = 1 }\n'),
        ("environment = {} # none\n", ("environment", "A"), "environment = { A = 1 } # none\n"),
        ('environment.B = "2"\n', ("environment", "A"), 'environment.B = "2"\nenvironment.A = 1\n'),
        ('[environment]\n"A" = 3\n', ("environment", "A"), '[environment]\n"A" = 1\n'),
        ("'port' = 3\n", ("port",), "'port' = 1\n"),
        ("a = [\n 1, [2] ] # x\n", ("port",), "a = [\n 1, [2] ] # x\nport = 1\n"),
        ('a = """x"""""\n', ("a",), "a = 1\n"),
    ],
)
def test_places(text, path, after):
    assert changed(text, path, 1) == after


@pytest.mark.parametrize(
    ("text", "path", "after"),
    [
        (FILE, ("port",), FILE.replace("port=8000\n", "")),
        (FILE, ("host",), FILE.replace('host = "127.0.0.1"  # here\n', "")),
        ("# about\nport = 1", ("port",), "# about\n"),
        ("[environment]\nA = '1'\nB = '2'\n", ("environment", "A"), "[environment]\nB = '2'\n"),
        ("environment = {A = '1', B = '2'}\n", ("environment", "A"), 'environment = { B = "2" }\n'),
        ("environment = {A = '1'}\n", ("environment", "A"), "environment = {}\n"),
    ],
)
def test_a_key_is_taken_out_with_its_line(text, path, after):
    assert without(text, path) == after


def test_what_can_t_be_changed_safely_is_refused():
    with pytest.raises(UsageError, match="can't be changed") as caught:
        changed("[environment.A]\nx = 1\n", ("environment", "A"), "1")
    assert "config check" in caught.value.mend


def test_statements_have_their_places():
    found = [(one.path, FILE[one.start : one.end]) for one in statements(FILE)]
    assert found[1] == (("port",), "port=8000")
    assert found[-2:] == [
        (("environment",), "[environment]"),
        (("environment", "OMP_NUM_THREADS"), 'OMP_NUM_THREADS = "4"'),
    ]


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=8)
VALUES = st.one_of(TEXT, st.integers(-9, 99), st.booleans(), st.lists(TEXT, max_size=3).map(tuple))
COMMENTS = st.text("ab #\"'[]{}=.\\", max_size=8).map(lambda text: f"#{text}")
LITERALS = st.sampled_from(
    [
        "'''\n[x]\n'''",
        '"""a\\"""b"""',
        "[ # ]\n 1,\n]",
        "{ a = ']', b.c = [2] }",
        "1979-05-27",
        "'#'",
    ]
)


@st.composite
def documents(draw):
    """A document of two tables with comments wherever they may stand, and its keys."""
    names = draw(st.lists(TEXT, max_size=8, unique=True))
    lines, keys, table = [], [], ()
    for name in names:
        kind = draw(st.sampled_from(["key", "key", "table", "comment"]))
        if kind == "table" and not table:
            table = ("environment",)
            lines.append("[ environment ]" + draw(st.sampled_from(["", " # t"])))
        elif kind == "comment":
            lines += ["", draw(COMMENTS)]
        elif name != "environment":
            value = draw(st.one_of(VALUES.map(rendered), LITERALS))
            tail = draw(st.one_of(st.just(""), COMMENTS.map(lambda text: f"  {text}")))
            lines.append(f"{key_text(name)} = {value}{tail}")
            keys.append((*table, name))
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"])), keys


@given(documents(), st.data())
def test_a_changed_value_is_read_back_and_the_rest_is_as_it_was(document, data):
    text, keys = document
    name = st.sampled_from(keys) if keys else st.nothing()
    path = data.draw(name | st.just(("new",)) | st.just(("environment", "NEW")))
    value = data.draw(VALUES)
    result = changed(text, path, value, ("about",) if len(path) == 1 else ())
    found = tomllib.loads(result)
    for part in path:
        found = found[part]
    assert found == (list(value) if isinstance(value, tuple) else value)
    if path in keys:
        (place,) = (one for one in statements(text) if one.path == path and not one.table)
        assert result == text[: place.value] + rendered(value) + text[place.end :]
        gone = without(text, path)
        start, cut = text.rfind("\n", 0, place.start) + 1, len(text) - len(gone)
        assert gone == text[:start] + text[start + cut :]
        assert start + cut > place.value
    else:
        rest = iter(result)  # the old text, and what was put between
        assert all(letter in rest for letter in text)


def test_the_documented_file_can_be_changed_key_by_key():
    text = render_default()
    for name, value in (("port", 9000), ("thinking", False), ("extra_arguments", ("--seed", "0"))):
        text = changed(text, (name,), value)
    text = changed(text, ("environment", "A"), "1")
    settings = parse(text, "serve.toml")
    assert (settings.port, settings.thinking, settings.environment) == (9000, False, {"A": "1"})
    assert settings.extra_arguments == ("--seed", "0")
    assert text.count("\n") == render_default().count("\n") + 1
