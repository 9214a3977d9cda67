from bundlectl.backoff import Backoff


def test_waits_double_up_to_a_minute_and_then_it_gives_up():
    backoff = Backoff(most=9)
    waits = [backoff.failed(served=1) for _ in range(10)]
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60, 60, None]


def test_a_good_time_is_a_new_beginning():
    backoff = Backoff(most=2, good=300)
    assert [backoff.failed(1), backoff.failed(1)] == [1, 2]
    assert backoff.failed(300) == 1
    assert backoff.failed(299) == 2
    assert backoff.failed(0) is None
