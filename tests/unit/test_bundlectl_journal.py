from hypothesis import given, settings
from hypothesis import strategies as st

from bundlectl.journal import Journal, forget_others, journal_path
from manifests.names import SAFE_NAME

names = st.lists(st.from_regex(SAFE_NAME, fullmatch=True), unique=True, max_size=8)


@settings(max_examples=50)
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


marks = st.lists(
    st.tuples(
        st.sampled_from(["model/a", "model/b c", "env.tar.zst"]),
        st.lists(st.integers(0, 10**18), min_size=0, max_size=3),
    ),
    max_size=12,
)


@settings(max_examples=60)
@given(marks=marks, data=st.data())
def test_the_last_whole_line_of_a_member_counts(tmp_path_factory, marks, data):
    path = tmp_path_factory.mktemp("journal") / "j"
    journal = Journal(path)
    states = [(set(), {})]
    for name, numbers in marks:
        done, begun = set(states[-1][0]), dict(states[-1][1])
        if numbers:
            journal.mark(name, *numbers)
            begun[name] = tuple(numbers) if any(numbers) else ()
        else:
            journal.add(name)
            done.add(name)
            begun.pop(name, None)
        states.append((done, begun))
    text = path.read_bytes() if marks else b""
    end = data.draw(st.integers(0, len(text)))
    path.write_bytes(text[:end])
    done, begun = states[text[:end].count(b"\n")]
    again = Journal(path)
    for name, _ in marks:
        assert (name in again) == (name in done)
        assert again.begun(name) == begun.get(name, ())


def test_a_member_that_is_forgotten(tmp_path):
    journal = Journal(tmp_path / "j")
    journal.forget("model/a")
    assert not (tmp_path / "j").exists()
    journal.mark("model/a", 5)
    journal.forget("model/a")
    assert journal.begun("model/a") == Journal(tmp_path / "j").begun("model/a") == ()


def test_lines_are_synced_before_they_count(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr("os.fsync", lambda file: synced.append((tmp_path / "j").read_bytes()))
    journal = Journal(tmp_path / "j")
    journal.mark("model/a", 5)
    journal.add("model/a")
    assert synced == [b"model/a\t5\n", b"model/a\t5\nmodel/a\n"]


def test_the_journals_of_others_are_forgotten(tmp_path):
    (tmp_path / "state/journal").mkdir(parents=True)
    ours, other = (journal_path(tmp_path, digit * 64) for digit in "01")
    for path in (ours, other):
        Journal(path).add("model/a")
    forget_others(ours)
    assert list((tmp_path / "state/journal").iterdir()) == [ours]
