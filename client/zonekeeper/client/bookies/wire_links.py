"""Links to bookies, at the addresses that the bookies register: over gRPC or the socket lane.

Each bookie serves gRPC. One that serves the socket lane too has registered an endpoint of its own
for it. The client's setting says which of them is used (``ways.BookieWay``). The address of a link
says over which it goes, so a bookie that gets or loses its socket lane counts as one that moved.
"""

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

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
from zonekeeper.wire.grpc import grpc_link, tls
from zonekeeper.wire.grpc.tls import TlsFiles
from zonekeeper.wire.socket import socket_link
from zonekeeper.wire.socket.socket_tls import SocketTls

#: Before the address of a socket lane; that of gRPC stands alone.
_SOCKET: Final = "socket "

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

    def __init__(
        self,
        cluster: Cluster,
        *,
        way: BookieWay,
        encryption: WireSecrets,
        settings: LinkSettings,
        tasks: asyncio.TaskGroup,
        chance: Chance,
    ) -> None:
        self._cluster = cluster
        self._way = way
        self._encryption = encryption
        self._settings = settings
        self._tasks = tasks
        self._chance = chance

    async def find(self, bookie_id: BookieId) -> str | None:
        """Give the address that a bookie registers now; None: not registered, or not readable."""
        if not cookies.is_bookie_id(bookie_id):
            return None  # no bookie has such an id, and no header can carry it
        try:
            info = await registration.read_service_info(self._cluster, bookie_id)
        except (StoreError, UnreadableError) as error:
            _logger.warning("the address of %s is not known: %s", bookie_id, error)
            return None
        return None if info is None else self._address(bookie_id, info)

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        """Give a new link to a bookie at an address."""
        name = bookie_names.name_of(bookie_id, self._cluster.instance)
        if address.startswith(_SOCKET):
            place = socket_link.SocketPlace(
                name=name,
                address=addresses.parse(address.removeprefix(_SOCKET)),
                tls=self._encryption.socket,
            )
            return socket_link.connect(
                place, tasks=self._tasks, chance=self._chance, settings=self._settings
            )
        return grpc_link.connect(
            name,
            address,
            credentials=self._encryption.grpc,
            tasks=self._tasks,
            chance=self._chance,
            settings=self._settings,
        )

    def _address(self, bookie_id: BookieId, info: ServiceInfo) -> str | None:
        if self._way is not BookieWay.GRPC and (lane := info.socket) is not None:
            return f"{_SOCKET}{addresses.of(lane.host, lane.port)}"
        if self._way is BookieWay.SOCKET:
            _logger.warning(
                "%s has no socket lane, and this client is set to use nothing else: start the "
                "bookie with --listen-socket, or let the client use gRPC",
                bookie_id,
            )
            return None
        return (
            None if info.bookie is None else str(addresses.of(info.bookie.host, info.bookie.port))
        )
