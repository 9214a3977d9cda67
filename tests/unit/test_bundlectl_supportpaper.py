from hypothesis import given
from hypothesis import strategies as st

from bundlectl.supportpaper import WIDTH, Section, broken, compose, printable

SECTIONS = (
    Section("first", ("a", "b")),
    Section("second", (), failed=True),
    Section("log", tuple(f"line {number}" for number in range(5000)), keep_end=True),
)


def test_the_table_of_contents_leads_to_the_sections():
    lines = compose(["opening"], SECTIONS, {"token": 3, "query": 1}).splitlines()
    entries = lines[lines.index("CONTENTS") + 1 :][: len(SECTIONS)]
    for number, entry in enumerate(entries, 1):
        title = SECTIONS[number - 1].title
        assert lines[int(entry.split()[2]) - 1] == f"{number}. {title}"
    assert "could not be read" in entries[1]
    assert lines[lines.index("REMOVED") + 1 :][:2] == ["      1  query", "      3  token"]


def test_what_is_too_long_is_cut_where_it_matters_least():
    text = compose([], SECTIONS, {}, limit=3000)
    assert len(text.encode()) <= 3000
    assert "line 4999" in text
    assert "line 0\n" not in text
    assert "lines left away for want of room" in text
    start = compose([], [Section("facts", SECTIONS[2].lines)], {}, limit=3000)
    assert "line 0\n" in start
    assert "line 4999" not in start


def test_a_short_section_leaves_its_room_to_the_logs():
    few = Section("facts", ("a",))
    assert compose([], [few] * 9 + [SECTIONS[2]], {}, 60_000).count("\nline ") > 3000


@given(st.text(max_size=3000))
def test_every_line_can_be_printed(text):
    for line in broken(text):
        assert line.isprintable()
        assert len(line) <= WIDTH


def test_control_characters_and_surrogates_are_harmless():
    assert printable("a\x1b[31mb\x00\u202ec\ud800\td") == "a?[31mb??c?    d"


@given(
    st.lists(st.lists(st.text(max_size=300), max_size=30), max_size=6),
    st.integers(2000, 9000),
)
def test_the_limit_holds(texts, limit):
    sections = [Section("title", tuple(lines), keep_end=bool(lines)) for lines in texts]
    assert len(compose(["opening"], sections, {}, limit).encode()) <= limit + 1000
