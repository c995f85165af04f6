"""The presence of this process: by it others know that a ledger's writer is there.

The first ledger that a client creates waits for it, and names it. After that a task makes it again
whenever it is gone, as after the end of a session, and no call waits for it. Autorecovery closes a
ledger whose writer has had no presence for long, if the owner of the cluster wants that
(``repair.abandonedAfter``).
"""

import asyncio
import logging
from typing import Final

from zonekeeper.client.base.tasks import Tasks
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.ledgers import presences
from zonekeeper.metadata.store.errors import SessionLostError, StoreError
from zonekeeper.placement.base.chance import Chance

_RETRY_DELAY_S: Final = 1.0

_logger = logging.getLogger(__name__)


class WriterPresence:
    """The presence of one client; it is there once a ledger was created."""

    def __init__(self, cluster: Cluster, chance: Chance, tasks: Tasks) -> None:
        self._cluster = cluster
        self._chance = chance
        self._tasks = tasks
        self._name: str | None = None
        self._turn = asyncio.Lock()

    async def name(self) -> str:
        """Give the name of the presence, which is there or was there; raises ``StoreError``."""
        if self._name is not None:
            return self._name
        async with self._turn:
            if self._name is None:
                name = presences.draw(self._chance)
                session = self._cluster.store.session.id
                if session is None:
                    raise SessionLostError("has no session now", store=self._cluster.store.name)
                try:
                    await presences.show(self._cluster, name, session)
                except StoreError as error:
                    error.maybe_applied = False  # no ledger was created
                    raise
                self._tasks.start(self._keep(name))
                self._name = name
        return self._name

    async def _keep(self, name: str) -> None:
        """Make the presence whenever it is not there, or not this session's; until the end."""
        store = self._cluster.store
        while True:
            try:
                async with store.watch(presences.path(self._cluster, name)) as states:
                    async for node in states:
                        session = store.session.id
                        if session is not None and (node is None or node.owner != session):
                            await presences.show(self._cluster, name, session)
            except StoreError as error:
                _logger.warning("this process may have no presence: %s", error)
            await asyncio.sleep(_RETRY_DELAY_S)
