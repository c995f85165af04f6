"""A world in which a zone is taken away for a drill, with a probe that says what a test lets it."""

from collections.abc import Callable
from typing import Unpack

from tests.operator.people import ordered
from tests.operator.people.ordered import OrderParts
from tests.operator.resources import NAME, SPACE
from tests.operator.worlds import World
from zonekeeper.operator.kubernetes.api import (
    BUDGETS,
    PODS,
    PROBES_LABEL,
    STATEFUL_SETS,
    Json,
)
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.gate import Token

B = ZoneName("b")
FOR_MS = 60_000
FIGURES = '{"acknowledged": 7, "lost": 0}'
PARTS: OrderParts = {"zone": B, "for_ms": FOR_MS}


class DrillWorld(World):
    """Its probe is ready at once, and ends once the zone was away and is back."""

    def __init__(self, **spec: object) -> None:
        super().__init__(None, **{"bookiesPerZone": 2, **spec})
        #: The probe ends at once with these words, as one that has lost an entry does.
        self.probe_says = ""
        self.is_probe_ready = True
        #: The probe reads on for ever.
        self.is_probe_endless = False
        #: Pods of other zones that were seen evictable while the zone was away.
        self.slips: list[str] = []

    async def controllers(self) -> None:
        await super().controllers()
        for pod in await self.probes():
            self._let_probe(pod, await self.replicas())
        await self.check()

    async def check(self) -> None:
        """Nothing but the drill's zone is away, and no other bookie may be evicted meanwhile."""
        counts = await self.replicas()
        away = [zone for zone, count in counts.items() if count == 0]
        assert len(away) <= 1, away
        if away and (await self.budget()) != 0:
            self.slips.append(f"{away[0]}: the budget lets others go")

    def _let_probe(self, pod: Json, counts: dict[str, int]) -> None:
        status = pod.get("status") or {}
        before = status.get("containerStatuses") or [{"state": {"running": {}}}]
        if "terminated" in before[0]["state"]:
            return
        was_away = status.get("wasAway", False) or 0 in counts.values()
        is_over = was_away and 0 not in counts.values() and not self.is_probe_endless
        state: Json = {"running": {}}
        if self.probe_says:
            state = {"terminated": {"exitCode": 1, "message": self.probe_says}}
        elif is_over:
            state = {"terminated": {"exitCode": 0, "message": FIGURES}}
        ready = "True" if self.is_probe_ready and "running" in state else "False"
        told = {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "probe", "restartCount": 0, "state": state}],
            "wasAway": was_away,
        }
        if told != status:
            self.kubernetes.put(PODS, pod | {"status": told})

    async def probes(self) -> list[Json]:
        return await self.kubernetes.list(PODS, SPACE, labels=f"{PROBES_LABEL}={NAME}")

    async def replicas(self) -> dict[str, int]:
        """Give the bookies that each zone's StatefulSet asks for."""
        items = await self.kubernetes.list(STATEFUL_SETS, SPACE)
        return {one["metadata"]["name"][-1]: int(one["spec"]["replicas"]) for one in items}

    async def budget(self) -> int:
        (found,) = await self.kubernetes.list(BUDGETS, SPACE)
        return int(found["spec"]["maxUnavailable"])

    async def drill(self) -> Json:
        """Give the record."""
        found: Json = (await self.get()).get("status", {}).get("drill", {})
        return found

    async def work(self, until: Callable[[Json], bool], *, turns: int = 40) -> Json:
        """Let all work until the record is so."""
        found: Json = {}
        for _ in range(turns):
            found = await self.drill()
            if until(found):
                return found
            await self.turn()
            await self.check()
            await self.controllers()
        raise AssertionError(f"it does not come to that: {found}, {await ordered.answer(self)}")

    async def until_phase(self, phase: str) -> Json:
        return await self.work(lambda found: found.get("phase") == phase)

    async def order(self, **parts: Unpack[OrderParts]) -> ResourceOrder:
        """Order a drill."""
        whole: OrderParts = {**PARTS, **parts}
        made = await ordered.made(self, AskedFor.DRILL, **whole)
        await ordered.write(self, made)
        return made

    async def away(self) -> Json:
        """Order a drill, and let it come to the moment at which the zone is away."""
        await self.order()
        await self.until_phase("Away")
        await self.work(lambda _: "log-b-0" not in self.registered)
        return await self.drill()

    async def end(self, token: str) -> None:
        """Order the end of a drill."""
        made = await ordered.made(self, AskedFor.END_DRILL, zone=B, incident=Token(token))
        await ordered.write(self, made)

    async def ended(self) -> Json:
        """Let all work until the drill is over and nothing changes any more; give its report."""
        await self.until_phase("Ended")
        await self.settle()
        assert await self.replicas() == {"a": 2, "b": 2, "c": 2}
        assert await self.budget() == 1
        assert await self.probes() == []
        assert (await self.conditions())["Ready"] == ("True", "AllReady")
        assert self.slips == []
        return await self.drill()


async def settled(**spec: object) -> DrillWorld:
    world = DrillWorld(**spec)
    await world.settle()
    return world
