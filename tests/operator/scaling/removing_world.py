"""A world whose autorecovery carries out orders about bookies, and that watches what goes.

The next step of an order is the real decision (``order_steps``), and the listings are the real
ones. Copying is a swap in a ledger's metadata: the bookie goes, another one of its zone comes.
"""

import dataclasses
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import assert_never

from tests.operator.resources import NAME, SPACE
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.worlds import World
from zonekeeper.metadata.bookies import bookie_watch, cookie_store, order_records
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.ledgers import ledger_listing, ledgers
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.operator.kubernetes.api import CLAIMS, STATEFUL_SETS, Json
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.zones import bookie_orders
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderProgress,
    OrderWord,
)
from zonekeeper.replication.decisions import order_steps
from zonekeeper.replication.decisions.order_steps import (
    AwaitChange,
    EmptyOnce,
    EndOrder,
    Forget,
    MakeReadOnly,
    MakeWritable,
    OrderScene,
    OrderStep,
    TakeOrderBack,
    WriteLostOff,
)
from zonekeeper.replication.orders import emptying, giving
from zonekeeper.replication.orders.emptying import NotEmptiedError
from zonekeeper.replication.orders.giving import AskedOrder
from zonekeeper.replication.view.alerts import Chronicle

#: What is left of three bookies a zone when there are two.
KEPT = {f"{NAME}-{zone}-{number}" for zone in "abc" for number in range(2)}


