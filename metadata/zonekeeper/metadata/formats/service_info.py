"""The addresses of a registered bookie: Apache BookKeeper's ``BookieServiceInfo``.

    6 endpoints *    {1 id, 2 port, 3 host, 4 protocol, 5 auth *, 6 extensions *}
    7 properties *   {1 key, 2 value}

This is the value of a bookie's node under ``available``. A bookie of ours has the endpoint
``bookie`` with the protocol ``zonekeeper-grpc``; a registration without it is foreign. One that
serves the socket lane has one more, ``socket``, which older clients do not look for. The endpoint
``bookie`` has the extension ``tls`` if it speaks TLS, and so has ``httpserver`` if the pages are by
certificate. An older command does not look for it there, and is told by the port. The location in
the properties is a copy for people to read: the authority is the cookie.

A property is a text that readers may ignore, Apache's and older ones of ours. So the room of a
bookie is one: ``room: v1 free=<bytes> total=<bytes>``. A room of another version, or one that makes
no sense, is an unknown room, and never a reason to refuse the registration. So are the reasons for
which a bookie is read-only: ``readOnly: v1 [{"byPerson": …, "reason": …, "sinceMs": …}, …]``. Those
of another version, or that make no sense, are unknown.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from zonekeeper.metadata.formats.malformed import Flaw, MalformedError, check_size
from zonekeeper.metadata.formats.protobuf import (
    FieldKind,
    Message,
    Schema,
    Spec,
    bytes_field,
    number_field,
)
from zonekeeper.placement.base.locations import Location

BOOKIE: Final = "bookie"
GRPC: Final = "zonekeeper-grpc"
#: The endpoint of the socket lane, and its protocol.
SOCKET: Final = "socket"
SOCKET_LANE: Final = "zonekeeper-socket"
TLS: Final = "tls"
#: The endpoint of the pages for looking; Apache uses the same name.
HTTP_SERVER: Final = "httpserver"
LOCATION_PROPERTY: Final = "networkLocation"
BOOT_PROPERTY: Final = "bootEpoch"
ROOM_PROPERTY: Final = "room"
#: The name of the disk that the bookie's room is on, where others may use the disk, too.
DISK_PROPERTY: Final = "disk"
DISK_NAME_CHARS: Final = 16
READ_ONLY_PROPERTY: Final = "readOnly"
#: A bookie publishes at most so many reasons, each of at most so many characters.
REASONS_MAX: Final = 8
REASON_CHARS_MAX: Final = 200
#: The last millisecond that a calendar has: the end of the year 9999.
WALL_MS_MAX: Final = 253_402_300_799_000
PORT_MAX: Final = 65_535
#: Enough digits for any number of starts of a bookie.
_BOOT_DIGITS_MAX: Final = 18
#: Enough digits for any device: ``10 ** 18`` bytes are an exabyte.
_ROOM: Final = re.compile(r"v1 free=([0-9]{1,18}) total=([0-9]{1,18})", re.ASCII)

_DISK: Final = re.compile(rf"v1 ([0-9a-f]{{{DISK_NAME_CHARS}}})")

_REASONS_VERSION: Final = "v1"

_ENDPOINT: Final = Schema(
    "endpoint",
    Spec(1, "id", FieldKind.BYTES),
    Spec(2, "port", FieldKind.NUMBER),
    Spec(3, "host", FieldKind.BYTES),
    Spec(4, "protocol", FieldKind.BYTES),
    Spec(5, "auth", FieldKind.BYTES, repeated=True),
    Spec(6, "extensions", FieldKind.BYTES, repeated=True),
)
_PROPERTY: Final = Schema(
    "property", Spec(1, "key", FieldKind.BYTES), Spec(2, "value", FieldKind.BYTES)
)
_INFO: Final = Schema(
    "service info",
    Spec(6, "endpoints", _ENDPOINT, repeated=True),
    Spec(7, "properties", _PROPERTY, repeated=True),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One address at which a bookie serves."""

    id: str
    host: str
    port: int
    protocol: str
    auth: tuple[str, ...] = ()
    extensions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRoom:
    """The room of a bookie's devices: ``0 <= free <= total`` and ``0 < total``, in bytes."""

    free_bytes: int
    total_bytes: int
    #: Bookies with the same name here share one disk, and with it this room. None: it is not known
    #: that others share it.
    disk: str | None = None

    def __post_init__(self) -> None:
        assert 0 <= self.free_bytes <= self.total_bytes, "no device has more free than it has"
        assert self.total_bytes > 0, "a device without room is of unknown room"

    def __str__(self) -> str:
        return f"v1 free={self.free_bytes} total={self.total_bytes}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOnlyReason:
    """One reason for which a bookie is read-only, as the bookie itself says it."""

    reason: str
    #: A person told the bookie so; otherwise it is a condition of the bookie itself.
    by_person: bool = False
    #: Wall time; None: the bookie does not know it.
    since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceInfo:
    """All addresses of a bookie, and what the bookie says about itself."""

    endpoints: tuple[Endpoint, ...]
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def bookie(self) -> Endpoint | None:
        """The endpoint for our protocol; None if the bookie is foreign."""
        return next((e for e in self.endpoints if (e.id, e.protocol) == (BOOKIE, GRPC)), None)

    @property
    def socket(self) -> Endpoint | None:
        """The endpoint of the socket lane; None if the bookie has none."""
        return next(
            (e for e in self.endpoints if (e.id, e.protocol) == (SOCKET, SOCKET_LANE)), None
        )

    @property
    def http(self) -> Endpoint | None:
        """The endpoint of the pages for looking; None if there is none."""
        return next((e for e in self.endpoints if e.id == HTTP_SERVER), None)

    @property
    def pages_by_certificate(self) -> bool:
        """Are the pages by certificate, over TLS?"""
        return self.http is not None and TLS in self.http.extensions

    @property
    def boot_epoch(self) -> int | None:
        """The boot epoch of the start that registered; None if the bookie does not say."""
        text = self.properties.get(BOOT_PROPERTY, "")
        says = text.isascii() and text.isdecimal() and len(text) <= _BOOT_DIGITS_MAX
        return int(text) if says else None

    @property
    def room(self) -> PublishedRoom | None:
        """The room that the bookie had when it last said so; None if that is unknown."""
        says = _ROOM.fullmatch(self.properties.get(ROOM_PROPERTY, ""))
        if says is None:
            return None
        free, total = int(says[1]), int(says[2])
        if not free <= total > 0:
            return None
        named = _DISK.fullmatch(self.properties.get(DISK_PROPERTY, ""))
        disk = None if named is None else named[1]
        return PublishedRoom(free_bytes=free, total_bytes=total, disk=disk)

    @property
    def read_only(self) -> tuple[ReadOnlyReason, ...]:
        """The reasons for which the bookie says that it is read-only; empty: it says none."""
        version, _, text = self.properties.get(READ_ONLY_PROPERTY, "").partition(" ")
        return _reasons(text) if version == _REASONS_VERSION else ()

    def with_socket(self, port: int) -> "ServiceInfo":
        """Give the same service info with a socket lane at another port of our endpoint's host."""
        assert self.bookie is not None, "a bookie of ours has its endpoint"
        lane = replace(self.bookie, id=SOCKET, port=port, protocol=SOCKET_LANE)
        return replace(self, endpoints=(*self.endpoints, lane))

    def with_pages_by_certificate(self) -> "ServiceInfo":
        """Give the same service info, with pages that are by certificate."""
        told = (
            replace(each, extensions=(TLS,)) if each.id == HTTP_SERVER else each
            for each in self.endpoints
        )
        return replace(self, endpoints=tuple(told))

    def with_room(self, room: PublishedRoom | None) -> "ServiceInfo":
        """Give the same service info with another room; None: the room is unknown."""
        named = None if room is None or room.disk is None else f"v1 {room.disk}"
        told = self._with(DISK_PROPERTY, named)
        return told._with(ROOM_PROPERTY, None if room is None else str(room))  # noqa: SLF001 its own

    def with_read_only(self, reasons: Sequence[ReadOnlyReason]) -> "ServiceInfo":
        """Give the same service info with other reasons for being read-only; empty: none."""
        plain = [
            {
                "byPerson": one.by_person,
                "reason": one.reason[:REASON_CHARS_MAX],
                "sinceMs": one.since_ms,
            }
            for one in reasons[:REASONS_MAX]
        ]
        text = f"{_REASONS_VERSION} {json.dumps(plain, sort_keys=True)}"
        return self._with(READ_ONLY_PROPERTY, text if plain else None)

    def _with(self, name: str, value: str | None) -> "ServiceInfo":
        properties = {key: text for key, text in self.properties.items() if key != name}
        if value is not None:
            properties[name] = value
        return replace(self, properties=properties)


