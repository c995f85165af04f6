"""The end of a turn, of a standby, and what comes right behind it; in virtual time."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest

from tests.client.lab import ROOT, TIMEOUTS, Lab, played
from tests.log.api.test_log_standby import plain
from tests.log.logging_lab import NAME, WallClock, check_whole, create, message
from tests.log.standby_lab import SMALL, Host, until
from zonekeeper.client.api.client import Surroundings
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.standby.standing import SESSION_MS
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

    async def _commit(
        self, writes: Sequence[Write], *, session: SessionId | None
    ) -> tuple[Written, ...]:
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
