"""Links to bookies over gRPC, at the addresses that the bookies register."""

import asyncio
import logging

from zonekeeper.metadata.bookies import registration
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.wire.contract.links import LinkSettings, OwnedLink
from zonekeeper.wire.grpc import grpc_edge, grpc_link, tls

_logger = logging.getLogger(__name__)


class GrpcLinks:
    """A ``link_pool.LinkFactory`` over gRPC."""

    def __init__(
        self,
        cluster: Cluster,
        *,
        credentials: tls.ClientCredentials | None,
        settings: LinkSettings,
        tasks: asyncio.TaskGroup,
        chance: Chance,
    ) -> None:
        self._cluster = cluster
        self._credentials = credentials
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
        if info is None or info.bookie is None:
            return None
        host, port = info.bookie.host, info.bookie.port
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def make(self, bookie_id: BookieId, address: str) -> OwnedLink:
        """Give a new link to a bookie at an address."""
        return grpc_link.connect(
            grpc_edge.name_of(bookie_id, self._cluster.instance),
            address,
            credentials=self._credentials,
            tasks=self._tasks,
            chance=self._chance,
            settings=self._settings,
        )
