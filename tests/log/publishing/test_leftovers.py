"""What a query leaves behind is collected on proof; what could still be published is not."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from tests.client.lab import Lab, played
from tests.log.logging_lab import NAME, create, message, record_of, writing
from tests.log.publishing.query_lab import batch, committed, large, payloads, querying, written
from tests.simulation.patching import patched
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.log.keeping.orphans import LogLedgerFate
from zonekeeper.log.publishing import attempt_writing, publishing
from zonekeeper.log.publishing.partitions import AttemptEnd, BatchPart
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.log.sessions.chain import LedgerChain
from zonekeeper.log.sessions.collecting import OrphanCollector
from zonekeeper.metadata.formats.log_record import LogLedgerEnd, LogTaken
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.placement.base.ids import LedgerId


async def collected(logs: QueryLogs) -> tuple[OrphanCollector, list[LedgerId]]:
    collector, deleted = OrphanCollector(logs.client), []
    for one in [one async for one in ledger_listing.all_of(logs.client.cluster)]:
        assert isinstance(one, StoredLedger)
        if await collector.look(one):
            deleted.append(one.id)
    return collector, deleted


def ledger_of(part: BatchPart) -> LedgerId:
    assert isinstance(part, AttemptEnd)
    return part.ledger


@played()
async def test_attempts_that_lost_go_once_their_batch_is_published_and_not_before(
    lab: Lab,
) -> None:
    await create(lab)
    async with querying(lab) as logs:
        lost = await written(logs, batch(0), 0, map(large, range(2)))
        won = await written(logs, batch(0), 0, map(large, range(2)))
        died = logs.attempt(batch(0), 1)
        await died.append_many(list(map(large, range(5))))
        collector, deleted = await collected(logs)
        assert deleted == []
        assert collector.found[LogLedgerFate.PENDING] == 3

        await logs.publish([won])
        ahead = await written(logs, batch(1), 0, map(large, range(2, 4)))
        collector, deleted = await collected(logs)
        assert deleted == sorted([ledger_of(lost), ledger_of(lost) + 2])
        assert collector.found[LogLedgerFate.PENDING] == 1
        await logs.publish([ahead])
        assert (await collected(logs))[1] == []
        assert await payloads(logs.client) == [b"0/", b"1/", b"2/", b"3/"]


@played()
async def test_attempts_of_a_stream_that_was_aborted_wait_for_the_next_run(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        part = await written(logs, batch(0), 0, map(large, range(2)))
        assert (await collected(logs))[1] == []
        again = await written(logs, batch(0, "r2"), 0, map(large, range(2)))
        assert (await collected(logs))[1] == [ledger_of(part)], "the epoch of its run is over"
        await logs.publish([again])
        assert await payloads(logs.client) == [b"0/", b"1/"]


@played()
async def test_attempts_of_a_job_that_was_aborted_go_though_its_epoch_lasts(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        job = batch(0, "j", "j", is_job=True)
        part = await written(logs, job, 0, map(large, range(2)))
        assert (await collected(logs))[1] == []
        await logs.end_job(NAME, "j")
        assert (await collected(logs))[1] == [ledger_of(part)]


@played()
async def test_a_publisher_whose_attempt_was_collected_hears_that_it_lost_the_log(
    lab: Lab,
) -> None:
    """The log is taken between its look at the record and its look at the attempt."""
    await create(lab)
    async with querying(lab) as logs:
        part = await written(logs, batch(0), 0, map(large, range(2)))
        original = publishing._check_attempt

        async def check(client: Client, one: AttemptEnd) -> None:
            await committed(logs, batch(0, query="other"), 5)
            assert (await collected(logs))[1] == [one.ledger]
            await original(client, one)

        with patched([(publishing, "_check_attempt", check)]), pytest.raises(LogTaken):
            await logs.publish([part])
        assert await payloads(logs.client) == [b"message 5"]


@played()
async def test_a_publisher_whose_manifest_ledger_was_collected_hears_that_it_lost_the_log(
    lab: Lab,
) -> None:
    """The log is taken while the publisher writes its manifest ledger."""
    await create(lab)
    async with querying(lab) as logs:
        part = await written(logs, batch(0), 0, [message(0)])
        original = Writer.close

        async def close(self: Writer, timeout: float | None = None) -> None:  # noqa: ASYNC109 as in the product
            with patched([(Writer, "close", original)]):
                await committed(logs, batch(0, query="other"), 5)
                assert (await collected(logs))[1] == [self.ledger_id]
            await original(self, timeout)

        with patched([(Writer, "close", close)]), pytest.raises(LogTaken):
            await logs.publish([part])
        assert await payloads(logs.client) == [b"message 5"]


@played()
async def test_an_attempt_whose_ledger_was_collected_hears_that_its_run_lost_the_log(
    lab: Lab,
) -> None:
    await create(lab)
    async with querying(lab) as logs:
        attempt = logs.attempt(batch(0), 0)
        await attempt.append_many(list(map(large, range(5))))
        await committed(logs, batch(0, query="other"), 5)
        assert len((await collected(logs))[1]) == 1
        with pytest.raises(LogTaken):
            await attempt.finish()


@played()
async def test_of_two_publishers_at_once_one_counts_and_the_manifest_of_the_other_goes(
    lab: Lab,
) -> None:
    await create(lab)
    async with querying(lab) as one, querying(lab, "other") as other:
        parts = [
            await written(one, batch(0), 0, [message(1)]),
            await written(one, batch(0), 1, map(large, range(2))),
        ]
        before = [ledger async for ledger in one.client.ledgers()]
        done = await asyncio.gather(one.publish(parts), other.publish(parts))
        assert sorted(each.was_known for each in done) == [False, True]
        assert await payloads(one.client) == [b"0/", b"1/", b"message 1"]
        made = {ledger async for ledger in one.client.ledgers()}.difference(before)
        part = {ledger.id for ledger in (await record_of(lab)).ledgers}
        assert len(made) == 2
        assert (await collected(one))[1] == sorted(made - part)
        await committed(one, batch(1), 2)
        assert await payloads(one.client) == [b"0/", b"1/", b"message 1", b"message 2"]


@played()
async def test_of_two_publishers_at_once_the_other_may_have_put_a_settled_ledger_into_a_page(
    lab: Lab,
) -> None:
    """One has recovered what a writer left open, and the other notes that, and all the batch."""
    await create(lab)
    async with querying(lab) as one, querying(lab, "other") as other:
        async with AsyncExitStack() as stack:
            stack.enter_context(pytest.raises(LogTaken))
            writer = await stack.enter_async_context(writing(one.client, "application"))
            await writer.append_and_wait(message(0), stored=True)
            with patched([(attempt_writing, "SMALL_BYTES_MAX", 0)]):
                parts = [await written(one, batch(0), at, [message(1 + at)]) for at in range(66)]
        original = LedgerChain.end

        async def end(self: LedgerChain, ledger_id: LedgerId, how: LogLedgerEnd) -> None:
            with patched([(LedgerChain, "end", original)]):
                assert (await other.publish(parts)).messages == 66
            await original(self, ledger_id, how)

        with patched([(LedgerChain, "end", end)]):
            assert (await one.publish(parts)).was_known
        record = await record_of(lab)
        assert (record.next_page, record.unended) == (1, ())
        assert await payloads(one.client) == [b"message %d" % number for number in range(67)]
