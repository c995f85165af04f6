"""Where messages stand: only what is in a log for good has a place, a sequence and a time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import connected, fill, sequences
from tests.log.api.test_log_reader import gathered
from tests.log.logging_lab import NAME, SHORT, message, numbers
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.base.errors import LogDamaged, LogNewer, NotInLog
from zonekeeper.log.formats import batches, openings
from zonekeeper.log.formats.batches import VERSION
from zonekeeper.log.formats.openings import ChainedOpening, Predecessor
from zonekeeper.log.sessions import chain, positions
from zonekeeper.metadata.formats.log_record import LogClaim, LogRecord, LogRules, LogWriterMark
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.ids import EntryId, LedgerId

LATE_MS: Final = 9_000
BATCH: Final = batches.build(list(numbers(5, 2)), place=0, wall_ms=LATE_MS)
#: The version stands behind the magic.
NEWER: Final = BATCH[:4] + bytes([VERSION + 1]) + BATCH[5:]
DAMAGED: Final = BATCH[:-1] + bytes([BATCH[-1] ^ 1])


async def with_open_ledger(
    log: LogClient, entries: Sequence[bytes], *, lacking: int = 0, name: str = NAME
) -> LedgerId:
    """Add a ledger without an end; its opening names an entry that the one before may lack."""
    held = await chain.claimed(log.client, name, LogWriterMark(token="forger"))
    before = held.record.ledgers[-1]
    assert before.end is not None
    writer = await log.client.create()
    claim = LogClaim(log_id=held.record.id, epoch=held.record.epoch, token="forger")
    record = await logs.add(log.client.cluster, name, claim, writer.ledger_id)
    opening = ChainedOpening(
        log_id=bytes.fromhex(record.id),
        epoch=record.epoch,
        name=name,
        sequence=before.end.messages,
        before=Predecessor(ledger=before.id, last_entry=EntryId(before.end.last_entry + lacking)),
    )
    await writer.append_and_wait(openings.build(opening))
    for entry in entries:
        await writer.append_and_wait(entry)
    await writer.tell_confirmed()
    writer.halt()
    return writer.ledger_id


@played()
@pytest.mark.parametrize("continues", [False, True])
async def test_only_a_ledger_that_continues_the_log_has_messages(lab: Lab, continues: bool) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        await fill(log, 5)
        ledger = await with_open_ledger(log, [BATCH], lacking=0 if continues else 1)
        reader, first = log.reader(NAME), MessageId(ledger, EntryId(1), 0)

        if continues:
            assert await reader.at_sequence(6) == replace(first, index=1)
            assert await reader.sequence_of(first) == 5
            assert await reader.at_time(LATE_MS) == first
            assert (await reader.end(), await reader.latest()) == (
                7,
                replace(first, entry=EntryId(2)),
            )
            return
        with pytest.raises(NotInLog, match="message 5 is ahead of its end"):
            await reader.at_sequence(5)
        with pytest.raises(
            NotInLog, match=f"ledger {ledger} has no such message, or not yet"
        ) as told:
            await reader.sequence_of(first)
        assert told.value.retryable, "its ledger is open: it may come"
        with pytest.raises(NotInLog, match="ahead of its end"):
            await log.trim(NAME, 5)
        assert await reader.at_time(LATE_MS) is None
        assert await reader.end() == 5
        await log.trim_to_time(NAME, LATE_MS)
        assert await sequences(log) == []
        assert (await log.record(NAME)).start_sequence == 5
        await fill(log, 1)
        assert await sequences(log) == [5]


@played()
@pytest.mark.parametrize(
    ("entry", "kind", "words"),
    [(NEWER, LogNewer, "of version 2"), (DAMAGED, LogDamaged, "bad checksum")],
)
async def test_an_entry_that_cannot_be_read_is_named(
    lab: Lab, entry: bytes, kind: type[Exception], words: str
) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        await fill(log, 5)
        ledger = await with_open_ledger(log, [entry])
        reader, first = log.reader(NAME), MessageId(ledger, EntryId(1), 0)
        named = f"ledger {ledger}, entry 1: .*{words}"
        for asked in (reader.end(), reader.at_sequence(5), reader.sequence_of(first)):
            with pytest.raises(kind, match=named):
                await asked
        given = list[int]()
        with pytest.raises(kind, match=named):
            await gathered(log.client, given)
        assert given == list(range(5))


@played()
async def test_an_opening_that_cannot_be_read_is_named(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME)
        await fill(log, 1)
        held = await chain.claimed(log.client, NAME, LogWriterMark(token="forger"))
        writer = await log.client.create()
        claim = LogClaim(log_id=held.record.id, epoch=held.record.epoch, token="forger")
        await logs.add(log.client.cluster, NAME, claim, writer.ledger_id)
        for raw in (b"no opening", BATCH):
            await writer.append_and_wait(raw)
        await writer.tell_confirmed()
        writer.halt()
        with pytest.raises(LogDamaged, match=f"ledger {writer.ledger_id}, entry 0: truncated"):
            await log.reader(NAME).end()


@played()
async def test_the_end_is_not_before_a_start_in_a_ledger_without_a_message(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, SHORT)
        await fill(log, 3)
        async with log.writer(NAME) as writer:
            record = await log.record(NAME)
            newest = MessageId(record.ledgers[-1].id, EntryId(1), 0)
            await logs.trim(log.client.cluster, NAME, record.id, newest, 3)
            reader = log.reader(NAME)
            assert (await reader.latest(), await reader.end()) == (newest, 3)
            await writer.append_and_wait(message(3))
            assert await sequences(log) == [3]
        assert [one.sequence async for many in reader.read(newest) for one in many] == [3]


@played()
async def test_a_start_that_the_reader_cannot_see_yet_is_the_end(lab: Lab) -> None:
    async with connected(lab) as log:
        await log.create(NAME, LogRules())
        await fill(log, 3)
        record: LogRecord = await log.record(NAME)
        ahead = MessageId(record.ledgers[-1].id, EntryId(99), 0)
        late = replace(record, start=ahead, start_sequence=50)
        assert await positions.end_of(log.client, NAME, late) == (ahead, 50)
