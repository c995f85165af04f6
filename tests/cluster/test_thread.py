"""The thread, end to end: one resource becomes one readable log, and a zone is lost on the way."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.cluster.installation import Clusters
from zonekeeper.client.api.client import Client
from zonekeeper.placement.base.ids import EntryId, LedgerId

pytestmark = [pytest.mark.cluster, pytest.mark.needs_lab]

ENTRIES = 10_000
#: The zone is stopped once so many are written; these are written while it goes.
BEFORE_THE_STOP = 2_000
#: The last ones are written when it is gone.
BEHIND_THE_STOP = 1_000
CHANGE_LIMIT_S = 300


def payload(number: int) -> bytes:
    """Give bytes that say which entry they are, so that a wrong one is seen."""
    return f"{number} ".encode() + hashlib.sha256(str(number).encode()).digest() * 8


@dataclass(frozen=True)
class Written:
    """A ledger, how many entries are in it, and how many ensembles its writer had."""

    ledger_id: LedgerId
    entries: int
    ensembles: int


async def write_through_a_stop(clusters: Clusters, stop: Callable[[], None]) -> Written:
    """Append while a zone is stopped, until that has changed the ensemble."""
    async with clusters.client() as client:
        async with await client.create() as writer:
            seen = {writer.ensemble}
            stopping: asyncio.Future[None] | None = None
            for number in range(ENTRIES):
                if number == BEFORE_THE_STOP:
                    stopping = asyncio.ensure_future(asyncio.to_thread(stop))
                if number == ENTRIES - BEHIND_THE_STOP:
                    assert stopping is not None
                    await stopping
                entry_id = await writer.append(payload(number))
                assert entry_id == number
                if number % 100 == 0:
                    await writer.flushed(EntryId(number))
                    seen.add(writer.ensemble)
            await writer.flush()
            assert writer.last_confirmed == ENTRIES - 1
            # Two of three zones acknowledge at once. That the third is gone shows a little later,
            # and the writer acts upon it when there is something to write.
            async with asyncio.timeout(CHANGE_LIMIT_S):
                while len(seen) == 1:
                    number = writer.last_confirmed + 1
                    await writer.append_and_wait(payload(number))
                    seen.add(writer.ensemble)
                    await asyncio.sleep(0.05)
        return Written(writer.ledger_id, writer.last_confirmed + 1, len(seen))


async def read_back(client: Client, ledger_id: LedgerId) -> int:
    """Compare every entry of a closed ledger with what was written; gives their count."""
    count = 0
    reader = await client.open(ledger_id)
    async for entry in reader.read_entries():
        assert entry.entry_id == count
        assert bytes(entry.payload) == payload(count)
        count += 1
    return count


async def verify(clusters: Clusters, ledger_id: LedgerId) -> int:
    async with clusters.client() as client:
        return await read_back(client, ledger_id)


def test_every_acknowledged_entry_is_read_back_though_a_zone_was_stopped(
    new_clusters: Callable[[], Clusters],
) -> None:
    clusters = new_clusters()
    clusters.apply("log")
    clusters.wait_for_ready("log")

    try:
        writing = write_through_a_stop(clusters, lambda: clusters.lab.stop_zone("b"))
        written = asyncio.run(writing)

        assert written.ensembles > 1, "the writer changed its ensemble"
        clusters.wait_for_counts("log", {"a": 3, "b": 0, "c": 3})
        why = clusters.condition("log", "Ready")["reason"]
        assert why in ("BookiesNotReady", "ZoneDown"), "the zone watch may know by now"
        assert asyncio.run(verify(clusters, written.ledger_id)) == written.entries >= ENTRIES
    finally:
        clusters.lab.start_zone("b")
    clusters.wait_for_ready("log")
    clusters.wait_for_counts("log", {"a": 3, "b": 3, "c": 3})
    assert asyncio.run(verify(clusters, written.ledger_id)) == written.entries >= ENTRIES
    clusters.delete("log")