def _reasons(text: str) -> tuple[ReadOnlyReason, ...]:
    """Read published reasons; whatever makes no sense is no reason."""
    try:
        plain: object = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    found = []
    for one in plain[:REASONS_MAX] if isinstance(plain, list) else ():
        if not isinstance(one, dict) or not isinstance(reason := one.get("reason"), str):
            continue
        since = one.get("sinceMs")
        is_time = (
            isinstance(since, int) and not isinstance(since, bool) and 0 <= since <= WALL_MS_MAX
        )
        found.append(
            ReadOnlyReason(
                reason=reason[:REASON_CHARS_MAX],
                by_person=one.get("byPerson") is True,
                since_ms=since if is_time else None,
            )
        )
    return tuple(found)


def of_bookie(
    host: str,
    port: int,
    location: Location,
    *,
    tls: bool,
    http_port: int | None = None,
    boot_epoch: int | None = None,
) -> ServiceInfo:
    """Give the service info of a bookie of ours."""
    secured = (TLS,) if tls else ()
    endpoints = [Endpoint(id=BOOKIE, host=host, port=port, protocol=GRPC, extensions=secured)]
    if http_port is not None:
        endpoints.append(Endpoint(id=HTTP_SERVER, host=host, port=http_port, protocol="http"))
    properties = {LOCATION_PROPERTY: str(location)}
    if boot_epoch is not None:
        properties[BOOT_PROPERTY] = str(boot_epoch)
    return ServiceInfo(endpoints=tuple(endpoints), properties=properties)