class RemovingWorld(World):
    """A world in which orders are carried out, one step of each order at a time."""

    def __init__(self, **spec: object) -> None:
        super().__init__(None, **{"bookiesPerZone": 3, **spec})
        #: Do autorecovery processes work on orders?
        self.is_repaired = True
        #: What holds each order; empty: nothing.
        self.held_by = ""
        #: The bookies that were told to refuse writes.
        self.refusing: set[BookieId] = set()

    async def controllers(self) -> None:
        await super().controllers()
        await self.carry_out()

    async def carry_out(self) -> None:
        """Do one step of each order, as autorecovery processes do."""
        if self.is_repaired:
            with suppress(clusters.NotAClusterError):
                async with cluster_of(self) as cluster:
                    for bookie, order in (await order_records.read_all(cluster)).items():
                        if isinstance(order, BookieOrder) and order.needs_work:
                            await self._work(cluster, bookie)

    async def _work(self, cluster: Cluster, bookie: BookieId) -> None:
        state = await order_records.read_state(cluster, bookie)
        assert state.order is not None
        registered = bookie in await bookie_watch.registrations(cluster)
        scene = OrderScene(
            order=state.order,
            incarnation=state.incarnation,
            registered=registered,
            refuses=bookie in self.refusing,
            draining=state.draining,
            kept_read_only=False,
            restored=False,
        )
        await self._do(cluster, bookie, order_steps.next_step(scene))

    async def _do(self, cluster: Cluster, bookie: BookieId, step: OrderStep) -> None:
        match step:
            case MakeReadOnly():
                self.refusing.add(bookie)
                await _change(cluster, bookie, lambda one: dataclasses.replace(one, read_only=True))
            case MakeWritable():
                self.refusing.discard(bookie)
                await _change(
                    cluster, bookie, lambda one: dataclasses.replace(one, read_only=False)
                )
            case EmptyOnce():
                await self._empty(cluster, bookie)
            case Forget():
                await self._forget(cluster, bookie)
            case TakeOrderBack():
                word = OrderWord(at_ms=self.wall_ms, by="autorecovery", reason="its mark is gone")
                await _change(cluster, bookie, lambda one: bookie_orders.taken_back(one, word))
            case EndOrder():
                self.refusing.discard(bookie)
                await _change(cluster, bookie, lambda _: None)
            case AwaitChange():
                await self._tell(cluster, bookie, step.phase, why=step.why)
            case WriteLostOff():
                raise AssertionError("nobody orders a recovery")
            case _:
                assert_never(step)

    async def _empty(self, cluster: Cluster, bookie: BookieId) -> None:
        if self.held_by:
            await self._tell(cluster, bookie, OrderPhase.HELD, why=self.held_by)
            return
        try:
            left = await emptying.naming(cluster, bookie)
        except NotEmptiedError as error:
            await self._tell(cluster, bookie, OrderPhase.STUCK, why=str(error))
            return
        if not left:
            now_ms = self.wall_ms
            await _change(cluster, bookie, lambda one: dataclasses.replace(one, emptied_ms=now_ms))
            await self._tell(cluster, bookie, OrderPhase.EMPTIED)
            return
        await self._tell(cluster, bookie, OrderPhase.COPYING, left=len(left))
        await move_copy(cluster, LedgerId(left.ids[0]), bookie)

    async def _forget(self, cluster: Cluster, bookie: BookieId) -> None:
        if await emptying.naming(cluster, bookie):
            await _change(cluster, bookie, lambda one: dataclasses.replace(one, emptied_ms=None))
            return
        self.refusing.discard(bookie)
        await order_records.change(
            cluster, bookie, lambda _: OrderChange(order=None, record=None, without_cookie=True)
        )

    async def _tell(
        self, cluster: Cluster, bookie: BookieId, phase: OrderPhase, *, left: int = 0, why: str = ""
    ) -> None:
        told = OrderProgress(
            at_ms=0,
            worker="one",
            since_ms=0,
            phase=phase,
            moved_ms=0,
            ledgers=left,
            ledgers_left=left,
            why=why,
        )
        await _change(cluster, bookie, lambda one: dataclasses.replace(one, progress=told))

    # what is there

    async def orders(self) -> dict[str, BookieOrder]:
        """Give the orders that stand."""
        async with cluster_of(self) as cluster:
            found = await order_records.read_all(cluster)
        return {name: one for name, one in found.items() if isinstance(one, BookieOrder)}

    async def cookies(self) -> set[str]:
        """Name the bookies that have cookies."""
        async with cluster_of(self) as cluster:
            return {*await cookie_store.ids(cluster)}

    async def named(self) -> set[str]:
        """Name the bookies that ledgers name."""
        async with cluster_of(self) as cluster:
            listed = [one async for one in ledger_listing.all_of(cluster)]
        return {
            bookie
            for one in listed
            if isinstance(one, StoredLedger)
            for bookie in one.metadata.bookies
        }

    async def draining(self) -> set[str]:
        """Name the bookies that are being emptied, by their orders."""
        return {name for name, one in (await self.orders()).items() if one.taken_back is None}

    async def claims(self) -> dict[str, Json]:
        """Give the claims by the name of their bookie, those of data volumes."""
        items = await self.kubernetes.list(CLAIMS, SPACE)
        return {item["metadata"]["name"].removeprefix("data-"): item for item in items}

    async def replicas(self) -> dict[str, int]:
        """Give the size of each StatefulSet, by zone."""
        found = await self.kubernetes.list(STATEFUL_SETS, SPACE)
        return {
            item["metadata"]["name"].removeprefix(f"{NAME}-"): item["spec"]["replicas"]
            for item in found
        }

    async def scaling(self) -> Json:
        """Give ``status.scaling``."""
        found: Json = (await self.get())["status"].get("scaling", {})
        return found


