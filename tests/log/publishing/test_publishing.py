"""A batch of a query comes into the log once and in one step, whatever happens on the way."""

import asyncio
import pickle
from dataclasses import replace

import pytest

from tests.client.lab import Lab, played, policy
from tests.log.logging_lab import (
    NAME,
    SHORT,
    create,
    message,
    numbers,
    overwrite,
    reader_of,
    record_of,
    writing,
)
from tests.log.publishing.query_lab import (
    batch,
    committed,
    large,
    payloads,
    querying,
    written,
)
from tests.simulation.patching import patched
from zonekeeper.client.api.writer import Writer
from zonekeeper.log.base.errors import BadBatch, LogDamaged, NotInLog
from zonekeeper.log.publishing.attempt_writing import IN_FLIGHT_MAX
from zonekeeper.log.publishing.partitions import (
    SMALL_BYTES_MAX,
    AttemptEnd,
    BatchPart,
    IdlePartition,
    SmallPartition,
)
from zonekeeper.log.sessions import locating
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats import log_record_format
from zonekeeper.metadata.formats.log_record import LedgerTooLow, LogRules, LogTaken
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_queries, log_stamp
from zonekeeper.metadata.logs import logs as stored_logs
from zonekeeper.metadata.logs.log_queries import BadQueryIdError, QueryOver
from zonekeeper.metadata.logs.logs import RestoredRootError
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums


@played()
async def test_large_partitions_come_in_as_ledgers_and_small_ones_in_that_of_the_manifest(
    lab: Lab,
) -> None:
    await create(lab)
    async with querying(lab) as logs:
        parts = [
            await written(logs, batch(0), 3, [message(8), message(9)]),
            await written(logs, batch(0), 1, map(large, range(3))),
            await written(logs, batch(0), 2, map(large, range(3, 5))),
            await written(logs, batch(0), 0, [message(7)]),
            await written(logs, batch(0), 4, []),
        ]
        assert [type(one) for one in parts] == [
            SmallPartition,
            AttemptEnd,
            AttemptEnd,
            SmallPartition,
            IdlePartition,
        ]
        assert await payloads(logs.client) == []
        parts = pickle.loads(pickle.dumps(parts))
        done = await logs.publish(parts)
        assert (done.messages, done.sequence, done.ledgers, done.was_known) == (8, 0, 3, False)
        assert await payloads(logs.client) == [
            *(b"%d/" % number for number in range(5)),
            *(b"message %d" % number for number in (7, 8, 9)),
        ]
        record = await record_of(lab)
        assert not record.unended
        assert [one.epoch for one in record.ledgers] == [1, 1, 1]
        known = log_queries.of(record, "q")
        assert known is not None
        assert (known.published, known.run, known.is_over) == (0, "r1", False)
        for one in record.ledgers:
            stamp = log_stamp.of(await logs.client.metadata(one.id))
            assert stamp is not None
            assert (stamp.batch, stamp.epoch) == (("q", 0), 1)


