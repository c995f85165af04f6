"""Orphans go, and nothing else: whatever a writer left, and whatever was lost or restored."""

from dataclasses import replace

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill, ledgers, sequences
from tests.log.logging_lab import NAME, SHORT, message, overwrite
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.keeping.orphans import LogLedgerFate
from zonekeeper.log.sessions import collecting, trimming
from zonekeeper.log.sessions.collecting import OrphanCollector
from zonekeeper.metadata.cluster import restored
from zonekeeper.metadata.cluster.restored import Restored
from zonekeeper.metadata.formats.log_record import LogRules
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.metadata.logs import log_stamp, logs
from zonekeeper.placement.base.ids import LedgerId


async def collected(log: LogClient) -> tuple[OrphanCollector, list[LedgerId]]:
    """Look at all ledgers once; give the collector, and the ledgers that it deleted."""
    collector, deleted = OrphanCollector(log.client), []
    async for one in ledger_listing.all_of(log.client.cluster):
        assert isinstance(one, StoredLedger)
        if await collector.look(one):
            deleted.append(one.id)
    return collector, deleted


async def left_behind(log: LogClient, epoch: int, name: str = NAME, log_id: str = "") -> LedgerId:
    """Make a ledger as a writer does that dies before it adds the ledger."""
    log_id = log_id or (await log.record(name)).id
    writer = await log.client.create(custom=log_stamp.custom(name, log_id, epoch))
    await writer.close()
    return writer.ledger_id


@played()
async def test_the_ledger_of_an_epoch_that_is_over_goes_and_that_of_the_present_one_stays(
    lab: Lab,
) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 25)
        mine = await left_behind(log, epoch=1)
        collector, deleted = await collected(log)
        assert deleted == []
        assert collector.found == {LogLedgerFate.PART: 3, LogLedgerFate.PENDING: 1}

        await fill(log, 1)  # another claim
        assert (await collected(log))[1] == [mine]
        assert await sequences(log) == list(range(26))
        assert (await collected(log))[1] == []


@played()
async def test_a_ledger_below_the_first_goes_though_its_epoch_lasts(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        async with log.writer(NAME) as writer:
            await writer.append_and_wait(message(0))
            mine = await left_behind(log, epoch=1)
            for number in range(1, 25):
                await writer.append_and_wait(message(number), stored=True)
            assert (await collected(log))[1] == []
            await log.trim(NAME, 20)
            assert (await collected(log))[1] == [mine]


@played()
async def test_the_ledgers_of_a_long_log_are_known_by_its_pages(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, LogRules(rotate_messages=1))
        await fill(log, 70)
        orphan = await left_behind(log, epoch=1)
        await fill(log, 40)
        await log.create("other")
        await fill(log, 1, "other")
        collector, deleted = await collected(log)
        assert deleted == [orphan]
        assert collector.found[LogLedgerFate.PART] == len(await ledgers(log.client))
        await log.trim(NAME, 75)
        assert (await collected(log))[1] == []
        assert await sequences(log) == list(range(75, 110))


@played()
async def test_a_ledger_that_waits_for_its_deletion_is_a_part_until_the_trim_takes_it(
    lab: Lab,
) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 35)
        record = await log.record(NAME)
        start = await log.reader(NAME).at_sequence(25)
        await logs.trim(log.client.cluster, NAME, record.id, start, 25)
        assert (await collected(log))[1] == []
        assert await trimming.reclaim(log.client, NAME, record.id) == 2


@played()
async def test_without_a_record_nothing_goes_unless_a_note_says_that_the_log_was_deleted(
    lab: Lab,
) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 15)
        record = await log.record(NAME)
        await log.client.cluster.store.delete(logs.path(log.client.cluster, NAME), version=None)
        collector, deleted = await collected(log)
        assert deleted == []
        assert collector.found == {LogLedgerFate.STRAY: len(record.ledgers)}

        await log.create(NAME)  # another incarnation proves nothing of the one before
        await fill(log, 1)
        assert (await collected(log))[1] == []

        second = await log.record(NAME)
        mine = await left_behind(log, epoch=1, log_id=second.id)
        await log.delete(NAME)
        assert (await collected(log))[1] == [mine]
        assert await ledgers(log.client) == [one.id for one in record.ledgers]


@played()
async def test_while_the_mark_of_a_restored_root_stands_nothing_goes(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        await fill(log, 1)
        mine = await left_behind(log, epoch=1)
        await fill(log, 1)
        cluster = log.client.cluster
        mark = Restored(at_ms=1, high=1)
        path = cluster.root.beside("restored")
        await cluster.store.create(path, restored.render(mark, cluster.instance))
        assert (await collected(log))[1] == []
        await overwrite(cluster, path, b"damaged")
        assert (await collected(log))[1] == []
        await cluster.store.delete(path, version=None)
        assert (await collected(log))[1] == [mine]


@played()
async def test_what_was_read_before_is_a_filter_and_no_proof(lab: Lab) -> None:
    """The record that the collector read lacks a ledger that was added since."""
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 5)
        collector = OrphanCollector(log.client)
        every = [one async for one in ledger_listing.all_of(log.client.cluster)]
        for one in every:
            assert isinstance(one, StoredLedger)
            assert not await collector.look(one)
        await fill(log, 30)
        for one in [one async for one in ledger_listing.all_of(log.client.cluster)]:
            assert isinstance(one, StoredLedger)
            assert not await collector.look(one)
        assert await sequences(log) == list(range(35))


@played()
async def test_ledgers_of_no_log_and_stamps_that_say_too_little_stay(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        await fill(log, 1)
        whole = log_stamp.custom(NAME, (await log.record(NAME)).id, 1)
        for custom in (
            None,
            {log_stamp.NAME_KEY: NAME.encode()},
            {log_stamp.NAME_KEY: b"\xff//"},
            {**whole, log_stamp.EPOCH_KEY: b"x"},
            {**whole, log_stamp.ID_KEY: b"7"},
        ):
            writer = await log.client.create(custom=custom)
            await writer.close()
        await fill(log, 1)
        collector, deleted = await collected(log)
        assert deleted == []
        assert collector.found[LogLedgerFate.STRAY] == 4


@played()
async def test_a_proof_says_part_and_pending_too(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        await fill(log, 1)
        record = await log.record(NAME)
        stamp = log_stamp.LogStamp(name=NAME, log_id=record.id, epoch=record.epoch)
        cluster, first = log.client.cluster, record.ledgers[0].id
        assert await collecting.proved(cluster, first, stamp) is LogLedgerFate.PART
        later = LedgerId(first + 100)
        assert await collecting.proved(cluster, later, stamp) is LogLedgerFate.PENDING
        before = replace(stamp, epoch=2)
        assert await collecting.proved(cluster, later, before) is LogLedgerFate.STRAY
