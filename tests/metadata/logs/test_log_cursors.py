"""Cursors in a store: each change once, whatever gets lost, and none of a log that is going."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import pytest

from tests.metadata import weather
from tests.metadata.conftest import INSTANCE
from tests.metadata.logs.records_of_logs import CLAIM, FIRST, LOG_ID, NAME, NEW
from tests.support.stores import MemoryPlace
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import log_record_format
from zonekeeper.metadata.formats.log_record import LogDeleting, OtherIncarnation
from zonekeeper.metadata.formats.malformed import MalformedError
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_cursors, logs
from zonekeeper.metadata.logs.log_cursor import (
    CursorClaim,
    CursorMark,
    CursorPosition,
    CursorTaken,
)
from zonekeeper.metadata.logs.log_cursors import NoCursorError
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.metadata.store.errors import NotEmptyError
from zonekeeper.metadata.store.store import Put
from zonekeeper.metadata.stores.memory import ExchangeLoss, MemoryStore, calm
from zonekeeper.placement.base.ids import EntryId, LedgerId

WANTED: Final = CursorMark(
    log_id=LOG_ID,
    created_ms=5,
    epoch=1,
    token="one",
    position=CursorPosition(sequence=0),
    moved_ms=5,
)
MINE: Final = CursorClaim(log_id=LOG_ID, epoch=1, token="one")
THERE: Final = CursorPosition(sequence=7, at=MessageId(LedgerId(1), EntryId(2), 3))
BACK: Final = CursorPosition(sequence=2)


async def opened(cluster: Cluster) -> CursorMark:
    await logs.create(cluster, NAME, NEW)
    return await log_cursors.open_cursor(cluster, NAME, "billing", WANTED)


async def test_a_cursor_is_opened_moved_sought_listed_and_deleted(
    cluster: Cluster, other: Cluster
) -> None:
    assert await opened(cluster) == WANTED
    moved = await log_cursors.move(cluster, NAME, "billing", MINE, THERE, 6)
    assert moved == await log_cursors.find(other, NAME, "billing")
    assert (moved.position, moved.moved_ms) == (THERE, 6)
    assert (await log_cursors.seek(cluster, NAME, "billing", MINE, BACK, 7)).position == BACK
    await log_cursors.open_cursor(other, NAME, "audit", replace(WANTED, token="two"))
    assert await log_cursors.names(other, NAME) == ["audit", "billing"]
    assert sorted(await log_cursors.every(other, NAME, LOG_ID)) == ["audit", "billing"]
    assert await log_cursors.every(other, NAME, "ab" * 16) == {}
    await log_cursors.delete(other, NAME, "billing")
    with pytest.raises(NoCursorError):
        await log_cursors.move(cluster, NAME, "billing", MINE, THERE, 8)
    assert await log_cursors.names(other, NAME) == ["audit"]


async def test_two_consumers_cannot_both_move_a_cursor(cluster: Cluster, other: Cluster) -> None:
    await opened(cluster)
    theirs = await log_cursors.open_cursor(other, NAME, "billing", replace(WANTED, token="two"))
    assert theirs.epoch == 2
    with pytest.raises(CursorTaken):
        await log_cursors.move(cluster, NAME, "billing", MINE, THERE, 6)
    with pytest.raises(CursorTaken):
        await log_cursors.seek(cluster, NAME, "billing", MINE, BACK, 6)
    assert await log_cursors.find(cluster, NAME, "billing") == theirs


async def test_cursors_of_many_consumers_and_a_writer_do_not_hinder_each_other(
    cluster: Cluster, other: Cluster
) -> None:
    await opened(cluster)
    names = [f"c{number}" for number in range(20)]
    await asyncio.gather(
        *(log_cursors.open_cursor(other, NAME, one, replace(WANTED, token=one)) for one in names),
        logs.claim(cluster, NAME, NEW, FIRST),
    )
    await logs.add(cluster, NAME, CLAIM, LedgerId(1))
    assert await log_cursors.names(cluster, NAME) == sorted([*names, "billing"])
    assert (await logs.find(cluster, NAME)).ledgers[0].id == 1


async def test_no_cursor_is_made_without_a_log_or_of_another_incarnation_or_while_it_goes(
    cluster: Cluster,
) -> None:
    with pytest.raises(NoLogError, match="no cursor was made"):
        await log_cursors.open_cursor(cluster, NAME, "billing", WANTED)
    await opened(cluster)
    with pytest.raises(OtherIncarnation):
        await log_cursors.open_cursor(cluster, NAME, "new", replace(WANTED, log_id="ab" * 16))
    await logs.begin_deletion(cluster, NAME, LOG_ID)
    for name in ("billing", "new"):
        with pytest.raises(LogDeleting):
            await log_cursors.open_cursor(cluster, NAME, name, replace(WANTED, token="two"))
    with pytest.raises(NotEmptyError):
        await logs.remove(cluster, NAME, LOG_ID, now_ms=1)
    await log_cursors.delete_all(cluster, NAME)
    await logs.remove(cluster, NAME, LOG_ID, now_ms=1)


async def test_a_cursor_that_races_with_the_mark_of_a_deletion_is_not_made(
    memory: MemoryPlace,
) -> None:
    """The log is marked between the look and the write: the transaction's check refuses it."""
    cluster = await clusters.initialise(await memory.open(), INSTANCE)
    await logs.create(cluster, NAME, NEW)
    marked = log_record_format.render(replace(NEW, deleting=True), cluster.instance)
    put = Put(path=logs.path(cluster, NAME), value=marked, version=0)
    session = cluster.store.session.id
    assert session is not None
    weather.before_write(cluster.store, lambda: memory.server.apply([put], session))

    with pytest.raises(LogDeleting, match="no cursor was made"):
        await log_cursors.open_cursor(cluster, NAME, "billing", WANTED)

    assert await log_cursors.names(cluster, NAME) == []


