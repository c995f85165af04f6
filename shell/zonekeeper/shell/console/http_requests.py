"""Requests to the console: which are answered at all, and the headers of every answer. Pure.

The console shows a cluster to the person who started it, in a browser. A page of a stranger in the
same browser must not read it. The browser keeps answers from such a page, unless the stranger's
name leads to this machine (DNS rebinding). So the name in ``Host`` must be an IP address,
``localhost``, or a name that the person gave. Only GET and HEAD are answered.
"""

import ipaddress
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qsl, urlsplit

QUERY_FIELDS_MAX: Final = 8
_METHODS: Final = ("GET", "HEAD")
_VERSIONS: Final = ("HTTP/1.0", "HTTP/1.1")
_WORDS: Final = 3
#: Scripts, styles and data come from this server only, none stands in the page itself, and no other
#: page may show this one.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("X-Frame-Options", "DENY"),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
    ("Connection", "close"),
)
JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleRequest:
    """A request that may be answered."""

    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    #: The tag that the browser has already; empty: it has none.
    tag: str = ""
    body_wanted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleReply:
    """An answer."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = TEXT
    headers: tuple[tuple[str, str], ...] = ()


def refused(status: HTTPStatus, why: str) -> ConsoleReply:
    """Refuse a request: say what was wrong."""
    allow = (("Allow", "GET, HEAD"),) if status is HTTPStatus.METHOD_NOT_ALLOWED else ()
    return ConsoleReply(body=f"{why}\n".encode(), status=status, headers=allow)


def parse(head: bytes, names: Set[str]) -> ConsoleRequest | ConsoleReply:
    """Read the head of a request; a reply says why it is refused. ``names`` may stand in Host."""
    first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
    words = first.split(" ")
    if len(words) != _WORDS or words[2] not in _VERSIONS:
        return refused(HTTPStatus.BAD_REQUEST, "this is not HTTP/1.1")
    if words[0] not in _METHODS:
        why = "only GET and HEAD: the console changes nothing"
        return refused(HTTPStatus.METHOD_NOT_ALLOWED, why)
    fields: dict[str, list[str]] = {}
    for line in lines:
        name, _, value = line.partition(":")
        fields.setdefault(name.lower(), []).append(value.strip())
    if (refusal := _stranger(fields, names)) is not None:
        return refusal
    try:
        target = urlsplit(words[1])
        query = dict(parse_qsl(target.query, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError as error:
        return refused(HTTPStatus.BAD_REQUEST, f"the address cannot be read: {error}")
    return ConsoleRequest(
        path=target.path,
        query=query,
        tag=fields.get("if-none-match", [""])[0],
        body_wanted=words[0] == "GET",
    )


def _stranger(fields: Mapping[str, list[str]], names: Set[str]) -> ConsoleReply | None:
    """Refuse what a page of another site asks; None: the page is ours, or it is no browser."""
    hosts = fields.get("host", [])
    if len(hosts) != 1 or not _is_ours(hosts[0], names):
        why = "Host must be an IP address, localhost, or the name that --host gave"
        return refused(HTTPStatus.MISDIRECTED_REQUEST, why)
    if fields.get("sec-fetch-site", ["none"])[0] == "cross-site" and not _navigates(fields):
        return refused(HTTPStatus.FORBIDDEN, "only the console's own page may ask")
    return None


def rendered(reply: ConsoleReply, *, body_wanted: bool) -> bytes:
    """Give the bytes of an answer."""
    lines = [f"HTTP/1.1 {reply.status.value} {reply.status.phrase}"]
    if reply.status is not HTTPStatus.NOT_MODIFIED:
        lines.append(f"Content-Type: {reply.content_type}")
        lines.append(f"Content-Length: {len(reply.body)}")
    lines += [f"{name}: {value}" for name, value in (*HEADERS, *reply.headers)]
    head = "\r\n".join(lines).encode("ascii") + b"\r\n\r\n"
    return head + reply.body if body_wanted else head


def _navigates(fields: Mapping[str, list[str]]) -> bool:
    """Is it a person who follows a link to the page?"""
    return fields.get("sec-fetch-mode") == ["navigate"]


def _is_ours(host: str, names: Set[str]) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    if name is None or host != host.strip() or any(sign in host for sign in "/@?#\\"):
        return False
    if name == "localhost" or name in names:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
