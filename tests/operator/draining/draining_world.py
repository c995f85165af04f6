"""A world whose nodes people cordon and drain."""

from tests.operator.draining import evicting
from tests.operator.resources import NAME, SPACE, revision_of
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import (
    BUDGETS,
    NODES,
    PODS,
    REVISION_LABEL,
    ZONE_LABEL,
    Json,
    ObjectKind,
)
from zonekeeper.operator.sight import node_sight

BOOKIES = 3


class DrainingWorld(World):
    """Each zone has one node, on which all its bookies stand."""

    def __init__(self, **spec: object) -> None:
        super().__init__(None, **{"bookiesPerZone": BOOKIES, **spec})
        self.watch_evictions()

    def watch_evictions(self) -> None:
        """Begin with no cordoned node, and ask for the rule from now on."""
        #: Where no pod is placed.
        self.cordoned: set[str] = set()
        #: The writes of the operator, each with the budgets that stood after it.
        self.fate = self._fate
        self.writes: list[str] = []

    def _fate(self, verb: str, kind: ObjectKind) -> None:
        """Before each call of the operator, the rule holds: also after each write before it."""
        self.check()
        if kind is BUDGETS and verb in ("apply", "delete"):
            self.writes.append(verb)

    def check(self) -> None:
        broken = evicting.of_twin(self.kubernetes, SPACE, NAME)
        assert not broken, f"{broken}: {self.budgets()}"

    def cordon(self, zone: str, *, is_cordoned: bool = True) -> None:
        """Cordon the node of a zone, or end that."""
        (self.cordoned.add if is_cordoned else self.cordoned.discard)(zone)
        node = self.kubernetes.peek(NODES, "", f"node-{zone}")
        assert node is not None
        self.kubernetes.put(NODES, node | {"spec": {"unschedulable": is_cordoned}})
        self.now_ms += node_sight.FRESH_MS

    async def uncordon(self, zone: str) -> None:
        """Let pods be placed again."""
        self.cordon(zone, is_cordoned=False)
        for ordinal in range(BOOKIES):
            name = f"{NAME}-{zone}-{ordinal}"
            pod = self.kubernetes.peek(PODS, SPACE, name)
            if pod is not None and not pod["spec"].get("nodeName"):
                self.kubernetes.mark_deleted(PODS, SPACE, name)
        await self.controllers()

    async def evict(self, name: str) -> bool:
        """Ask for one eviction; was it granted?"""
        pods = evicting.bookies(await self.kubernetes.list(PODS, SPACE), NAME)
        budgets = await self.kubernetes.list(BUDGETS, SPACE)
        sizes = evicting.sizes(self.kubernetes, SPACE)
        is_granted = evicting.may_evict(name, pods, budgets, sizes)
        if is_granted:
            self.kubernetes.mark_deleted(PODS, SPACE, name)
            await self.controllers()
        return is_granted

    async def drain(self, zone: str) -> list[bool]:
        """Ask for the eviction of each bookie of a zone, one after another."""
        return [await self.evict(f"{NAME}-{zone}-{number}") for number in range(BOOKIES)]

    def budgets(self) -> list[str]:
        """Name the budgets that stand."""
        found = evicting.held(self.kubernetes, BUDGETS.plural, SPACE)
        return [item["metadata"]["name"] for item in found]

    async def _bookie(self, name: str, item: Json) -> None:
        labels = item["spec"]["selector"]["matchLabels"]
        is_there = self.kubernetes.peek(PODS, SPACE, name) is not None
        if is_there or labels[ZONE_LABEL] not in self.cordoned:
            await super()._bookie(name, item)
            return
        owner = {"kind": "StatefulSet", "controller": True, "uid": item["metadata"]["uid"]}
        marked = {**labels, REVISION_LABEL: revision_of(item)}
        meta = {"name": name, "namespace": SPACE, "labels": marked, "ownerReferences": [owner]}
        self.kubernetes.put(PODS, {"metadata": meta, "spec": {}, "status": {"conditions": []}})


AT_REST = ["log-bookies"]
A_IS_OPEN = ["log-b-closed", "log-c-closed"]


async def built(**spec: object) -> DrainingWorld:
    """Give a cluster that has come to rest, with a ledger on each bookie."""
    world = DrainingWorld(**spec)
    await world.settle()
    zones = [one["name"] for one in (await world.get())["spec"]["zones"]]
    for number in range(BOOKIES):
        await world.write_ledger(*(f"{NAME}-{zone}-{number}" for zone in zones))
    await world.settle()
    return world
