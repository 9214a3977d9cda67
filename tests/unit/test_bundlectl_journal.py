from hypothesis import given, settings
from hypothesis import strategies as st

from bundlectl.journal import Journal
from manifests.names import SAFE_NAME

names = st.lists(st.from_regex(SAFE_NAME, fullmatch=True), unique=True, max_size=8)


@settings(max_examples=50, deadline=None)
@given(names=names, data=st.data())
def test_a_journal_cut_anywhere_names_only_whole_lines(tmp_path_factory, names, data):
    path = tmp_path_factory.mktemp("journal") / "j"
    journal = Journal(path)
    for name in names:
        journal.add(name)
    text = path.read_bytes() if names else b""
    end = data.draw(st.integers(0, len(text)))
    path.write_bytes(text[:end])
    whole = text[:end].count(b"\n")
    again = Journal(path)
    assert [name for name in names if name in again] == names[:whole]
    again.add("the next")
    assert "the next" in Journal(path)
    assert [name for name in names if name in Journal(path)] == names[:whole]


@given(junk=st.binary(max_size=200))
def test_junk_is_no_error(tmp_path_factory, junk):
    path = tmp_path_factory.mktemp("journal") / "j"
    path.write_bytes(junk)
    journal = Journal(path)
    journal.add("member")
    assert "member" in Journal(path)
    journal.remove()
    assert "member" not in journal
    assert not path.exists()
