"""A log is handed over on purpose: nothing is lost, the pause is known, and refusals say why."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from random import Random

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import NAME, SHORT, WallClock, create
from tests.log.standby_lab import (
    SMALL,
    Host,
    finish,
    lose_first_answers,
    until,
    writes,
    writing_host,
)
from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.errors import MetadataFailed
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.base.errors import (
    HandoverFailed,
    NoCandidateError,
    NoStandbyWriter,
    WritesAlready,
)
from zonekeeper.log.standby.handing_over import HandedOver
from zonekeeper.metadata.logs import log_candidates
from zonekeeper.metadata.logs.log_candidates import HandoverUnderWay
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.placement.base.troubles import Trouble


@asynccontextmanager
async def asking(lab: Lab, name: str = "person") -> AsyncIterator[LogClient]:
    """Give a client of a person."""
    async with lab.client(name) as client:
        yield LogClient(client, Surroundings(Random(name), WallClock()))


async def pair(lab: Lab) -> tuple[Host, Host]:
    """Start a writer in zone a, and a candidate in zone b."""
    await create(lab, SHORT)
    first, second = await writing_host(lab, "a-1", "a"), Host("b-1", "b", lab).start()
    await until(second.stands)
    return first, second


@played(bookies_in=SMALL)
async def test_a_log_is_handed_over_and_nothing_is_lost(lab: Lab) -> None:
    first, second = await pair(lab)
    async with asking(lab) as log:
        done = await log.handover(NAME, "b-1")
    await until(lambda: len(second.acked) > 0)
    assert (done.giver, done.taker) == ("a-1", "b-1")
    assert done.pause_ms is not None
    assert 0 <= done.pause_ms < 1_000
    assert first.acked == list(range(first.acked[-1] + 1))
    assert second.acked[0] == first.acked[-1] + 1, "all that the first one appended is stored"
    assert first.standby is not None
    assert (first.standby.counts.given, first.standby.counts.lost) == (1, 0)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_log_that_was_handed_over_stays_until_an_earlier_zone_comes_anew(lab: Lab) -> None:
    first, second = await pair(lab)
    async with asking(lab) as log:
        await log.handover(NAME, "b-1")
    await until(lambda: len(second.acked) > 35)
    assert (first.turns, second.turns) == (1, 1)
    assert first.stands(), "the one that was passed over is a candidate"
    third = Host("a-2", "a", lab).start()
    await until(lambda: first.turns + third.turns == 2)
    assert second.standby is not None
    assert second.standby.counts.lost == 0
    await finish(lab, first, second, third)


@played(bookies_in=SMALL)
async def test_a_handover_to_and_fro(lab: Lab) -> None:
    first, second = await pair(lab)
    async with asking(lab) as log:
        for number in range(6):
            await log.handover(NAME, "a-1" if number % 2 else "b-1")
    assert (first.turns, second.turns) == (4, 3)
    assert await log_candidates.look(await lab.cluster(), NAME, "0f" * 16) is not None
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_taker_that_sees_the_wish_behind_its_opening_tells_of_it(lab: Lab) -> None:
    """It is the first in order, and sees the closed record before: it opens the log anyway."""
    first, second = await pair(lab)
    async with asking(lab) as log:
        await log.handover(NAME, "b-1")
        assert first.store is not None
        first.store.read_lag_ms = 2_000
        done = await log.handover(NAME, "a-1")
        assert done.pause_ms is not None
    assert (first.turns, second.turns) == (2, 1)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_what_cannot_be_handed_over_is_refused_in_words(lab: Lab) -> None:
    await create(lab, SHORT)
    async with asking(lab) as log:
        refused = [await refusal(log, "b-1")]
        second = await writing_host(lab, "b-1", "b")
        third = Host("c-1", "c", lab, zones=("c",)).start()
        await until(third.stands)
        refused += [await refusal(log, one) for one in ("a-9", "c-1", "b-1")]
        assert [type(one) for one in refused] == [
            NoCandidateError,
            NoCandidateError,
            NoCandidateError,
            WritesAlready,
        ]
        assert "its candidates are: none" in str(refused[0])
        assert "b-1 (zone b), c-1 (zone c)" in str(refused[1])
        assert "zone c, which is not in the list of zones that counts (a, b)" in str(refused[2])
        assert not any(one.maybe_applied for one in refused)
        assert [one.retryable for one in refused] == [True, True, True, False]
        assert writes(second)
        assert second.turns == 1
    await finish(lab, second, third)


async def refusal(log: LogClient, to: str) -> Trouble:
    with pytest.raises(Trouble) as caught:
        await log.handover(NAME, to)
    return caught.value


@played(bookies_in=SMALL)
async def test_a_log_whose_writer_is_no_candidate_is_not_handed_over(lab: Lab) -> None:
    first, second = await pair(lab)
    assert second.logs is not None
    store = second.logs.client.cluster.store
    assert isinstance(store, MemoryStore)
    store.cut()  # it stands, and can open nothing
    await first.kill()
    await asyncio.sleep(7)  # its session has ended, and no answer came yet to the other one
    async with asking(lab) as log:
        refused = await refusal(log, "b-1")
        assert isinstance(refused, NoStandbyWriter)
        assert refused.retryable
        assert not refused.maybe_applied
        store.mend()
        await until(lambda: len(second.acked) > 0)
        assert isinstance(await refusal(log, "b-1"), WritesAlready)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_two_handovers_at_once(lab: Lab) -> None:
    first, second = await pair(lab)
    async with asking(lab) as log:
        done = await asyncio.gather(
            log.handover(NAME, "b-1"), log.handover(NAME, "b-1"), return_exceptions=True
        )
    assert sum(isinstance(one, HandedOver) for one in done) == 1
    [other] = [one for one in done if not isinstance(one, HandedOver)]
    assert isinstance(other, HandoverUnderWay)
    assert other.retryable
    assert not other.maybe_applied
    await until(lambda: len(second.acked) > 0)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_the_candidate_that_is_to_write_dies_midway(lab: Lab) -> None:
    """Its session is silent when the writer has closed the log: the first in order opens it."""
    first, second = await pair(lab)
    assert second.store is not None
    assert second.logs is not None
    second.store.cut()
    async with asking(lab) as log:
        with pytest.raises(HandoverFailed, match="candidate b-1 of log orders/eu-1 went away"):
            await log.handover(NAME, "b-1")
    await until(lambda: first.turns == 2)
    count = len(first.acked)
    await until(lambda: len(first.acked) > count + 3)
    assert second.turns == 0
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_the_writer_dies_midway(lab: Lab) -> None:
    """It is cut off when the handover is asked for; the taker gets the log at its session's end."""
    first, second = await pair(lab)
    assert first.store is not None
    first.store.cut()
    async with asking(lab) as log:
        done = await log.handover(NAME, "b-1")
    assert done.pause_ms is None
    await until(lambda: len(second.acked) > 0)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_handover_that_takes_too_long_is_taken_back(lab: Lab) -> None:
    first, second = await pair(lab)
    assert first.store is not None
    first.store.cut()
    async with asking(lab) as log:
        with pytest.raises(HandoverFailed, match="within 2 s") as caught:
            await log.handover(NAME, "b-1", timeout_s=2)
        assert caught.value.maybe_applied
        assert caught.value.retryable
    first.store.mend()
    await asyncio.sleep(10)
    assert (first.turns, second.turns) == (1, 0)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_a_wish_does_not_outlive_its_time_if_the_store_is_away_then(lab: Lab) -> None:
    """The session of the program lives on, and so would the node."""
    first, second = await pair(lab)
    assert first.store is not None
    first.store.cut()
    async with asking(lab) as log:
        store = log.client.cluster.store
        assert isinstance(store, MemoryStore)
        asked = asyncio.ensure_future(log.handover(NAME, "b-1", timeout_s=2))
        await asyncio.sleep(1)
        store.cut()
        await asyncio.sleep(8)
        store.mend()
        with pytest.raises(HandoverFailed, match="within 2 s"):
            await asked
        look = await log_candidates.look(await lab.cluster(), NAME, "0f" * 16)
        assert look.handover is None
        store.cut()
        with pytest.raises(MetadataFailed, match="handing over log orders/eu-1: "):
            await log.handover(NAME, "b-1")
        with pytest.raises(MetadataFailed, match="reading the candidates of log orders/eu-1: "):
            await log.candidates(NAME)
    first.store.mend()
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_the_program_that_asks_dies_midway(lab: Lab) -> None:
    first, second = await pair(lab)
    assert first.store is not None
    first.store.cut()
    async with asking(lab) as log:
        asked = asyncio.ensure_future(log.handover(NAME, "b-1"))
        await asyncio.sleep(1)
        store = log.client.cluster.store
        assert isinstance(store, MemoryStore)
        assert store.session.id is not None
        lab.server.expire(store.session.id)
        with pytest.raises(HandoverFailed, match="went with the session that asked"):
            await asked
    first.store.mend()
    await asyncio.sleep(10)
    assert (first.turns, second.turns) == (1, 0)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_the_store_loses_answers_during_a_handover(lab: Lab) -> None:
    first, second = await pair(lab)
    async with asking(lab) as log:
        store = log.client.cluster.store
        assert isinstance(store, MemoryStore)
        lose_first_answers(store, 1)
        assert second.store is not None
        lose_first_answers(second.store, 1)
        await log.handover(NAME, "b-1")
    await until(lambda: len(second.acked) > 0)
    await finish(lab, first, second)


@played(bookies_in=SMALL)
async def test_producers_follow_the_writer_by_its_address(lab: Lab) -> None:
    first, second = await pair(lab)
    found = list[str]()
    async with asking(lab) as log, aclosing(log.watch_writer(NAME)) as marks:
        async for mark in marks:
            assert mark is not None
            found.append(mark.address)
            if len(found) == 1:
                await log.handover(NAME, "b-1")
            else:
                break
        assert found == ["a-1:70", "b-1:70"]
        seen = await log.candidates(NAME)
        assert [(one.name, one.zone, one.address, one.writes) for one in seen] == [
            ("a-1", "a", "a-1:70", False),
            ("b-1", "b", "b-1:70", True),
        ]
    await finish(lab, first, second)
