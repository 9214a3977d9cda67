"""How long a start took is a note, and no more."""

from bundlectl import spent
from bundlectl.layout import Layout
from bundlectl.spent import Spent

TOOK = Spent(checks=1500, listening=20_000, answer=250)


def test_the_last_start_is_remembered(tmp_path):
    layout = Layout(tmp_path)
    layout.create()
    assert spent.last(layout) is None
    spent.keep(layout, TOOK)
    assert spent.last(layout) == TOOK
    assert TOOK.text() == "checks 1.5 s, loading 20.0 s, first answer 0.2 s"


def test_a_note_that_can_t_be_written_stops_nothing(tmp_path):
    layout = Layout(tmp_path)
    layout.create()
    spent.keep(layout, TOOK)
    (layout.cache / ".last-start.json.new").mkdir()
    (layout.cache / "last-start.json").unlink()
    (layout.cache / "last-start.json").mkdir()
    spent.keep(layout, TOOK)
    assert spent.last(layout) is None