def render(info: ServiceInfo) -> bytes:
    """Give the bytes that Apache's writer gives; properties in the order of their keys."""
    out = bytearray()
    for endpoint in info.endpoints:
        body = bytes_field(1, endpoint.id.encode()) + number_field(2, endpoint.port)
        body += bytes_field(3, endpoint.host.encode()) + bytes_field(4, endpoint.protocol.encode())
        body += b"".join(bytes_field(5, name.encode()) for name in endpoint.auth)
        body += b"".join(bytes_field(6, name.encode()) for name in endpoint.extensions)
        out += bytes_field(6, body)
    for key, value in sorted(info.properties.items()):
        out += bytes_field(7, bytes_field(1, key.encode()) + bytes_field(2, value.encode()))
    return bytes(out)


def parse(raw: bytes) -> ServiceInfo:
    """Read a service info; an empty value (of an old bookie) is one without endpoints."""
    check_size(raw, "a service info")
    message = Message(_INFO, raw)
    properties: dict[str, str] = {}
    for entry in message.all_bytes("properties"):
        pair = Message(_PROPERTY, entry)
        key = pair.text("key")
        if key in properties:
            raise MalformedError(Flaw.DUPLICATE, f"property {key!r}")
        properties[key] = pair.text("value") if "value" in pair else ""
    return ServiceInfo(
        endpoints=tuple(_endpoint(entry) for entry in message.all_bytes("endpoints")),
        properties=properties,
    )


def _endpoint(raw: bytes) -> Endpoint:
    message = Message(_ENDPOINT, raw)
    return Endpoint(
        id=message.text("id"),
        host=message.text("host"),
        port=message.between("port", 0, PORT_MAX),
        protocol=message.text("protocol"),
        auth=tuple(message.all_texts("auth")),
        extensions=tuple(message.all_texts("extensions")),
    )
