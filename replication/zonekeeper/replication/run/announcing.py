"""An autorecovery process says in the store where its pages are, in each of its sessions.

Commands remember that address, and look there when the store is away. A failure changes nothing for
the process's work: it is logged, and tried again.
"""

import asyncio
import logging
from typing import Final

from zonekeeper.metadata.cluster import announced
from zonekeeper.metadata.cluster.announced import Announcement
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.errors import StoreError
from zonekeeper.metadata.store.store import SessionId

RETRY_DELAY_S: Final = 1.0

_logger = logging.getLogger(__name__)


async def keep(cluster: Cluster, one: Announcement) -> None:
    """Announce a process whenever a session begins, until cancelled."""
    store = cluster.store
    told: SessionId | None = None
    while True:
        try:
            async with store.watch_session() as sessions:
                async for session in sessions:
                    if session.connected and session.id is not None and session.id != told:
                        await announced.announce(cluster, one, session.id)
                        told = session.id
        except StoreError as error:
            _logger.warning("commands may not find this process without the store: %s", error)
        await asyncio.sleep(RETRY_DELAY_S)
