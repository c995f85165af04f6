"""Where a message stands in a log: its sequence for its id, and the end of the log.

The other directions are in ``locating``. An id is checked against what stands in its ledger, so an
id of another log, or one that no message has, is refused in words.
"""

from contextlib import aclosing

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.log.base.errors import NotInLog
from zonekeeper.log.formats import openings
from zonekeeper.log.sessions import locating
from zonekeeper.log.writing import joining
from zonekeeper.metadata.formats.log_record import LogLedger, LogRecord
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.ids import EntryId


async def sequence_of(client: Client, name: str, record: LogRecord, message: MessageId) -> int:
    """Give the sequence of the message with an id; raises ``LogTrimmed`` or ``NotInLog``."""
    if record.start is not None and message < record.start:
        raise locating.trimmed(name, record, f"message {message}")
    ledger = await _ledger(client, name, record, message)
    if ledger is not None and ledger.sequence is not None:
        reader = await locating.reader_of(client, name, ledger.id, record.id)
        last = await _last_entry(record, ledger, reader)
        if locating.OPENING_ENTRY < message.entry <= last:
            batch = await locating.batch_of(reader, message.entry)
            if message.index < len(batch):
                return ledger.sequence + batch.place + message.index
    raise NotInLog(
        f"log {name} has no message {message}, or not yet: it is ahead of the end, or is the id of "
        "another log; nothing was changed"
    )


async def end_of(client: Client, name: str, record: LogRecord) -> tuple[MessageId | None, int]:
    """Give the place behind the log's last confirmed message, and the sequence that follows it.

    The id is that of no message yet. It is above all messages that the log has, and not above any
    that comes. None: the log has nothing but its start.
    """
    for ledger in reversed(record.ledgers):
        if ledger.sequence is None:
            continue
        if ledger.end is not None:
            after = MessageId(ledger.id, EntryId(ledger.end.last_entry + 1), 0)
            return after, ledger.sequence + ledger.end.messages
        reader = await locating.reader_of(client, name, ledger.id, record.id)
        last = await _last_entry(record, ledger, reader)
        if last > locating.OPENING_ENTRY:
            batch = await locating.batch_of(reader, last)
            after = MessageId(ledger.id, EntryId(last + 1), 0)
            return after, ledger.sequence + batch.place + len(batch)
    return record.start, record.start_sequence


async def _ledger(
    client: Client, name: str, record: LogRecord, message: MessageId
) -> LogLedger | None:
    async with aclosing(logs.ledgers(client.cluster, name, record, message.ledger)) as every:
        async for ledger in every:
            return ledger if ledger.id == message.ledger else None
    return None


async def _last_entry(record: LogRecord, ledger: LogLedger, reader: Reader) -> EntryId:
    """Give the last entry that is in the log for good; that of the opening if none is."""
    if ledger.end is not None:
        return ledger.end.last_entry
    last = reader.last_confirmed
    if last > locating.OPENING_ENTRY:
        opening = openings.parse(await locating.entry_of(reader, locating.OPENING_ENTRY))
        if joining.continues(record, ledger, opening):
            return last
    return locating.OPENING_ENTRY
