import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.frontrules import Refusal, Rules, is_held, is_loopback, passed_on

HERE, THERE = "127.0.0.1", "192.0.2.7"


def status(target, peer=THERE, headers=(), opened=()):
    refusal = Rules(opened).refusal(peer, target, headers)
    return refusal.status if refusal else 200


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (b"/v1/models", 200),
        (b"/v1/chat/completions?a=/../x", 200),
        (b"/v1/models/tiny%40rev", 200),
        (b"/health", 200),
        (b"/health?x", 200),
        (b"/healthy", 403),
        (b"/health/", 403),
        (b"/v1", 403),
        (b"/metrics", 403),
        (b"/docs", 403),
        (b"/tokenize", 403),
        (b"/", 403),
        (b"/v1/../metrics", 403),
        (b"/v1/%2e%2e/metrics", 403),
        (b"/v1/..", 403),
        (b"/v1/.", 403),
        (b"/v1//metrics", 403),
        (b"//v1/models", 403),
        (b"/v1/..\\metrics", 403),
        (b"/%6detrics", 403),
        (b"http://host/v1/models", 400),
        (b"*", 400),
    ],
)
def test_what_other_machines_get_to(target, expected):
    assert status(target) == expected
    assert status(target, HERE) == (400 if expected == 400 else 200)


def test_paths_can_be_opened():
    assert status(b"/metrics", opened=("/metrics",)) == 200
    assert status(b"/metrics/x", opened=("/metrics",)) == 200
    assert status(b"/metricsx", opened=("/metrics",)) == 403
    assert status(b"/docs", opened=("/metrics",)) == 403
    assert status(b"/metrics/../docs", opened=("/metrics",)) == 403


def test_a_request_with_two_lengths_is_refused_to_everybody():
    headers = [(b"content-length", b"3"), (b"transfer-encoding", b"chunked")]
    assert status(b"/v1/models", HERE, headers) == 400


@pytest.mark.parametrize(
    ("peer", "local"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:192.0.2.7", False),
        ("fe80::1%eth0", False),
        ("10.0.0.1", False),
        ("", False),
        ("unix", False),
    ],
)
def test_which_addresses_are_this_machines(peer, local):
    assert is_loopback(peer) is local


@given(st.binary(max_size=40))
def test_no_target_breaks_the_rules(target):
    for peer in (HERE, THERE):
        refusal = Rules(("/metrics",)).refusal(peer, b"/" + target, [])
        assert refusal is None or refusal.status in (400, 403)


def test_what_concerns_one_connection_is_not_passed_on():
    headers = [
        (b"host", b"h"),
        (b"authorization", b"Bearer k"),
        (b"connection", b"close, X-Own , content-length,host"),
        (b"x-own", b"1"),
        (b"keep-alive", b"timeout=5"),
        (b"te", b"trailers"),
        (b"upgrade", b"websocket"),
        (b"expect", b"100-continue"),
        (b"content-length", b"3"),
        (b"x-other", b"1"),
        (b"x-other", b"2"),
    ]
    assert passed_on(headers) == [
        (b"host", b"h"),
        (b"authorization", b"Bearer k"),
        (b"content-length", b"3"),
        (b"x-other", b"1"),
        (b"x-other", b"2"),
    ]


def test_a_refusal_is_an_error_as_clients_read_it():
    refusal = Refusal(503, "not yet", retry_after=5)
    body = refusal.body()
    assert (b"retry-after", b"5") in refusal.headers(body)
    assert (b"content-length", b"%d" % len(body)) in refusal.headers(body)
    assert b'"message": "not yet"' in body
    assert is_held(b"/v1/models")
    assert not is_held(b"/health")