async def test_a_damaged_cursor_is_named_and_is_none_of_the_others(cluster: Cluster) -> None:
    await opened(cluster)
    where = f"{logs.path(cluster, NAME)}/cursor.billing"
    await cluster.store.put(where, b"{}", version=0)
    with pytest.raises(MalformedError, match=r"cursor\.billing in "):
        await log_cursors.find(cluster, NAME, "billing")
    with pytest.raises(MalformedError):
        await log_cursors.every(cluster, NAME, LOG_ID)
    await log_cursors.delete(cluster, NAME, "billing")
    assert await log_cursors.every(cluster, NAME, LOG_ID) == {}


Step = Callable[[Cluster], Awaitable[object]]
STEPS: dict[str, Step] = {
    "open": lambda cluster: log_cursors.open_cursor(cluster, NAME, "billing", WANTED),
    "move": lambda cluster: log_cursors.move(cluster, NAME, "billing", MINE, THERE, 6),
    "seek": lambda cluster: log_cursors.seek(cluster, NAME, "billing", MINE, BACK, 7),
    "take over": lambda cluster: log_cursors.open_cursor(
        cluster, NAME, "billing", replace(WANTED, token="two", moved_ms=8)
    ),
    "delete": lambda cluster: log_cursors.delete(cluster, NAME, "billing"),
}


async def history(cluster: Cluster, lossy: str, loss: ExchangeLoss) -> list[bytes]:
    """Do all steps, losing the write of one of them; give the cursor after each."""
    states = []
    assert isinstance(cluster.store, MemoryStore)
    await logs.create(cluster, NAME, NEW)
    for name, step in STEPS.items():
        if name == lossy:
            weather.lose(cluster.store, 0, loss)
        await step(cluster)
        cluster.store.weather = calm
        node = await cluster.store.get(f"{logs.path(cluster, NAME)}/cursor.billing", sync=True)
        states.append(b"" if node is None else node.value)
    return states


@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
@pytest.mark.parametrize("lossy", STEPS)
async def test_a_change_knows_its_work_again_after_a_loss(lossy: str, loss: ExchangeLoss) -> None:
    async def played(step: str) -> list[bytes]:
        place = MemoryPlace()
        try:
            cluster = await clusters.initialise(await place.open(), INSTANCE)
            return await history(cluster, step, loss)
        finally:
            await place.close()

    undisturbed = await played("")
    assert await played(lossy) == undisturbed
    assert undisturbed[-1] == b""
