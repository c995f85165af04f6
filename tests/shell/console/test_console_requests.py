"""Requests to the console: who is answered, with which headers, and what is refused."""

import pytest

from zonekeeper.shell.console import http_requests
from zonekeeper.shell.console.http_requests import ConsoleReply, ConsoleRequest


def head(line: str = "GET / HTTP/1.1", *fields: str, host: str = "127.0.0.1:8088") -> bytes:
    return "\r\n".join([line, f"Host: {host}", *fields, "", ""]).encode("latin-1")


def status(raw: bytes, *names: str) -> int:
    found = http_requests.parse(raw, frozenset(names))
    return 200 if isinstance(found, ConsoleRequest) else found.status.value


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8088", "localhost", "localhost:1", "[::1]:8088", "10.1.2.3", "ops-7.example:80"],
)
def test_an_address_localhost_and_the_given_name_are_answered(host: str) -> None:
    assert status(head(host=host), "ops-7.example") == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8088",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example@127.0.0.1",
        "evil.example/127.0.0.1",
        "127.0.0.1#evil.example",
        "",
        "[::1",
        "2130706433x",
    ],
)
def test_a_name_that_a_stranger_could_point_here_is_refused(host: str) -> None:
    assert status(head(host=host)) == 421


def test_a_request_needs_exactly_one_host() -> None:
    assert status(b"GET / HTTP/1.1\r\n\r\n") == 421
    assert status(head("GET / HTTP/1.1", "Host: evil.example")) == 421


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "get"])
def test_only_looking_is_answered(method: str) -> None:
    found = http_requests.parse(head(f"{method} / HTTP/1.1"), frozenset())
    assert isinstance(found, ConsoleReply)
    assert found.status == 405
    assert b"Allow: GET, HEAD" in http_requests.rendered(found, body_wanted=True)


@pytest.mark.parametrize(
    "line", ["", "GET", "GET /", "GET  / HTTP/1.1", "GET / HTTP/2", "\x00\xff", "GET /[ HTTP/1.1 x"]
)
def test_what_is_not_http_is_refused(line: str) -> None:
    assert status(head(line)) == 400


def test_an_address_that_cannot_be_read_is_refused() -> None:
    assert status(head("GET //[/ HTTP/1.1")) == 400
    many = "&".join(f"a{number}=1" for number in range(http_requests.QUERY_FIELDS_MAX + 1))
    assert status(head(f"GET /api/price?{many} HTTP/1.1")) == 400


def test_s186_another_sites_page_may_lead_here_and_may_not_ask() -> None:
    asks = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors")
    leads = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate")
    assert status(head("GET /api/snapshot HTTP/1.1", *asks)) == 403
    assert status(head("GET / HTTP/1.1", *leads)) == 200
    assert status(head("GET /api/snapshot HTTP/1.1", "Sec-Fetch-Site: same-origin")) == 200


def test_a_query_is_read_and_the_tag_of_what_the_browser_has() -> None:
    found = http_requests.parse(
        head("HEAD /api/lose?zone=a%20b HTTP/1.1", 'If-None-Match: "x"'), frozenset()
    )
    assert isinstance(found, ConsoleRequest)
    assert (found.path, dict(found.query)) == ("/api/lose", {"zone": "a b"})
    assert (found.tag, found.body_wanted) == ('"x"', False)


def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    raw = http_requests.rendered(ConsoleReply(body=b"{}"), body_wanted=True).decode()
    top, _, body = raw.partition("\r\n\r\n")
    assert body == "{}"
    assert "Content-Length: 2" in top
    assert "X-Frame-Options: DENY" in top
    assert "frame-ancestors 'none'" in top
    policy = next(line for line in top.split("\r\n") if line.startswith("Content-Security"))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "*" not in policy
    assert "Set-Cookie" not in top
    assert "Access-Control" not in top
