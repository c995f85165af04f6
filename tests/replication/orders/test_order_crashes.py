"""A removal that is cut short at any of its requests to the store ends as one that is not.

One lab serves many removals of one bookie, which is made anew under its id after each. The process
that works on the order dies at a request, or loses the request or its answer, or the order is taken
back at that moment. Another process goes on.
"""

import asyncio
import enum
from contextlib import suppress

import pytest

from tests.replication.orders.ordering import (
    LEAVING,
    another,
    give,
    has_cookie,
    is_claimed,
    is_left,
    is_read_only,
    kept,
    on_leaving,
    standing,
    take_back,
    until,
    wall_ms,
)
from tests.replication.repair_lab import Bench, played
from tests.replication.test_claims_in_outages import store_of
from zonekeeper.metadata.bookies import bookie_records, bookie_watch, order_claims
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage, RequestKind, calm
from zonekeeper.placement.zones.bookie_orders import OrderKind
from zonekeeper.replication.orders import emptying
from zonekeeper.replication.orders.order_keeper import OrderKeeper

SMALL = {"a": 2, "b": 2, "c": 2}


class Fault(enum.Enum):
    NONE = "none"
    DEATH = "death"
    REQUEST = "a lost request"
    ANSWER = "a lost answer"
    TAKEN_BACK = "taken back"


_LOSSES = {Fault.REQUEST: ExchangeLoss.REQUEST, Fault.ANSWER: ExchangeLoss.ANSWER}


class Removal:
    """One removal, with a fault at a request of the process that works on it first."""

    def __init__(self, at: Bench, fault: Fault, number: int, lag_ms: int) -> None:
        self._at = at
        self._fault = fault
        self._number = number
        self._lag_ms = lag_ms
        #: How many requests the process has made.
        self.requests = 0
        self._beside: asyncio.Task[object] | None = None

    async def play(self) -> None:
        at = self._at
        writers = await on_leaving(at, 1)
        async with another(at, "first") as first:
            first.gates.written_by(at.cluster)
            store = store_of(first)
            session = store.session.id
            assert session is not None
            work = at.tasks.create_task(OrderKeeper(first.repairer, wall_ms).run())

            async def died() -> None:
                """End the session that the client has begun after the one that was ended.

                What the process had sent may have made its claim in that session.
                """
                await asyncio.wait({work})
                if (later := store.session.id) is not None:
                    at.lab.server.expire(later)

            def weather(_: RequestKind) -> Passage:
                self.requests += 1
                if self.requests != self._number:
                    return Passage()
                if self._fault is Fault.DEATH:
                    at.lab.server.expire(session)
                    work.cancel()
                    self._beside = at.tasks.create_task(died())
                if self._fault is Fault.TAKEN_BACK:
                    self._beside = at.tasks.create_task(take_back(at))
                return Passage(loss=_LOSSES.get(self._fault, ExchangeLoss.NOTHING))

            store.weather, store.read_lag_ms = weather, self._lag_ms
            await give(at, OrderKind.REMOVE, token=f"t{self._number}")
            while not (  # noqa: ASYNC110 in virtual time
                work.done() or await is_claimed(at) or await standing(at) is None
            ):
                await asyncio.sleep(0.1)
            async with kept(at):
                await until(at, lambda one: one is None or one.emptied_ms is not None)
                if await standing(at) is not None:
                    await at.lab.machines[LEAVING].crash()
                    await until(at, lambda one: one is None or one.taken_back is not None)
                    if await has_cookie(at):
                        await at.lab.machines[LEAVING].start()
                await until(at, lambda one: one is None)
                async with asyncio.timeout(60):  # a keeper that is stopped may leave its claim
                    while await is_claimed(at):  # noqa: ASYNC110 in virtual time
                        await asyncio.sleep(0.1)
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work
            store.weather = calm
            if (left := store.session.id) is not None:
                at.lab.server.expire(left)  # the process is gone, and its session with it
            if self._beside is not None:
                await self._beside
        await self._judge()
        for writer in writers:
            assert await at.lacks(writer.ledger_id) == []
        if not await has_cookie(at):
            await is_left(at, writers)

    async def _judge(self) -> None:
        """The bookie is forgotten whole; or, taken back, it is as it was."""
        at = self._at
        assert not await is_claimed(at)
        assert await at.claimed() == []
        if not await has_cookie(at):
            registered = await bookie_watch.registrations(at.cluster)
            assert LEAVING not in registered
            assert len(await emptying.naming(at.cluster, LEAVING)) == 0
            assert await at.cluster.store.get(bookie_records.path(at.cluster, LEAVING)) is None
            machine = at.lab.machines[LEAVING]
            assert machine.door is None
            await machine.start()
        else:
            assert self._fault is Fault.TAKEN_BACK
            assert (await bookie_records.read(at.cluster, LEAVING)).draining is None
            assert not await is_read_only(at)
        if await is_read_only(at):  # its disk kept the order of the bygone bookie
            await at.lab.door(LEAVING).set_read_only(read_only=False)
        await at.until(lambda: (one := at.view.topology.get(LEAVING)) is not None and one.readable)
        await at.until(lambda: not any(one.draining for one in at.view.topology))
        assert await order_claims.holder(at.cluster, LEAVING) is None


async def played_at_each(at: Bench, fault: Fault, *, step: int, lag_ms: int, first: int = 1) -> int:
    """Play removals with a fault at every ``step``-th request; give how many were played."""
    whole = Removal(at, Fault.NONE, 0, lag_ms)
    await whole.play()
    numbers = range(first, whole.requests + 1, step)
    for number in numbers:
        await Removal(at, fault, number, lag_ms).play()
    return len(numbers)


FAULTS = [one for one in Fault if one is not Fault.NONE]

#: A lab lives for an hour of virtual time, and a removal takes fifteen seconds of it, so the whole
#: sweep takes several labs.
LABS = 8


@pytest.mark.parametrize("fault", FAULTS)
@played(bookies_in=SMALL)
async def test_a_removal_survives_a_fault_at_some_of_its_requests(
    bench: Bench, fault: Fault
) -> None:
    assert await played_at_each(bench, fault, step=23, lag_ms=0) >= 3


@pytest.mark.long
@pytest.mark.simulation
@pytest.mark.parametrize("first", range(1, LABS + 1))
@pytest.mark.parametrize("lag_ms", [0, 2_000])
@pytest.mark.parametrize("fault", FAULTS)
@played(bookies_in=SMALL)
async def test_a_removal_survives_a_fault_at_each_of_its_requests(
    bench: Bench, fault: Fault, lag_ms: int, first: int
) -> None:
    played_here = await played_at_each(bench, fault, step=LABS, lag_ms=lag_ms, first=first)
    assert played_here >= 30
