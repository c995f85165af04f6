"""The agreement of both ends of a gRPC connection: names, limits, the bookie meant, and errors.

Each call and stream has a header that names the bookie that is meant (``bookie_names``). With TLS
the certificate also says which bookie answers; a bookie requires the header all the same.

An error of ours crosses as its number in a trailer, with its text as the status message. A failure
of gRPC itself becomes the error that claims no more than is known. Only ``_BY_STATUS`` decides
which error that is.
"""

import re
import ssl
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

import grpc

from zonekeeper.wire.formats import bookie_names, carriers, errors, versions
from zonekeeper.wire.formats.versions import WireVersions
from zonekeeper.wire.identity import certificates
from zonekeeper.wire.identity.principals import PeerNames

SERVICE: Final = "zonekeeper.wire.v1.Bookie"

#: The header that names the bookie that is meant. As the trailer of an error it repeats that name,
#: or it is ``ANOTHER``. Every character of a bookie's id is allowed in it.
BOOKIE_HEADER: Final = "zonekeeper-bookie"

#: The trailer of a refusal by a bookie that was not meant; no bookie has this name.
ANOTHER: Final = "?"

#: The header of requests, and of answers on streams, that says what its sender speaks
#: (``versions``). A side that does not know it ignores it, and sends none.
SPEAKS_HEADER: Final = "zonekeeper-speaks"

#: The trailer with the number of an error.
ERROR_TRAILER: Final = "zonekeeper-error"

#: The size of the largest carrier, or of a protobuf message with that many bytes in it.
MESSAGE_BYTES_MAX: Final = carriers.CARRIER_BYTES_MAX + (64 << 10)

#: The status of every error that has a number of ours; no status of gRPC says more than that.
STATUS: Final = grpc.StatusCode.ABORTED

_BY_STATUS: Final[dict[grpc.StatusCode, type[errors.ProtocolError]]] = {
    # The peer, or a limit on the way, refused before anything was done.
    grpc.StatusCode.UNIMPLEMENTED: errors.UnsupportedVersion,
    grpc.StatusCode.UNAUTHENTICATED: errors.UnauthorizedAccess,
    grpc.StatusCode.PERMISSION_DENIED: errors.UnauthorizedAccess,
    grpc.StatusCode.INVALID_ARGUMENT: errors.BadRequest,
    # The request may have been carried out.
    grpc.StatusCode.DEADLINE_EXCEEDED: errors.Timeout,
}

#: Connections to a server; further ones are closed as soon as they are made. Each costs a
#: descriptor.
CONNECTIONS_MAX: Final = 4_096
#: Streams of one connection, including calls and tails; a correct peer waits before it starts more.
CONNECTION_STREAMS_MAX: Final = 1_024
#: A peer must finish its handshake within this time.
HANDSHAKE_TIMEOUT_MS: Final = 5_000

#: The property of a connection that says how it is protected, and its value for TLS.
_SECURITY: Final = "transport_security_type"
_TLS: Final = b"ssl"
_CERTIFICATE: Final = "x509_pem_cert"

Option = tuple[str, int | str]

_COMMON_OPTIONS: Final[tuple[Option, ...]] = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
)


def method_path(name: str) -> str:
    """Give the path of a method on the wire."""
    return f"/{SERVICE}/{name}"


def meant_for(name: str) -> tuple[tuple[str, str]]:
    """Give the header of requests to the bookie of this name."""
    return ((BOOKIE_HEADER, name),)


def speaking(speaks: WireVersions | None) -> tuple[tuple[str, str], ...]:
    """Give the header that says what this side speaks."""
    return () if speaks is None else ((SPEAKS_HEADER, str(speaks)),)


def spoken_by(found: Iterable[tuple[str, str | bytes]]) -> WireVersions | None:
    """Read what the other side says that it speaks; None: nothing. Raises BadRequest."""
    said = [str(value) for key, value in found if key == SPEAKS_HEADER]
    return versions.parse(",".join(said)) if said else None


