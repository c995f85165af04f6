"""The end of a turn, of a standby, and what comes right behind it; in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.client.lab import ROOT, TIMEOUTS, Lab, played
from tests.log.api.test_log_standby import plain
from tests.log.logging_lab import NAME, SHORT, WallClock, check_whole, create, message
from tests.log.standby_lab import SMALL, Host, all_acked, finish, until, writing_host
from zonekeeper.client.api.client import Surroundings
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.base.errors import NoStandbyWriter
from zonekeeper.log.standby import handing_over
from zonekeeper.log.standby.standing import SESSION_MS
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.store.store import Delete, SessionId, Write, Written
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.metadata.stores.memory_server import MemoryServer


class LateStore(MemoryStore):
    """A store whose deletions wait as long as a test wants."""

    def __init__(self, server: MemoryServer) -> None:
        super().__init__(server, root=ROOT, timeouts=replace(TIMEOUTS, session_ms=SESSION_MS))
        self.may_delete = asyncio.Event()
        self.may_delete.set()
        #: A deletion waits.
        self.holds_one = False
        #: Called before each change.
        self.before: Callable[[], Awaitable[None]] | None = None

    async def _commit(
        self, writes: Sequence[Write], *, session: SessionId | None
    ) -> tuple[Written, ...]:
        if self.before is not None:
            await self.before()
        if any(isinstance(one, Delete) for one in writes) and not self.may_delete.is_set():
            self.holds_one = True
            await self.may_delete.wait()
        return await super()._commit(writes, session=session)


@played(bookies_in=SMALL)
async def test_a_turn_that_begins_while_the_last_one_leaves_keeps_its_node(lab: Lab) -> None:
    """Else another candidate would take the log from one that seems to stand no more."""
    await create(lab)
    store = LateStore(lab.server)
    lab.stores.append(store)

    async def open_session() -> MemoryStore:
        return store

    async with lab.client("a-1") as client:
        log = LogClient(client, Surroundings(Random(1), WallClock()), open_session=open_session)
        async with log.standby("a-1", zone="a") as standby:
            async with standby.turn(NAME, ["a", "b"]) as turn:
                await turn.writer.append_and_wait(message(0))
                store.may_delete.clear()
            await until(lambda: store.holds_one)
            other = Host("b-1", "b", lab, busy=False).start()
            asyncio.get_running_loop().call_later(5, store.may_delete.set)
            async with standby.turn(NAME, ["a", "b"]) as turn:
                await until(lambda: other.stands() or other.turn is not None)
                await turn.writer.append_and_wait(message(1))
                await asyncio.sleep(10)
                assert not turn.is_over
                assert [one.name for one in await log.candidates(NAME)] == ["a-1", "b-1"]
            assert standby.counts.lost == 0
    await other.leave()
    await check_whole(lab, 2)


async def raising(log: LogClient) -> None:
    async with log.standby("a-1", zone="a") as standby, standby.turn(NAME, ["a"]):
        raise ZeroDivisionError


@played(bookies_in=SMALL)
async def test_a_standby_whose_block_raises_takes_its_nodes_away(lab: Lab) -> None:
    """Its session may be that of the client, which lives on: the next candidate need not wait."""
    await create(lab)
    async with plain(lab) as log:
        with pytest.raises(ZeroDivisionError):
            await raising(log)
        assert await log.candidates(NAME) == []
        async with (
            asyncio.timeout(5),
            log.standby("a-1", zone="a") as standby,
            standby.turn(NAME, ["a"]) as turn,
        ):
            await turn.writer.append_and_wait(message(0))
    await check_whole(lab, 1)


@played(bookies_in=SMALL)
async def test_a_handover_whose_candidates_leave_before_it_is_asked_for_is_refused(
    lab: Lab,
) -> None:
    await create(lab)
    first, second = await writing_host(lab, "a-1", "a"), Host("b-1", "b", lab).start()
    await until(second.stands)
    store = LateStore(lab.server)
    lab.stores.append(store)
    cluster = await clusters.open_cluster(store)

    async def all_leave() -> None:
        store.before = None
        await second.leave()
        await first.leave()

    store.before = all_leave
    with pytest.raises(NoStandbyWriter) as caught:
        await handing_over.hand_over(cluster, NAME, "b-1", "1" * 32, 30)
    assert caught.value.retryable
    assert not caught.value.maybe_applied
    await finish(lab, first, second)


@played(bookies_in=SMALL)
@pytest.mark.parametrize("phase", ["standing", "opening", "handover", "leaving"])
async def test_the_store_is_away_for_a_minute_in_each_phase(lab: Lab, phase: str) -> None:
    """Nobody is stuck afterwards: there is one writer, and nothing that was acknowledged lacks."""
    await create(lab, SHORT)
    first = Host("a-1", "a", lab).start()
    if phase == "standing":
        await until(lambda: first.standby is not None)
    else:
        await until(first.stands if phase == "opening" else lambda: len(first.acked) > 3)
    second = Host("b-1", "b", lab)
    if phase in ("handover", "leaving"):
        second.start()
        await until(second.stands)
    tasks = list[asyncio.Future[object]]()
    async with plain(lab) as log:
        if phase == "handover":
            tasks.append(asyncio.ensure_future(log.handover(NAME, "b-1", timeout_s=20)))
            await until(lambda: first.turn is None or first.turn.writer.is_over)
        elif phase == "leaving":
            tasks.append(asyncio.ensure_future(first.leave()))
            await until(lambda: first.turn is None or first.turn.writer.is_over)
        for store in lab.stores:
            store.cut()
        await asyncio.sleep(60)
        for store in lab.stores:
            store.mend()
        before = len(all_acked(first, second))
        await until(lambda: len(all_acked(first, second)) > before + 10)
        await asyncio.gather(*tasks, return_exceptions=True)
    await finish(lab, first, *([second] if phase in ("handover", "leaving") else []))
