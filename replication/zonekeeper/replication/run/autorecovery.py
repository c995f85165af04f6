"""Auto-replication, whole: what each autorecovery process runs.

The auditor finds, the zone watch judges, the gate permits, the replicator copies, the order keeper
carries out what is to become of a bookie, and the log keeper trims logs and collects what they
leave. Auditor, zone watch and log keeper are elected, so one of each is at work however many
processes there are. The zone watch of this process only stands in, for a cluster whose operator has
none. All replicators and order keepers work; those of one process share one repairer, and its byte
rate. The roles that repair share one view, so no role acts on more than another role knows.

There are no sockets, signals or clocks here but those of the loop and of the client: the simulator
runs this very code.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from zonekeeper.client.api.client import Client, Surroundings
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.audit.auditor import Auditor
from zonekeeper.replication.audit.closing_abandoned import AbandonedCloser
from zonekeeper.replication.logs.log_keeper import LogKeeper
from zonekeeper.replication.orders.order_keeper import OrderKeeper
from zonekeeper.replication.repair.replicator import WORKERS, Replicator
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.held_back import HeldBack
from zonekeeper.replication.view.view import View
from zonekeeper.replication.watch.zone_watch import ZoneWatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """The name of this process, and the sources of its chance and wall time."""

    name: BookieId
    chance: Chance
    wall_ms: Callable[[], int]
    workers: int = WORKERS


class Autorecovery:
    """All roles of one process; they begin with ``run``."""

    def __init__(self, client: Client, worker: Worker) -> None:
        cluster, name, chance = client.cluster, worker.name, worker.chance
        self.client = client
        self.name = name
        self.view = View(cluster)
        self.held_back = HeldBack(cluster)
        self.zone_watch = ZoneWatch(
            cluster, self.view, name=name, chance=chance, wall_ms=worker.wall_ms, stands_in=True
        )
        self.auditor = Auditor(
            cluster,
            self.view,
            client.bookies.pool,
            name=name,
            surroundings=Surroundings(chance, worker.wall_ms),
            duties=[self._close_abandoned],
        )
        self.log_keeper = LogKeeper(
            client, name=name, surroundings=Surroundings(chance, worker.wall_ms)
        )
        self.replicator = Replicator(
            client, self.view, name=name, chance=chance, workers=worker.workers
        )
        self.order_keeper = OrderKeeper(self.replicator.repairer, worker.wall_ms)

    async def run(self) -> None:
        """Run until cancelled; then copies in flight stop, and votes and claims are given back."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.view.follow())
            tasks.create_task(self.held_back.follow())
            tasks.create_task(self.zone_watch.run())
            tasks.create_task(self.auditor.run())
            tasks.create_task(self.log_keeper.run())
            tasks.create_task(self.replicator.run())
            tasks.create_task(self.order_keeper.run())

    async def _close_abandoned(self, chronicle: Chronicle) -> None:
        closer = AbandonedCloser(self.client, self.view, self.auditor.metrics)
        await closer.run(chronicle)

    def unready(self) -> dict[str, str]:
        """Say what keeps this process from doing its work, by name; empty: it is ready."""
        found = {}
        if not self.client.cluster.store.session.connected:
            found["metadata"] = f"{self.client.cluster.store.name} is out of reach"
        if not self.view.looks:
            found["view"] = "the cluster's records were not read yet: is there a policy?"
        return found