class GoneWatch:
    """Looks after each turn at what is gone, and at what is disturbed."""

    def __init__(self, world: RemovingWorld) -> None:
        self._world = world
        self._runs: dict[str, int] = {}
        self._cookies: set[str] = set()
        self._claims: set[str] = set()
        #: What went, in order: ``pod``, ``cookie`` or ``claim`` of a bookie.
        self.gone: list[tuple[str, str]] = []

    async def look(self) -> None:
        """Look once; the controllers have not worked since the turn."""
        world = self._world
        named, runs = await world.named(), await world.replicas()
        cookies, claims = await world.cookies(), {*await world.claims()}
        for zone, count in self._runs.items():
            for ordinal in range(runs.get(zone, 0), count):
                self._note("pod", f"{NAME}-{zone}-{ordinal}", named)
        for one in sorted(self._cookies - cookies):
            self._note("cookie", one, named)
        for one in sorted(self._claims - claims):
            assert one not in cookies, f"the volume of {one} went before its cookie"
            self._note("claim", one, named)
        self._runs, self._cookies, self._claims = runs, cookies, claims
        # At most one bookie is emptied or away because of us.
        orders = await world.draining()
        assert len(orders) <= 1, f"two bookies are being removed: {sorted(orders)}"

    def _note(self, what: str, bookie: str, named: set[str]) -> None:
        assert bookie not in named, f"the {what} of {bookie} went, and a ledger names it"
        self.gone.append((what, bookie))


async def scaled(world: RemovingWorld) -> tuple[str, str]:
    """Give status and reason of the condition ``Scaled``."""
    return (await world.conditions())["Scaled"]


async def built(**spec: object) -> RemovingWorld:
    """Give a cluster of three bookies a zone with a ledger on each bookie."""
    world = RemovingWorld(**spec)
    await world.settle()
    for number in range(3):
        await world.write_ledger(*(f"{NAME}-{zone}-{number}" for zone in "abc"))
    return world


async def move_copy(cluster: Cluster, ledger_id: LedgerId, bookie: BookieId) -> None:
    """Let a ledger name another bookie of the zone, one with the lowest ordinals.

    Where the policy does not name the zone any more, the copy goes to another zone.
    """
    found = await ledgers.read(cluster, ledger_id, sync=True)
    assert found is not None
    policy, home = await policy_store.read(cluster), bookie.rpartition("-")[0]
    assert policy is not None
    zones = [f"{NAME}-{zone}" for zone in policy.placement.zones]
    other = next(
        name
        for zone in ([home] if home in zones else reversed(zones))
        for number in range(3)
        if (name := BookieId(f"{zone}-{number}")) != bookie and name not in found.metadata.bookies
    )

    def swapped(ledger: LedgerMetadata) -> LedgerMetadata:
        fragments = tuple(
            dataclasses.replace(
                one,
                ensemble=tuple(other if name == bookie else name for name in one.ensemble),
            )
            for one in ledger.fragments
        )
        return dataclasses.replace(ledger, fragments=fragments)

    await ledgers.change(cluster, ledger_id, swapped)


async def _change(
    cluster: Cluster, bookie: BookieId, then: Callable[[BookieOrder], BookieOrder | None]
) -> None:
    def changed(state: OrderState) -> OrderChange:
        assert state.order is not None
        return OrderChange(order=then(state.order), record=state.record)

    await order_records.change(cluster, bookie, changed)


def plan_of(scaling: Json) -> Sequence[str]:
    """Give the bookies that are left to go, in order."""
    found: Sequence[str] = scaling.get("plan", [])
    return found


async def give(world: World, bookie: str, *, by: str, kind: OrderKind = OrderKind.REMOVE) -> None:
    """Let a person give an order about a bookie."""
    async with cluster_of(world) as cluster:
        word = OrderWord(at_ms=1, by=by, reason="a bad disk")
        asked = AskedOrder(kind=kind, bookie=BookieId(bookie), word=word)
        told = Chronicle(cluster, by=by, chance=random.Random(1), wall_ms=lambda: 1)
        await giving.give(cluster, asked, "77", told)


async def take_back(world: RemovingWorld, bookie: str, *, by: str) -> None:
    """Let a person take an order back."""
    async with cluster_of(world) as cluster:
        word = OrderWord(at_ms=1, by=by, reason="not now")
        await giving.take_back(cluster, BookieId(bookie), word)
