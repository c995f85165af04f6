"""The log keeper trims, goes on with what others left half-done, collects, and holds still."""

import asyncio
import random
from collections.abc import Callable
from dataclasses import replace

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill, ledgers, sequences
from tests.log.logging_lab import NAME, SHORT, WallClock, overwrite
from tests.log.sessions.test_collecting import left_behind
from zonekeeper.client.api.client import Surroundings
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.logs import deleted_logs, logs
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.replication.logs.log_keeper import LogKeeper


def keeper(log: LogClient, wall_ms: Callable[[], int], name: str = "auto-1") -> LogKeeper:
    around = Surroundings(random.Random(name), wall_ms)
    return LogKeeper(log.client, name=BookieId(name), surroundings=around)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(3_600):
        while not is_so():  # noqa: ASYNC110 in virtual time
            await asyncio.sleep(1)


@played()
async def test_a_log_that_nobody_writes_is_trimmed_by_its_rules(lab: Lab) -> None:
    async with connected(lab) as log:
        clock = WallClock()
        await log.create(NAME, replace(SHORT, keep_ms=60_000))
        await log.create("kept", SHORT)
        await fill(log, 35)
        await fill(log, 35, "kept")
        one = keeper(log, clock)
        await one.round()
        assert (one.metrics.logs, one.metrics.trims_total) == (2, 0)
        clock.ms += 60_001
        await one.round()
        assert (one.metrics.trims_total, one.metrics.ledgers_deleted_total) == (1, 3)
        assert len((await log.record(NAME)).ledgers) == 1
        assert await sequences(log, "kept") == list(range(35))
        await one.round()
        assert (one.metrics.trims_total, one.metrics.ledgers_deleted_total) == (1, 3)


@played()
async def test_half_done_trims_and_deletions_are_done_to_the_end(lab: Lab) -> None:
    async with connected(lab) as log:
        for name in (NAME, "gone"):
            await log.create(name, SHORT)
            await fill(log, 35, name)
        await log.cursor("gone", "billing")
        cluster, record, gone = log.client.cluster, await log.record(NAME), await log.record("gone")
        start = await log.reader(NAME).at_sequence(25)
        await logs.trim(cluster, NAME, record.id, start, 25)
        await logs.begin_deletion(cluster, "gone", gone.id)
        await log.client.delete(gone.ledgers[0].id)

        one = keeper(log, WallClock())
        await one.round()

        assert await ledgers(log.client) == [ledger.id for ledger in record.ledgers[2:]]
        assert [name async for name in log.names()] == []
        assert (one.metrics.deletions_total, one.metrics.ledgers_deleted_total) == (1, 2)


@played()
async def test_orphans_are_collected_and_notes_of_deletions_go_after_their_time(lab: Lab) -> None:
    async with connected(lab) as log:
        clock = WallClock()
        await log.create(NAME)
        await fill(log, 1)
        await left_behind(log, epoch=1)
        await fill(log, 1)
        await log.create("gone")
        gone = await log.record("gone")
        await log.delete("gone")
        one = keeper(log, clock)
        await one.round()
        assert (one.metrics.orphans_deleted_total, one.metrics.listings_total) == (1, 1)
        assert await deleted_logs.find(log.client.cluster, gone.id) is not None
        await left_behind(log, epoch=1, name=NAME, log_id=gone.id)
        await one.round()  # ledgers are listed only now and then
        assert (one.metrics.orphans_deleted_total, one.metrics.listings_total) == (1, 1)

        clock.ms += deleted_logs.KEPT_MS
        another = keeper(log, clock, "auto-2")
        await another.round()
        assert another.metrics.orphans_deleted_total == 1
        assert await deleted_logs.find(log.client.cluster, gone.id) is None


@played()
async def test_a_log_that_cannot_be_looked_after_holds_up_no_other(lab: Lab) -> None:
    async with connected(lab) as log:
        clock = WallClock()
        for name in (NAME, "a", "b"):
            await log.create(name, replace(SHORT, keep_ms=1))
            await fill(log, 25, name)
        cluster = log.client.cluster
        await overwrite(cluster, logs.path(cluster, "a"), b"{}")
        clock.ms += 1_000
        one = keeper(log, clock)
        await one.round()
        assert (one.metrics.logs, one.metrics.failing_logs, one.metrics.trims_total) == (3, 1, 2)
        assert one.metrics.stray_ledgers == 0, "a damaged record is no missing record"
        assert one.metrics.listings_total == 1


@played()
async def test_while_the_root_is_restored_nothing_is_trimmed_deleted_or_collected(
    lab: Lab,
) -> None:
    async with connected(lab) as log:
        clock = WallClock()
        await log.create(NAME, replace(SHORT, keep_ms=1))
        await fill(log, 25)
        await left_behind(log, epoch=1)
        await fill(log, 1)
        await log.create("gone")
        await fill(log, 1, "gone")
        cluster = log.client.cluster
        await logs.begin_deletion(cluster, "gone", (await log.record("gone")).id)
        before = await ledgers(log.client)
        mark = Restored(at_ms=1, high=1)
        path = cluster.root.beside("restored")
        await cluster.store.create(path, restored.render(mark, cluster.instance))
        clock.ms += 1_000
        one = keeper(log, clock)
        await one.round()
        assert one.metrics.held == 1
        assert await ledgers(log.client) == before
        assert await sequences(log) == list(range(26))
        await cluster.store.delete(path, version=None)
        await one.round()
        assert (one.metrics.held, one.metrics.trims_total) == (0, 1)


@played()
async def test_one_of_all_keepers_leads_and_another_goes_on(lab: Lab) -> None:
    async with connected(lab, "one") as first_log, connected(lab, "two") as second_log:
        clock = WallClock()
        await first_log.create(NAME, replace(SHORT, keep_ms=60_000))
        await fill(first_log, 35)
        first = keeper(first_log, clock, "one")
        second = keeper(second_log, clock, "two")
        async with alongside(second.run()):
            async with alongside(first.run()):
                await until(lambda: first.metrics.rounds_total + second.metrics.rounds_total > 0)
                assert first.metrics.leading + second.metrics.leading == 1
                clock.ms += 60_001
            await until(lambda: second.metrics.trims_total + first.metrics.trims_total == 1)
            assert (first.metrics.leading, second.metrics.leading) == (0, 1)
            assert first.metrics.logs == 0
            assert len((await first_log.record(NAME)).ledgers) == 1


@played()
async def test_what_nobody_can_read_ends_no_round(lab: Lab) -> None:
    """A node that no program of ours made, a damaged note, a damaged cursor."""
    async with connected(lab) as log:
        clock = WallClock()
        for name in (NAME, "a"):
            await log.create(name, replace(SHORT, keep_ms=1))
            await fill(log, 25, name)
        await log.cursor("a", "billing")
        await log.create("gone")
        await log.delete("gone")
        cluster = log.client.cluster
        await cluster.store.create(f"{logs.top(cluster)}/zz/-x/aa/b/c", b"", make_parents=True)
        async for log_id in deleted_logs.ids(cluster):
            await overwrite(cluster, deleted_logs.path(cluster, log_id), b"{}")
        await overwrite(cluster, f"{logs.path(cluster, 'a')}/cursor.billing", b"{}")
        clock.ms += 1_000
        one = keeper(log, clock)
        await one.round()
        assert (one.metrics.trims_total, one.metrics.failing_logs) == (1, 2)
        assert (one.metrics.rounds_total, one.metrics.listings_total) == (1, 1)
        assert await sequences(log, "a") == list(range(25)), "an unreadable cursor may need all"
