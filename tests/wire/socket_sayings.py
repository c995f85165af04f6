"""One message of the socket lane of each kind; their bytes are a golden file: append here only."""

from typing import Final

from zonekeeper.wire.formats import socket_messages
from zonekeeper.wire.formats.socket_messages import (
    AnswerTaken,
    BookieGreeting,
    CallAnswer,
    CallBegun,
    CallCancelled,
    CallEnd,
    ClientGreeting,
    ConnectionKind,
    Ping,
    Pong,
    RefusedGreeting,
    Said,
    StreamEnd,
)
from zonekeeper.wire.formats.versions import WireVersions

NAME: Final = "bk-a-0@6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"

CLIENTS: Final[dict[str, ClientGreeting]] = {
    "client for appends": ClientGreeting(
        bookie=NAME, kind=ConnectionKind.APPEND, speaks=WireVersions(1, 1)
    ),
    "client for reads": ClientGreeting(
        bookie=NAME, kind=ConnectionKind.READ, speaks=WireVersions(1, 2)
    ),
    "client for calls that says no versions": ClientGreeting(
        bookie=NAME, kind=ConnectionKind.CALLS, speaks=None
    ),
}
BOOKIES: Final[dict[str, BookieGreeting | RefusedGreeting]] = {
    "bookie": BookieGreeting(
        boot_epoch=3, speaks=WireVersions(1, 1), message_bytes_max=8 << 20, calls_max=1_024
    ),
    "bookie that refuses": RefusedGreeting(code=16, detail="another bookie was méant"),
}
SAID: Final[dict[str, Said]] = {
    "StreamEnd": StreamEnd(code=12, detail="append 5 came after 5"),
    "StreamEnd without an error": StreamEnd(code=0),
    "Ping": Ping(),
    "Pong": Pong(),
    "CallBegun": CallBegun(number=1, timeout_ms=5_000, name="ReadLac", request=b"\x08\x07"),
    "CallAnswer": CallAnswer(number=1, answer=b"\x0a\x00"),
    "AnswerTaken": AnswerTaken(number=2),
    "CallEnd": CallEnd(number=3, code=4, detail="ledger 7 was never hére"),
    "CallEnd without an error": CallEnd(number=3, code=0),
    "CallCancelled": CallCancelled(number=1 << 63),
}


def spelled() -> dict[str, bytes]:
    """Give the bytes of all of them."""
    return (
        {name: socket_messages.build_client_greeting(one) for name, one in CLIENTS.items()}
        | {name: socket_messages.build_bookie_greeting(one) for name, one in BOOKIES.items()}
        | {name: socket_messages.build(one) for name, one in SAID.items()}
    )
