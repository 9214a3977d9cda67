import pytest
from hypothesis import given
from hypothesis import strategies as st

from bundlectl.frontrules import Refusal, Rules, is_held, is_loopback, to_client, to_server

HERE, THERE = "127.0.0.1", "192.0.2.7"


def status(target, peer=THERE, headers=(), opened=(), method=b"GET"):
    refusal = Rules(opened).refusal(peer, method, target, headers)
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
        refusal = Rules(("/metrics",)).refusal(peer, b"GET", b"/" + target, [])
        assert refusal is None or refusal.status in (400, 403)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"", 200),
        (b"llm.example", 200),
        (b"my_host-1:8000", 200),
        (b"192.0.2.7:8000", 200),
        (b"[fe80::1%25eth0]:8000", 200),
        (b"x/y?", 400),  # hides the path from a guard that reads a URL made of both
        (b"x#", 400),
        (b"x?:8000", 400),
        (b"me@x", 400),
        (b"x:80:80", 400),
        (b"x,y", 400),
        (b"x y", 400),
        (b"x\\y", 400),
        (b"x\xe9", 400),
    ],
)
def test_a_host_is_a_name_and_a_port(host, expected):
    for peer in (HERE, THERE):
        assert status(b"/v1/models", peer, [(b"host", host)]) == expected


def test_two_hosts_are_refused_to_everybody():
    assert status(b"/v1/models", HERE, [(b"host", b"a"), (b"host", b"a")]) == 400


@pytest.mark.parametrize("method", [b"CONNECT", b"TRACE", b"get", b"X"])
def test_methods_that_nothing_behind_has(method):
    assert status(b"/v1/models", HERE, method=method) == 405
    headers = dict(Rules().refusal(HERE, method, b"/v1/models", ()).headers(b""))
    assert b"GET" in headers[b"allow"]
    assert b"CONNECT" not in headers[b"allow"]


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
    kept = [
        (b"authorization", b"Bearer k"),
        (b"content-length", b"3"),
        (b"x-other", b"1"),
        (b"x-other", b"2"),
    ]
    assert to_server(headers, THERE) == [(b"host", b"localhost"), *kept, (b"connection", b"close")]
    assert to_client(headers) == [(b"host", b"h"), *kept]


def test_where_a_request_came_from_is_what_a_proxy_of_this_machine_says():
    told = [(b"forwarded", b"for=a"), (b"x-forwarded-for", b"a"), (b"x-forwarded-host", b"x/y?")]
    assert set(told) <= set(to_server(told, HERE))
    assert to_server(told, THERE) == to_server([], THERE)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"http://localhost/v1/models", b"/v1/models"),  # Starlette, for a path with a "/" too many
        (b"https://localhost/v1/models", b"/v1/models"),
        (b"http://localhost.example/", b"http://localhost.example/"),
        (b"/v1/models", b"/v1/models"),
    ],
)
def test_a_client_is_not_sent_to_the_name_that_we_gave_the_server(said, told):
    assert to_client([(b"location", said)]) == [(b"location", told)]


def test_a_refusal_is_an_error_as_clients_read_it():
    refusal = Refusal(503, "not yet", retry_after=5)
    body = refusal.body()
    assert (b"retry-after", b"5") in refusal.headers(body)
    assert (b"content-length", b"%d" % len(body)) in refusal.headers(body)
    assert b'"message": "not yet"' in body
    assert is_held(b"/v1/models")
    assert not is_held(b"/health")