def check_meant(name: str, found: Iterable[tuple[str, str | bytes]]) -> None:
    """Raise, at a bookie, for a request that is meant for another bookie."""
    meant = {value for key, value in found if key == BOOKIE_HEADER}
    if not meant:
        raise errors.BadRequest(
            f"the header {BOOKIE_HEADER} is missing: it names the bookie that is meant; nothing "
            "was done; is the client older than the bookie?"
        )
    bookie_names.check_meant(name, [str(each) for each in meant])


def is_of_another(name: str, found: Iterable[tuple[str, str | bytes]]) -> bool:
    """Say whether an error with these trailers certainly comes from another bookie."""
    return any(key == BOOKIE_HEADER and value != name for key, value in found)


def names_of(shown: Mapping[str, Iterable[bytes]]) -> PeerNames | None:
    """Give the names in a peer's certificate, from what gRPC shows of its connection; None: no TLS.

    gRPC shows names, too, but cuts them at a zero byte (``identity.certificates``).
    """
    if _TLS not in shown.get(_SECURITY, ()):
        return None
    pems = list(shown.get(_CERTIFICATE, ()))
    return _names_in(pems[0]) if len(pems) == 1 else PeerNames()


@lru_cache(maxsize=256)
def _names_in(pem: bytes) -> PeerNames:
    try:
        return certificates.names_in(ssl.PEM_cert_to_DER_cert(pem.decode("ascii")))
    except ValueError:
        return PeerNames()


def peer_of(peer: str) -> str:
    """Give the address of a peer, as HOST:PORT, from gRPC's text for it."""
    kind, _, address = unquote(peer).partition(":")
    return address if kind in ("ipv4", "ipv6") else peer


def client_options(expected_name: str) -> list[Option]:
    """Give the options of a channel to one bookie; with TLS its certificate has this name."""
    return [
        *_COMMON_OPTIONS,
        ("grpc.ssl_target_name_override", expected_name),
        # Notice within 15 s, while anything is outstanding, that the bookie died silently.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        # The link has a back-off of its own, and replaces a channel that would dial by itself.
        # gRPC's delays must only be shorter than the link's.
        ("grpc.initial_reconnect_backoff_ms", 100),
        # For gRPC this is the least time of one attempt: a busy bookie is slow in its handshake.
        # The link's own limit ends the attempt earlier.
        ("grpc.min_reconnect_backoff_ms", HANDSHAKE_TIMEOUT_MS),
        ("grpc.max_reconnect_backoff_ms", 200),
        ("grpc.enable_retries", 0),
        # Two links of one process have two connections, which fail independently.
        ("grpc.use_local_subchannel_pool", 1),
    ]


def server_options() -> list[Option]:
    """Give the options of a server: limits on the work that one connection can cause."""
    return [
        *_COMMON_OPTIONS,
        ("grpc.max_allowed_incoming_connections", CONNECTIONS_MAX),
        ("grpc.max_concurrent_streams", CONNECTION_STREAMS_MAX),
        ("grpc.server_handshake_timeout_ms", HANDSHAKE_TIMEOUT_MS),
        # A client that is silent is gone within 30 s.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        # Allow the clients' own pings; clients send them half as often as this.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        # A second bookie on the same port is an error, and does not get half of the connections.
        ("grpc.so_reuseport", 0),
    ]


def trailers(name: str, error: errors.ProtocolError) -> tuple[tuple[str, str], tuple[str, str]]:
    """Give the trailers of a bookie's error."""
    return (ERROR_TRAILER, str(error.code)), (BOOKIE_HEADER, name)


def message(error: errors.ProtocolError) -> str:
    """Give the text of an error, cut to the limit of a trailer."""
    return error.detail[: carriers.DETAIL_BYTES_MAX]


def translated(
    status: grpc.StatusCode, words: str | None, found: Iterable[tuple[str, str | bytes]]
) -> errors.ProtocolError:
    """Give the error with which a call ended."""
    for key, number in found:
        if key == ERROR_TRAILER and re.fullmatch("[0-9]{1,10}", str(number)):
            return errors.from_number(int(number), words or "")
    kind = _BY_STATUS.get(status, errors.ConnectionLost)
    return kind(f"{status.name}: {words or 'no details'}")
