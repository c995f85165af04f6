"""Orders about a bookie on a real small cluster, and the keepers that carry them out."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from tests.replication.repair_lab import Bench, bench
from zonekeeper.client.api.writer import Writer
from zonekeeper.metadata.bookies import cookie_store, order_claims, order_records
from zonekeeper.metadata.cluster import timeline
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import (
    BookieOrder,
    OrderKind,
    OrderPhase,
    OrderWord,
)
from zonekeeper.replication.orders import giving
from zonekeeper.replication.orders.giving import AskedOrder
from zonekeeper.replication.orders.order_keeper import OrderKeeper
from zonekeeper.replication.view.alerts import Chronicle

LEAVING = BookieId("bk-b-0")
ANNA = OrderWord(at_ms=7, by="anna", reason="a smaller zone")
BOB = OrderWord(at_ms=9, by="bob", reason="it stays")


def wall_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1_000)


def chronicle(at: Bench, by: str = "anna") -> Chronicle:
    return Chronicle(at.cluster, by=by, chance=random.Random(11), wall_ms=wall_ms)


async def give(
    at: Bench, kind: OrderKind, *, token: str = "t0", bookie: BookieId = LEAVING, check: bool = True
) -> BookieOrder:
    """Give an order as a person's command does."""
    asked = AskedOrder(kind=kind, bookie=bookie, word=ANNA)
    if check:
        await giving.check(at.cluster, at.view, random.Random(5), asked)
    return await giving.give(at.cluster, asked, token, chronicle(at))


async def take_back(at: Bench) -> BookieOrder | None:
    return await giving.take_back(at.cluster, LEAVING, BOB)


@asynccontextmanager
async def kept(at: Bench, *, only: BookieId | None = None) -> AsyncIterator[OrderKeeper]:
    """Carry out orders beside the block, in the bench's process."""
    keeper = OrderKeeper(at.repairer, wall_ms, only=only)
    async with alongside(keeper.run()):
        yield keeper


@asynccontextmanager
async def another(at: Bench, name: str) -> AsyncIterator[Bench]:
    """A further process, with a session and a view of its own."""
    async with bench(at.lab, name) as made:
        made.repairer.name = BookieId(name)
        yield made


async def standing(at: Bench) -> BookieOrder | None:
    return await order_records.read(at.cluster, LEAVING)


async def until(
    at: Bench,
    holds: Callable[[BookieOrder | None], bool],
    within_s: float = 900,
    *,
    bookie: BookieId = LEAVING,
) -> BookieOrder | None:
    """Wait until the order that stands (None: there is none) is as wanted."""
    async with asyncio.timeout(within_s), order_records.watch(at.cluster, bookie) as states:
        async for state in states:
            assert state is None or isinstance(state, BookieOrder)
            if holds(state):
                return state
    raise AssertionError("a watch ends only with an error")


async def until_phase(at: Bench, phase: OrderPhase, bookie: BookieId = LEAVING) -> BookieOrder:
    found = await until(at, lambda one: one is not None and phase_of(one) is phase, bookie=bookie)
    assert found is not None
    return found


def phase_of(order: BookieOrder | None) -> OrderPhase | None:
    return None if order is None or order.progress is None else order.progress.phase


async def until_emptied(at: Bench) -> BookieOrder:
    found = await until(at, lambda one: one is not None and one.emptied_ms is not None)
    assert found is not None
    return found


async def until_over(at: Bench) -> None:
    await until(at, lambda one: one is None)


async def on_leaving(at: Bench, count: int, *, closed: bool = True) -> list[Writer]:
    """So many ledgers that name the bookie that is to leave."""
    found: list[Writer] = []
    while len(found) < count:
        writer = await at.written(5, closed=closed)
        if LEAVING in writer.ensemble:
            found.append(writer)
    return found


async def is_left(at: Bench, writers: list[Writer]) -> None:
    """Every entry has its copies, and no ledger names the bookie."""
    for writer in writers:
        assert await at.lacks(writer.ledger_id) == []
        assert LEAVING not in (await at.ledger(writer.ledger_id)).bookies


async def has_cookie(at: Bench) -> bool:
    return await cookie_store.read(at.cluster, LEAVING) is not None


async def is_claimed(at: Bench) -> bool:
    return await order_claims.holder(at.cluster, LEAVING) is not None


async def is_read_only(at: Bench) -> bool:
    """Was the bookie told to be read-only?"""
    info = await at.lab.door(LEAVING).info()
    return info.state.value == "read-only"


async def told(at: Bench) -> list[tuple[str, str]]:
    """The events of the timeline about the bookie, the oldest first."""
    found = [
        (one.kind, one.by) for one in await timeline.newest(at.cluster) if LEAVING in one.subject
    ]
    return found[::-1]
