"""A turn is lost once another writer has claimed the log, also if its own writer hears it first."""

import asyncio

from tests.client.lab import Lab, played
from tests.log.api.test_log_standby import plain
from tests.log.logging_lab import NAME, check_whole, create, message
from tests.log.standby_lab import SMALL, finish, until, writing_host
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.metadata.stores.memory import MemoryStore, Passage, RequestKind


@played(bookies_in=SMALL)
async def test_a_turn_that_is_lost_ends_at_once_without_the_store(lab: Lab) -> None:
    """It hears of the claim, and needs no answer after that: there is nothing to close."""
    await create(lab)
    async with (
        plain(lab) as log,
        plain(lab, "other") as other,
        log.standby("a-1", zone="a") as standby,
    ):
        async with standby.turn(NAME, ["a"]) as turn:
            await turn.writer.append_and_wait(message(0))
            claims = asyncio.ensure_future(take(other))
            await turn.over()
            store = log.client.cluster.store
            assert isinstance(store, MemoryStore)
            store.cut()
            left_s = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - left_s < 1
        assert standby.counts.lost == 1
        store.mend()
        await claims
    await check_whole(lab, 1)


@played(bookies_in=SMALL)
async def test_a_turn_is_lost_too_if_its_writer_hears_of_the_claim_first(lab: Lab) -> None:
    """A bookie may tell it before the record does, as after a long stop of its process."""
    await create(lab)
    first = await writing_host(lab, "a-1", "a")
    turn, logs = first.turn, first.logs
    assert turn is not None
    assert logs is not None
    store, reads = logs.client.cluster.store, 0

    def weather(kind: RequestKind) -> Passage:
        nonlocal reads
        reads += kind is RequestKind.READ
        return Passage(back_ms=5_000 if reads == 1 else 0)  # the first one is of who follows

    assert isinstance(store, MemoryStore)
    store.weather = weather
    async with plain(lab, "other") as other:
        await take(other)
        await until(lambda: turn.is_over)
        assert turn.is_lost
    await finish(lab, first)


async def take(log: LogClient) -> None:
    async with log.writer(NAME):
        pass