@played()
async def test_a_batch_that_is_published_again_is_discarded(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        parts = [await written(logs, batch(0), 0, map(large, range(2)))]
        late = await written(logs, batch(0), 0, map(large, range(2)))
        await logs.publish(parts)
        for again in (parts, [late]):
            done = await logs.publish(again)
            assert (done.messages, done.was_known) == (0, True)
        await committed(logs, batch(1), 5)
        assert (await logs.publish(parts)).was_known, "an earlier batch is known, too"
        expected = [b"0/", b"1/", b"message 5"]
        assert await payloads(logs.client) == expected
        async with writing(logs.client, "application") as writer:
            await writer.append_and_wait(message(6))
        assert (await logs.publish(parts)).was_known, "whoever has the log"
        assert await payloads(logs.client) == [*expected, b"message 6"]
        assert (await record_of(lab)).epoch == 2, "and without a claim"


@played()
async def test_the_next_run_writes_nothing_for_a_batch_that_the_log_has(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        await committed(logs, batch(0), 1)
        before = await record_of(lab)
        part = await written(logs, batch(0, "r2"), 0, map(large, range(9)))
        assert part == IdlePartition(of=batch(0, "r2"), partition=0, is_known=True)
        assert (await logs.publish([part])).was_known
        assert await record_of(lab) == before


@played()
async def test_without_messages_nothing_is_recorded(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        before = await record_of(lab)
        for parts in ([], [None], [await written(logs, batch(0), 0, [])]):
            done = await logs.publish(parts)
            assert (done.messages, done.was_known) == (0, False)
        assert await record_of(lab) == before


@played()
async def test_a_new_run_takes_the_log_and_a_lost_run_never_takes_it_back(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        await committed(logs, batch(0), 0)
        zombie = [await written(logs, batch(1), 0, [message(1)])]
        await committed(logs, batch(1, "r2"), 1)
        assert (await logs.publish(zombie)).was_known
        assert (await record_of(lab)).epoch == 2
        behind = [replace(zombie[0], of=batch(2))]
        with pytest.raises(LogTaken):
            await logs.publish(behind)
        with pytest.raises(LogTaken):
            await written(logs, batch(2), 0, [message(2)])
        assert (await record_of(lab)).epoch == 2
        assert await payloads(logs.client) == [b"message 0", b"message 1"]


@played()
async def test_a_query_and_an_application_cannot_write_at_once(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs, lab.client("application") as other:

        async def application() -> None:
            async with writing(other, "application") as writer:
                await writer.append_and_wait(message(0))
                part = await written(logs, batch(0), 0, [message(1)])
                await writer.append(message(99))
                await writer.stored(1)  # nobody has fenced its ledger yet
                await logs.publish([part])
                await writer.append_and_wait(message(100))

        with pytest.raises(LogTaken):
            await application()
        assert await payloads(other) == [b"message 0", b"message 99", b"message 1"]
        part = await written(logs, batch(1), 0, [message(2)])
        async with writing(other, "another") as writer:
            with pytest.raises(LogTaken):
                await logs.publish([part])
            with pytest.raises(LogTaken):
                await written(logs, batch(2), 0, [message(2)])
            await writer.append_and_wait(message(3))
        await committed(logs, batch(1, "r2"), 4)
        found = await payloads(other)
        assert found[3:] == [b"message 3", b"message 4"]


@played()
async def test_all_tasks_of_a_run_share_one_claim(lab: Lab) -> None:
    await create(lab)
    async with querying(lab, "one") as one, querying(lab, "other") as other:
        parts = [
            await written(one, batch(0), 0, map(large, range(2))),
            await written(other, batch(0), 1, map(large, range(2, 4))),
        ]
        await other.publish(parts)
        assert (await record_of(lab)).epoch == 1
        assert await payloads(one.client) == [b"0/", b"1/", b"2/", b"3/"]


@played()
async def test_what_a_writer_left_open_is_settled_first(lab: Lab) -> None:
    await create(lab, SHORT)
    async with querying(lab) as logs, lab.client("application") as other:

        async def application() -> None:
            async with writing(other, "application") as writer:
                await writer.append_many(list(numbers(0, 25)))
                await writer.append_and_wait(message(25))
                raise RuntimeError("died")

        with pytest.raises(RuntimeError, match="died"):
            await application()
        await committed(logs, batch(0), 26)
        assert await payloads(other) == [b"message %d" % number for number in range(27)]
        async with writing(other, "application again") as writer:
            assert writer.next_sequence == 27
            await writer.append_and_wait(message(27))
        assert len(await payloads(other)) == 28


@played()
async def test_a_place_is_found_in_ledgers_with_a_manifest(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        await committed(logs, batch(0), 0, 1)
        await logs.publish([await written(logs, batch(1), 0, map(large, range(2)))])
        await committed(logs, batch(2), 4)
        reader = reader_of(logs.client)
        found = [one async for many in reader.read() for one in many]
        for one in found:
            assert await reader.at_sequence(one.sequence) == one.id
            assert await reader.sequence_of(one.id) == one.sequence
            assert [other.sequence async for many in reader.read(one.id) for other in many] == list(
                range(one.sequence, 5)
            )
        record = await record_of(lab)
        for ledger in record.ledgers:
            assert ledger.end is not None
        manifest_only = record.ledgers[2]
        assert manifest_only.end is not None
        assert (manifest_only.end.messages, manifest_only.end.last_entry) == (0, 1)
        assert await reader.at_time(0) == found[0].id
        assert await reader.at_time(1_000) == found[0].id
        assert await reader.at_time(1_001) is None
        assert await reader.end() == 5
        with pytest.raises(NotInLog):
            await reader.sequence_of(MessageId(manifest_only.id, EntryId(1), 0))
        with pytest.raises(NotInLog):
            await reader.at_sequence(5)


@played()
async def test_a_follower_goes_over_batches(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs, lab.client("reader") as client:
        await committed(logs, batch(0), 0)
        follower = reader_of(client).follow()
        got = []
        for number in range(1, 4):
            got += [one.sequence for one in await anext(follower)]
            await committed(logs, batch(number), number)
        got += [one.sequence for one in await anext(follower)]
        await follower.aclose()
        assert got == [0, 1, 2, 3]


@played()
async def test_a_manifest_stands_at_the_end_of_its_ledger_and_nowhere_else(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        await committed(logs, batch(0), 0)
        ledger = (await record_of(lab)).ledgers[0]
        assert ledger.end is not None
        last = ledger.end.last_entry
        async with locating.reading(logs.client, NAME, ledger.id) as reader:
            raw = await locating.entry_of(reader, last)
        assert locating.is_manifest(ledger, last, raw)
        assert not locating.is_manifest(ledger, EntryId(last - 1), raw)
        assert not locating.is_manifest(replace(ledger, end=None), last, raw)


@played()
async def test_an_attempt_whose_ledger_is_gone_or_otherwise_is_not_published(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        part = await written(logs, batch(0), 0, map(large, range(2)))
        assert isinstance(part, AttemptEnd)
        before = await record_of(lab)
        with pytest.raises(LogDamaged, match="is not closed at entry"):
            await logs.publish([replace(part, last_entry=EntryId(part.last_entry - 1))])
        await logs.client.delete(part.ledger)
        with pytest.raises(LogDamaged, match="is gone") as caught:
            await logs.publish([part])
        assert not caught.value.retryable
        assert await record_of(lab) == before


@played(bookies_in={"a": 1, "b": 1, "c": 1}, rules=policy(strict=False))
async def test_a_batch_comes_in_with_the_minimum_of_quorums_when_a_bookie_is_missing(
    lab: Lab,
) -> None:
    full, least = Quorums(ensemble=3, write=3, ack=2), Quorums(ensemble=2, write=2, ack=1)
    await create(lab, LogRules(quorums=full, minimum=least, downgrade_after_ms=30_000))
    async with querying(lab) as logs:
        part = await written(logs, batch(0), 0, [message(0)])
        await next(one for one in lab.machines.values() if one.location.zone == "c").crash()
        await asyncio.sleep(20)
        assert (await logs.publish([part])).messages == 1
        last = (await record_of(lab)).ledgers[-1]
        assert (await logs.client.metadata(last.id)).ensemble_size == 2
        assert await payloads(logs.client) == [b"message 0"]


@played()
async def test_nothing_is_published_while_the_root_is_restored(lab: Lab) -> None:
    """The record may be older than the log's ledgers: a batch would come in place of others."""
    await create(lab)
    async with querying(lab) as logs:
        async with writing(logs.client, "application") as writer:
            await writer.append_and_wait(message(0), stored=True)
        part = await written(logs, batch(0), 0, [message(1)])
        known = await record_of(lab)
        cluster = logs.client.cluster
        where = cluster.root.beside("restored")
        before = [one async for one in logs.client.ledgers()]
        await cluster.store.create(
            where, restored.render(Restored(at_ms=1, high=1), cluster.instance)
        )
        with pytest.raises(RestoredRootError):
            await logs.publish([part], limit_s=0)
        assert await record_of(lab) == known
        assert [one async for one in logs.client.ledgers()] == before
        await cluster.store.delete(where, version=None)
        await logs.publish([part])
        assert await payloads(logs.client) == [b"message 0", b"message 1"]


@played()
async def test_nothing_is_published_once_the_root_is_marked_as_restored(lab: Lab) -> None:
    """The mark is set while the publisher writes its manifest ledger."""
    await create(lab)
    async with querying(lab) as logs:
        part = await written(logs, batch(0), 0, [message(1)])
        known = await record_of(lab)
        cluster = logs.client.cluster
        mark = restored.render(Restored(at_ms=1, high=1), cluster.instance)
        original = Writer.close

        async def close(self: Writer, timeout: float | None = None) -> None:  # noqa: ASYNC109 as in the product
            await original(self, timeout)
            await cluster.store.create(cluster.root.beside("restored"), mark)

        with patched([(Writer, "close", close)]), pytest.raises(RestoredRootError):
            await logs.publish([part], limit_s=0)
        assert await record_of(lab) == known


@played()
async def test_a_job_is_one_batch_and_then_over(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        job = batch(0, "j1", "j1", is_job=True)
        parts = [await written(logs, job, 0, [message(0)])]
        await logs.publish(parts)
        assert (await logs.publish(parts)).was_known
        aborted = batch(0, "j2", "j2", is_job=True)
        parts = [await written(logs, aborted, 0, [message(1)])]
        await logs.end_job(NAME, "j2")
        with pytest.raises(QueryOver):
            await logs.publish(parts)
        with pytest.raises(QueryOver):
            await written(
                logs, replace(aborted, run=replace(aborted.run, run="x")), 0, [message(1)]
            )
        await logs.end_job(NAME, "j1")
        await logs.end_job(NAME, "a job that never wrote".replace(" ", "-"))
        assert await payloads(logs.client) == [b"message 0"]


@played()
async def test_an_attempt_holds_few_batches_however_large_its_partition_is(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        attempt = logs.attempt(batch(0), 0)
        await attempt.append_many([large(0)] * 8)
        for machine in lab.machines.values():
            machine.doorway.holding = True
        async with asyncio.TaskGroup() as tasks:
            writing_on = tasks.create_task(attempt.append_many([large(1)] * 100))
            await asyncio.sleep(5)
            writer = attempt._writer
            assert writer is not None
            assert not writing_on.done()
            assert writer.last_appended - writer.last_confirmed <= IN_FLIGHT_MAX + 1
            for machine in lab.machines.values():
                machine.doorway.release()
        await logs.publish([await attempt.finish()])
        assert await payloads(logs.client) == [b"0/"] * 8 + [b"1/"] * 100


@played()
async def test_a_discarded_attempt_leaves_nothing(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        attempt = logs.attempt(batch(0), 0)
        await attempt.append_many([large(0), large(1)])
        before = [one async for one in logs.client.ledgers()]
        await attempt.append_many([large(2), large(3), large(4), large(5)])
        await attempt.discard()
        assert [one async for one in logs.client.ledgers()] == before
        await logs.attempt(batch(0), 1).discard()


@played()
async def test_parts_that_make_no_batch_are_refused_in_words(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        one = await written(logs, batch(0), 0, [message(0)])
        other = await written(logs, batch(0), 1, [message(1)])
        assert isinstance(one, SmallPartition)
        assert isinstance(other, SmallPartition)
        known = IdlePartition(of=batch(0), partition=2, is_known=True)
        damaged = (other.batches[0][:-1] + b"?",)
        cases: list[tuple[list[BatchPart], str]] = [
            ([one, replace(other, of=batch(1))], "several batches"),
            ([one, replace(other, partition=0)], "two parts of one partition"),
            ([one, replace(other, epoch=2)], "several claims"),
            ([one, replace(other, messages=2)], "say that they have"),
            ([one, replace(other, batches=damaged)], "damaged on its way"),
            ([one, known], "run the batch again"),
            ([known], "run the batch again"),
        ]
        for parts, words in cases:
            with pytest.raises(BadBatch, match=words) as caught:
                await logs.publish(parts)
            assert not caught.value.retryable
            assert not caught.value.maybe_applied
        with pytest.raises(BadQueryIdError):
            logs.attempt(batch(0, query="a b"), 0)
        with pytest.raises(BadQueryIdError):
            logs.attempt(batch(0, run="/"), 0)
        with pytest.raises(BadBatch):
            logs.attempt(batch(-1), 0)
        assert await payloads(logs.client) == []


@played()
async def test_an_attempt_that_is_below_the_last_ledger_is_refused_at_once(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        early = await written(logs, batch(1), 0, map(large, range(2)))
        await committed(logs, batch(0), 0)
        with pytest.raises(BadBatch, match="write the batch again"):
            await logs.publish([early])
        assert await payloads(logs.client) == [b"message 0"]


@played()
async def test_no_ledger_is_made_below_the_last_one_of_the_log_or_of_the_batch(lab: Lab) -> None:
    """The counter of ids is behind the log, as after a root was set back: others are made."""
    await create(lab)
    async with querying(lab) as logs:
        await committed(logs, batch(0), 0)
        cluster = logs.client.cluster
        record = await record_of(lab)
        high = LedgerId(record.ledgers[-1].id + 3)
        raw = log_record_format.render(replace(record, last_ledger=high), cluster.instance)
        await overwrite(cluster, stored_logs.path(cluster, NAME), raw)
        part = await written(logs, batch(1), 0, map(large, range(2)))
        assert isinstance(part, AttemptEnd)
        assert part.ledger == high + 1
        await logs.publish([part])
        assert [one async for one in logs.client.ledgers()] == [
            one.id for one in (await record_of(lab)).ledgers
        ]
        raw = log_record_format.render(
            replace(await record_of(lab), last_ledger=LedgerId(high + 5_000)), cluster.instance
        )
        await overwrite(cluster, stored_logs.path(cluster, NAME), raw)
        with pytest.raises(LedgerTooLow, match="counter of ids"):
            await logs.publish([await written(logs, batch(2), 0, [message(1)])], limit_s=0.01)
        assert await payloads(logs.client) == [b"message 0", b"0/", b"1/"]


@played()
async def test_a_part_is_small_up_to_its_bound(lab: Lab) -> None:
    await create(lab)
    async with querying(lab) as logs:
        for size in (SMALL_BYTES_MAX // 2, SMALL_BYTES_MAX - 100, SMALL_BYTES_MAX):
            one = replace(message(0), payload=b"y" * size, key=None)
            part = await written(logs, batch(0), 0, [one])
            is_small = isinstance(part, SmallPartition)
            assert is_small == (size < SMALL_BYTES_MAX)
            if isinstance(part, SmallPartition):
                assert sum(map(len, part.batches)) <= SMALL_BYTES_MAX
