"""What both ends of a gRPC connection agree on: names, limits, who is meant, and how errors cross.

An address is not a bookie: once a bookie is gone, another one may listen where it did, even one of
that name in another cluster. So each call and stream names the bookie that is meant, and its
cluster, in a header, and a bookie refuses what names another one, or none, before it does anything.
To the client that is a bookie that was not reached. With TLS the certificate says who answers; a
bookie asks for the header all the same.

An error of ours travels as its number in a trailer and its words as the status message; gRPC's own
failures become the error that assumes no more than is known. ``_BY_STATUS`` is the one place where
that is decided.
"""

import re
from collections.abc import Iterable
from typing import Final

import grpc

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.formats import carriers, errors

SERVICE: Final = "zonekeeper.wire.v1.Bookie"

#: The header that names the bookie that is meant, and the trailer of a refusal that names the one
#: that answers. All that an id may consist of fits into one.
BOOKIE_HEADER: Final = "zonekeeper-bookie"

#: The trailer that carries an error's number.
ERROR_TRAILER: Final = "zonekeeper-error"

#: A carrier at its limit, or a protobuf message around as many bytes.
MESSAGE_BYTES_MAX: Final = carriers.CARRIER_BYTES_MAX + (64 << 10)

#: The status of whatever has a number of ours: gRPC's vocabulary has nothing to add.
STATUS: Final = grpc.StatusCode.ABORTED

_BY_STATUS: Final[dict[grpc.StatusCode, type[errors.ProtocolError]]] = {
    # The peer, or a limit on the way, said no before anything was done.
    grpc.StatusCode.UNIMPLEMENTED: errors.UnsupportedVersion,
    grpc.StatusCode.UNAUTHENTICATED: errors.UnauthorizedAccess,
    grpc.StatusCode.PERMISSION_DENIED: errors.UnauthorizedAccess,
    grpc.StatusCode.INVALID_ARGUMENT: errors.BadRequest,
    # It may have been done.
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.Timeout,
}

#: Connections to a server; more are closed as soon as they are made. Each costs a descriptor.
CONNECTIONS_MAX: Final = 4_096
#: Streams of one connection, calls and tails among them; a well-behaved peer waits with more.
CONNECTION_STREAMS_MAX: Final = 1_024
#: Who connects has greeted within this.
HANDSHAKE_TIMEOUT_MS: Final = 5_000

Option = tuple[str, int | str]

_COMMON_OPTIONS: Final[tuple[Option, ...]] = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
)


def method_path(name: str) -> str:
    """Give a method's path on the wire."""
    return f"/{SERVICE}/{name}"


def name_of(bookie_id: BookieId, instance: str) -> str:
    """Name a bookie as no other one is named, of whatever cluster."""
    return f"{bookie_id}@{instance}"


def bookie_of(name: str) -> BookieId:
    """Give the bookie's id alone, which has no such sign in it."""
    return BookieId(name.partition("@")[0])


def meant_for(name: str) -> tuple[tuple[str, str]]:
    """Give the header for who means the bookie of this name."""
    return ((BOOKIE_HEADER, name),)


def check_meant(name: str, found: Iterable[tuple[str, str | bytes]]) -> None:
    """Raise, at a bookie, for whoever does not mean it."""
    meant = {value for key, value in found if key == BOOKIE_HEADER}
    if not meant:
        raise errors.BadRequest(
            f"the header {BOOKIE_HEADER} is missing: it names the bookie that is meant, "
            f"and this is {name}; is the client older than the bookie?"
        )
    if meant != {name}:
        named = ", ".join(sorted(map(str, meant)))
        raise errors.NotConnected(f"{named} was meant, and {name} answers; nothing was done")


def is_of_another(name: str, found: Iterable[tuple[str, str | bytes]]) -> bool:
    """Say whether an error with these trailers is certainly not of this bookie."""
    return any(key == BOOKIE_HEADER and value != name for key, value in found)


def client_options(expected_name: str) -> list[Option]:
    """Set up a channel to one bookie, whose certificate (if there is TLS) has this name."""
    return [
        *_COMMON_OPTIONS,
        ("grpc.ssl_target_name_override", expected_name),
        # Notice a silent death within 15 s while anything is outstanding.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        # The link backs off, and gives a channel up that would dial by itself; gRPC's own delays
        # only have to stay out of its way.
        ("grpc.initial_reconnect_backoff_ms", 100),
        # To gRPC, the least time that one attempt gets: a busy bookie greets late. The link's own
        # limit ends it earlier.
        ("grpc.min_reconnect_backoff_ms", HANDSHAKE_TIMEOUT_MS),
        ("grpc.max_reconnect_backoff_ms", 200),
        ("grpc.enable_retries", 0),
        # Two links of one process are two connections, each with its own fate.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def server_options() -> list[Option]:
    """Set up a server: bounds on what one connection can make it do."""
    return [
        *_COMMON_OPTIONS,
        ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
        ("grpc.max_concurrent_streams", CONNECTION_STREAMS_MAX),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS),
        # A client that fell silent is gone within 30 s.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # The clients' own pings, twice as often as they send them.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        # A second bookie on the same port is an error, not half of the traffic.
        ("grpc.so_reuseport", 0),
    ]


def trailers(name: str, error: errors.ProtocolError) -> tuple[tuple[str, str], tuple[str, str]]:
    """Give the trailers of a bookie's error."""
    return (ERROR_TRAILER, str(error.code)), (BOOKIE_HEADER, name)


def message(error: errors.ProtocolError) -> str:
    """Give an error's words, cut to what a trailer may hold."""
    return error.detail[: carriers.DETAIL_BYTES_MAX]


def translated(
    status: grpc.StatusCode, words: str | None, found: Iterable[tuple[str, str | bytes]]
) -> errors.ProtocolError:
    """Give the error that a call ended with."""
    for key, number in found:
        if key == ERROR_TRAILER and re.fullmatch("[0-9]{1,10}", str(number)):
            return errors.from_number(int(number), words or "")
    kind = _BY_STATUS.get(status, errors.ConnectionLost)
    return kind(f"{status.name}: {words or 'no details'}")
