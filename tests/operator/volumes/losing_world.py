"""A world in which a bookie refuses an empty disk, and autorecovery recovers lost bookies."""

import dataclasses
from typing import Final

from tests.operator.resources import NAME, SPACE
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.scaling.removing_world import RemovingWorld
from zonekeeper.metadata.bookies import bookie_records, order_records
from zonekeeper.metadata.bookies.bookie_records import BookieRecord, Mark
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.operator.kubernetes.api import CLAIMS, PODS, REFILLS_LABEL, Json
from zonekeeper.operator.sight import observed
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.decisions.order_steps import OrderStep, WriteLostOff
from zonekeeper.wire.running import seam

#: The last words of a bookie, as ``bookie.life.identity`` writes them.
WORDS: Final = (
    "zk://zookeeper/logs/ledgers knows {}, and its data folder /data has no file VERSION: "
    f"{seam.LOST_DISK}, `zonekeeper bookie cookie replace-disk` gives the bookie an empty one"
)


class LosingWorld(RemovingWorld):
    """A claim that is made anew while the store knows its bookie has an empty volume."""

    def __init__(self, **spec: object) -> None:
        super().__init__(**spec)
        #: The bookies whose disks are empty.
        self.empty: set[str] = set()
        #: Those whose disks are not empty after all, so that no command gives them anew.
        self.stained: set[str] = set()
        #: Those that have an empty disk under their cookies, and have not started on it yet.
        self.given: set[str] = set()
        #: Those whose pods run, and do not serve yet.
        self.slow: set[str] = set()
        #: Those that start without all that they held, and have not got it back yet.
        self.in_limbo: set[str] = set()
        #: Do autorecovery processes give bookies in limbo their copies back?
        self.fills = True

    async def lose(self, name: str) -> None:
        """Delete a bookie's claim, and then its pod."""
        self.kubernetes.mark_deleted(CLAIMS, SPACE, f"data-{name}")
        self.kubernetes.mark_deleted(PODS, SPACE, name)
        await self.controllers()

    async def controllers(self) -> None:
        if self.fills:
            await self._fill()
        for pod in await self.kubernetes.list(PODS, SPACE, labels=f"{REFILLS_LABEL}={NAME}"):
            self._run(pod)
        await super().controllers()

    def _run(self, pod: Json) -> None:
        """Do what the pod does that gives a bookie an empty disk."""
        if "status" in pod:
            return
        name = pod["metadata"]["name"].removesuffix("-refill")
        ended = {"exitCode": 2, "message": "the folder is not empty"}
        if name not in self.stained:
            self.empty.discard(name)
            self.given.add(name)
            ended = {"exitCode": 0, "message": ""}
        said = {"containerStatuses": [{"name": "bookie", "state": {"terminated": ended}}]}
        self.kubernetes.put(PODS, pod | {"status": said})

    async def _sessions(self) -> None:
        """Bookies that start on a disk that they were given say that they are in limbo."""
        for name in sorted(self.given):
            pod = await self.kubernetes.get(PODS, SPACE, name)
            if pod is not None and observed.pod(pod).ready:
                async with cluster_of(self) as cluster:
                    known = await bookie_records.read(cluster, BookieId(name))
                    epoch = known.boot_epoch + 1
                    await bookie_records.lost_data(cluster, BookieId(name), epoch)
                self.given.discard(name)
                self.in_limbo.add(name)
        await super()._sessions()

    async def _fill(self) -> None:
        for name in sorted(self.in_limbo):
            async with cluster_of(self) as cluster:
                known = await bookie_records.read(cluster, BookieId(name))
                await bookie_records.has_all_again(cluster, BookieId(name), known.boot_epoch)
        self.in_limbo.clear()

    async def healed(self) -> set[str]:
        """Name the bookies that are being healed, in whatever way."""
        pods = await self.kubernetes.list(PODS, SPACE, labels=f"{REFILLS_LABEL}={NAME}")
        filled = {one["metadata"]["name"].removesuffix("-refill") for one in pods}
        return filled | self.given | self.in_limbo | await self.draining()

    async def mount_again(self, name: str) -> None:
        """Let a bookie have its own disk after all."""
        self.empty.discard(name)
        self.kubernetes.mark_deleted(PODS, SPACE, name)
        await self.controllers()

    async def incarnation(self, name: str) -> int | None:
        """Give the number of a bookie's cookie; None: it has none."""
        store = await self.open(await self.address())
        path = f"{store.root}/cookies/{name}"
        found = await store.get(path, sync=True)
        await store.close()
        return None if found is None else found.created_id

    async def _bookie(self, name: str, item: Json) -> None:
        is_known = name in await self.cookies()
        is_new_pod = await self.kubernetes.get(PODS, SPACE, name) is None
        if not is_known:
            self.empty.discard(name)
        elif await self.kubernetes.get(CLAIMS, SPACE, f"data-{name}") is None:
            self.empty.add(name)
        await super()._bookie(name, item)
        if is_new_pod and name in self.empty:
            self._crash(name)
        elif is_new_pod and name in self.slow:
            self._say(name, is_ready=False)

    def start(self, name: str) -> None:
        """Let a bookie serve that has started slowly."""
        self.slow.discard(name)
        self._say(name, is_ready=True)

    def _say(self, name: str, *, is_ready: bool) -> None:
        pod = self.kubernetes.peek(PODS, SPACE, name)
        assert pod is not None
        ready = {"type": "Ready", "status": str(is_ready)}
        self.kubernetes.put(PODS, pod | {"status": {"conditions": [ready]}})

    def _crash(self, name: str) -> None:
        pod = self.kubernetes.peek(PODS, SPACE, name)
        assert pod is not None
        ended = {"exitCode": 2, "message": WORDS.format(name)}
        container = {
            "name": "bookie",
            "restartCount": 4,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": ended},
        }
        ready = {"type": "Ready", "status": "False"}
        status = {"conditions": [ready], "containerStatuses": [container]}
        self.kubernetes.put(PODS, pod | {"status": status})

    async def _do(self, cluster: Cluster, bookie: BookieId, step: OrderStep) -> None:
        if not isinstance(step, WriteLostOff):
            await super()._do(cluster, bookie, step)
            return

        def off(state: OrderState) -> OrderChange:
            mark = Mark(at_ms=self.wall_ms, by="autorecovery", reason="recovered")
            old = state.record or BookieRecord()
            return OrderChange(order=None, record=dataclasses.replace(old, written_off=mark))

        await order_records.change(cluster, bookie, off)
