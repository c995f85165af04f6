"""Links to bookies, at the addresses that the bookies register: over gRPC or the socket lane.

Each bookie serves gRPC. One that serves the socket lane too has registered an endpoint of its own
for it. The client's setting says which of them is used (``ways.BookieWay``). The address of a link
says over which it goes. A link over what is offered has the address of gRPC, and finds out by
itself whether the bookie's lane is reached (``wire.link.offered_transport``).
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.base.ways import BookieWay
from zonekeeper.metadata.bookies import registration
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.formats.service_info import ServiceInfo
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import LinkSettings, OwnedLink
from zonekeeper.wire.formats import addresses, bookie_names
from zonekeeper.wire.formats.addresses import Address
from zonekeeper.wire.grpc import grpc_link, tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.lanes import way_choice
from zonekeeper.wire.lanes.back_off import BackOff
from zonekeeper.wire.lanes.way_choice import WayChoice
from zonekeeper.wire.link.offered_transport import (
    LaneTransport,
    OfferedLane,
    OfferedTransport,
    Offers,
)
from zonekeeper.wire.link.stream_link import StreamLink
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.socket_tls import SocketTls

#: Before the address of a socket lane, and before that of gRPC where the lane goes first if there
#: is one; that of gRPC alone stands alone.
_SOCKET: Final = "socket "
_OFFERED: Final = "offered "
_NO_LANE: Final = OfferedLane(address=None, boot_epoch=None)

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WireSecrets:
    """A client's certificate and authority, as each way takes them; None: nothing is encrypted."""

    grpc: tls.ClientCredentials | None
    socket: SocketTls | None


def secrets(files: TlsFiles | None) -> WireSecrets:
    """Read a client's files; raises OSError or ValueError for unusable ones."""
    if files is None:
        return WireSecrets(grpc=None, socket=None)
    return WireSecrets(grpc=tls.ClientCredentials(files), socket=SocketTls(files, serving=False))


class WireLinks:
    """A ``link_pool.LinkFactory`` over gRPC and the socket lane."""

    def __init__(  # noqa: PLR0913 each is a part of its own, and has a name
        self,
        cluster: Cluster,
        tasks: asyncio.TaskGroup,
        *,
        way: BookieWay,
        encryption: WireSecrets,
        settings: LinkSettings,
        counters: ClientCounters,
        chance: Chance,
    ) -> None:
        self._cluster = cluster
        self._way = way
        self._encryption = encryption
        self._settings = settings
        self._counters = counters
        self._tasks = tasks
        self._chance = chance
        #: The lane of each bookie, as it was read last.
        self._lanes: dict[BookieId, OfferedLane] = {}

    async def find(self, bookie_id: BookieId) -> str | None:
        """Give the address that a bookie registers now; None: not registered, or not readable."""
        if not cookies.is_bookie_id(bookie_id):
            return None  # no bookie has such an id, and no header can carry it
        info = await self._read(bookie_id)
        return None if info is None else self._address(bookie_id, info)

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        """Give a new link to a bookie at an address."""
        name = bookie_names.name_of(bookie_id, self._cluster.instance)
        if address.startswith(_SOCKET):
            return socket_link.connect(
                self._place(name, addresses.parse(address.removeprefix(_SOCKET))),
                tasks=self._tasks,
                chance=self._chance,
                settings=self._settings,
            )
        if address.startswith(_OFFERED):
            return self._offered(bookie_id, name, address.removeprefix(_OFFERED))
        return grpc_link.connect(
            name,
            address,
            credentials=self._encryption.grpc,
            tasks=self._tasks,
            chance=self._chance,
            settings=self._settings,
        )

    def _offered(self, bookie_id: BookieId, name: str, address: str) -> StreamLink:
        """Give a link over the bookie's lane if it is reached, and else over gRPC."""
        settings, first = self._settings, self._lanes.get(bookie_id, _NO_LANE)

        def lane_at(where: Address) -> LaneTransport:
            return socket_link.transport(
                self._place(name, where), tasks=self._tasks, settings=settings
            )

        async def look() -> OfferedLane | None:
            info = await self._read(bookie_id)
            return None if info is None else _lane_of(info)

        ways = OfferedTransport(
            grpc_link.transport(
                name, address, credentials=self._encryption.grpc, speaks=settings.speaks
            ),
            Offers(first=first, look=look, connect=lane_at),
            WayChoice(
                is_offered=first.address is not None,
                boot_epoch=first.boot_epoch,
                back_off=BackOff(
                    first_ms=way_choice.PROBE_FIRST_MS,
                    max_ms=way_choice.PROBE_MAX_MS,
                    chance=self._chance,
                ),
            ),
            watcher=_Watcher(bookie_id, self._counters),
            tasks=self._tasks,
            connect_timeout_ms=settings.connect_timeout_ms,
        )
        link = StreamLink(
            bookie_id,
            ways,
            tasks=self._tasks,
            chance=self._chance,
            settings=settings,
            watcher=ways,
        )
        ways.when_reached(link.renew)
        return link

    def _place(self, name: str, address: Address) -> socket_link.SocketPlace:
        return socket_link.SocketPlace(name=name, address=address, tls=self._encryption.socket)

    async def _read(self, bookie_id: BookieId) -> ServiceInfo | None:
        try:
            return await registration.read_service_info(self._cluster, bookie_id)
        except (StoreError, UnreadableError) as error:
            _logger.warning("the address of %s is not known: %s", bookie_id, error)
            return None

    def _address(self, bookie_id: BookieId, info: ServiceInfo) -> str | None:
        if self._way is BookieWay.SOCKET:
            if (lane := info.socket) is not None:
                return f"{_SOCKET}{addresses.of(lane.host, lane.port)}"
            _logger.warning(
                "%s has no socket lane, and this client is set to use nothing else: start the "
                "bookie with --listen-socket, or let the client use gRPC",
                bookie_id,
            )
            return None
        if info.bookie is None:
            return None
        address = str(addresses.of(info.bookie.host, info.bookie.port))
        if self._way is BookieWay.GRPC:
            return address
        self._lanes[bookie_id] = _lane_of(info)
        return f"{_OFFERED}{address}"


def _lane_of(info: ServiceInfo) -> OfferedLane:
    lane = info.socket
    address = None if lane is None else addresses.of(lane.host, lane.port)
    return OfferedLane(address=address, boot_epoch=info.boot_epoch)


class _Watcher:
    """An ``offered_transport.WayWatcher`` that logs and counts."""

    def __init__(self, bookie_id: BookieId, counters: ClientCounters) -> None:
        self._bookie_id = bookie_id
        self._counters = counters

    def blocked(self, why: str) -> None:
        """Say that the bookie is reached, and its lane is not."""
        self._counters.lanes_blocked[self._bookie_id] += 1
        _logger.warning(
            "%s is used over gRPC, because its socket lane is not reached: %s; let the lane's port "
            "through between this process and the bookie, or set this client to use gRPC. The lane "
            "is tried again, later each time",
            self._bookie_id,
            why,
            extra={"bookie": self._bookie_id},
        )

    def opened(self) -> None:
        """Say that the lane is reached."""
        _logger.info(
            "the socket lane of %s is reached", self._bookie_id, extra={"bookie": self._bookie_id}
        )
