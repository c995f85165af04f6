"""Where a message stands in a log: its sequence for its id, and the end of the log.

The other directions are in ``locating``. An id is checked against what stands in its ledger, so an
id of another log, or one that no message has, is refused in words.
"""

from zonekeeper.client.api.client import Client
from zonekeeper.log.base.errors import NotInLog
from zonekeeper.log.sessions import locating
from zonekeeper.metadata.formats.log_record import LogRecord
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.ids import EntryId


async def sequence_of(client: Client, name: str, record: LogRecord, message: MessageId) -> int:
    """Give the sequence of the message with an id; raises ``LogTrimmed`` or ``NotInLog``.

    ``NotInLog`` is retryable while the message may come. It may have been read already: the next
    look at an open ledger may ask bookies that heard less of what is confirmed.
    """
    if record.start is not None and message < record.start:
        raise locating.trimmed(name, record, f"message {message}")
    ledger = await logs.search(client.cluster, name, record, lambda one: one.id < message.ledger)
    if ledger is None or ledger.id != message.ledger:
        raise locating.foreign(name, message)
    may_come = ledger.end is None and message.entry > locating.OPENING_ENTRY
    if ledger.sequence is not None:
        async with locating.reading(client, name, ledger.id, record.id) as reader:
            last = await locating.last_of(record, ledger, reader)
            if locating.OPENING_ENTRY < message.entry <= last:
                may_come = False
                batch = await locating.batch_of_log(ledger, reader, message.entry)
                if batch is not None and message.index < len(batch):
                    return ledger.sequence + batch.place + message.index
    lacking = NotInLog(
        f"log {name} has no message {message}: ledger {ledger.id} has no such message, or not yet; "
        "nothing was read or changed"
    )
    lacking.retryable = may_come
    raise lacking


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
            return _not_before_start(record, after, ledger.sequence + ledger.end.messages)
        async with locating.reading(client, name, ledger.id, record.id) as reader:
            last = await locating.last_of(record, ledger, reader)
            if last > locating.OPENING_ENTRY:
                batch = await locating.batch_of(reader, last)
                after = MessageId(ledger.id, EntryId(last + 1), 0)
                sequence = ledger.sequence + batch.place + len(batch)
                return _not_before_start(record, after, sequence)
    return record.start, record.start_sequence


def _not_before_start(record: LogRecord, after: MessageId, sequence: int) -> tuple[MessageId, int]:
    """Give a place and its sequence, or the log's start if that is behind it.

    The start may stand in a ledger that has no message yet, or behind a last confirmed entry that
    bookies tell readers late.
    """
    if record.start is not None and record.start > after:
        return record.start, record.start_sequence
    return after, sequence
