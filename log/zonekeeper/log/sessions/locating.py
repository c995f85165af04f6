"""Find the entry of a message in a ledger of a log: by its sequence, or by a time.

The record says which ledger it is. In the ledger the entries are searched by halving, as places and
times of batches ascend: O(log n) reads.

Only entries are looked at that are in the log for good (``last_of``). An entry that cannot be read
is an error of the log that names it. Errors of the metadata store pass as they are: the client of
logs translates them.
"""

import hmac
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base.errors import LogDamaged, LogNewer, LogTrimmed, NotInLog
from zonekeeper.log.formats import batches, manifests, openings
from zonekeeper.log.formats.batches import MessageBatch
from zonekeeper.log.formats.openings import LogOpening
from zonekeeper.log.packing import packers
from zonekeeper.log.writing import joining
from zonekeeper.metadata.formats.log_record import (
    LogDeleting,
    LogLedger,
    LogRecord,
    OtherIncarnation,
)
from zonekeeper.metadata.formats.malformed import MalformedError, UnsupportedError
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.ids import EntryId, LedgerId

#: The opening entry of each ledger; batches follow it.
OPENING_ENTRY: Final = EntryId(0)


@asynccontextmanager
async def reading(
    client: Client, name: str, ledger_id: LedgerId, log_id: str | None = None
) -> AsyncIterator[Reader]:
    """Open a ledger for reading, beside its writer.

    Raises ``LogTrimmed`` if it was trimmed before the end of the block, and ``LogDamaged`` if the
    log has it and it was deleted.
    """
    try:
        yield await client.open(ledger_id, recover=False)
    except client_errors.NoSuchLedger as error:
        await check_kept(client, name, ledger_id, log_id)
        raise LogDamaged(
            f"ledger {ledger_id} is in the record of log {name}, and was deleted by another "
            "program: the messages in it are lost; no message behind it was given"
        ) from error


async def check_password(client: Client, name: str, record: LogRecord) -> None:
    """Refuse a client that has not the password of a log's last ledger, before it claims the log.

    The claim would end the writer that has the log, and a ledger with another password would be one
    that the log's readers cannot open.
    """
    for last in record.ledgers[-1:]:
        try:
            ledger = await client.metadata(last.id)
        except client_errors.NoSuchLedger:
            return  # the settling says it, if the ledger is needed
        if not hmac.compare_digest(client.config.password, ledger.password):
            raise wrong_password(name, last.id)


def wrong_password(name: str, ledger_id: LedgerId) -> client_errors.Unauthorized:
    """Give the error for a client whose password is not that of a log's ledger."""
    return client_errors.Unauthorized(
        f"ledger {ledger_id} of log {name} has another password than this client; nothing was "
        "changed: the password of a log is that of its client's configuration"
    )


async def check_kept(
    client: Client, name: str, ledger_id: LedgerId, log_id: str | None = None
) -> bool:
    """Raise why a ledger is gone, if it is so on purpose; else say whether the log still has it.

    ``LogTrimmed``: it is below the start. ``LogDeleting`` and ``OtherIncarnation``: the log, whose
    id was ``log_id``, was deleted. False: the ledger was dropped, and was no part of the log.
    """
    record = await logs.find(client.cluster, name)
    if log_id not in (None, record.id):
        raise OtherIncarnation(
            f"log {name} was deleted, and made anew: its id was {log_id}, and is {record.id}; "
            f"ledger {ledger_id} went with the old one; nothing more was read; begin to read the "
            "new one"
        )
    if record.deleting:
        raise LogDeleting(f"log {name} is being deleted; nothing more was read")
    if record.start is not None and ledger_id < record.start.ledger:
        raise trimmed(name, record, f"what is in ledger {ledger_id}")
    async with aclosing(logs.ledgers(client.cluster, name, record, ledger_id)) as every:
        async for one in every:
            return one.id == ledger_id
    return False


async def entry_of(reader: Reader, entry_id: EntryId) -> bytes:
    """Read one entry."""
    async with aclosing(reader.read_entries(entry_id, entry_id)) as entries:
        async for entry in entries:
            return bytes(entry.payload)
    raise AssertionError("a reading that ends gave what was asked for")


async def batch_of(reader: Reader, entry_id: EntryId) -> MessageBatch:
    """Read one batch; raises ``LogDamaged``, or ``LogNewer`` for one of a newer program."""
    return parsed(reader.ledger_id, entry_id, await entry_of(reader, entry_id))


def parsed(ledger_id: LedgerId, entry_id: EntryId, payload: bytes) -> MessageBatch:
    """Read a batch out of its entry; raises ``LogDamaged`` or ``LogNewer``."""
    with _entry_read(ledger_id, entry_id):
        return batches.parse(payload, packers.available())


async def batch_of_log(ledger: LogLedger, reader: Reader, entry_id: EntryId) -> MessageBatch | None:
    """Read one batch of a ledger of a log; None: the entry has no message, as it is a manifest."""
    raw = await entry_of(reader, entry_id)
    return None if is_manifest(ledger, entry_id, raw) else parsed(ledger.id, entry_id, raw)


def is_manifest(ledger: LogLedger, entry_id: EntryId, raw: bytes) -> bool:
    """Is an entry the manifest that ends a ledger? Anywhere else there is none."""
    return is_last_manifest(None if ledger.end is None else ledger.end.last_entry, entry_id, raw)


def is_last_manifest(last: EntryId | None, entry_id: EntryId, raw: bytes) -> bool:
    """The same, where the ledger's last entry is known; None: it has no end."""
    return entry_id == last and manifests.is_manifest(raw)


async def opening_of(reader: Reader) -> LogOpening:
    """Read the opening of a ledger that has one; raises ``LogDamaged`` or ``LogNewer``."""
    raw = await entry_of(reader, OPENING_ENTRY)
    with _entry_read(reader.ledger_id, OPENING_ENTRY):
        return openings.parse(raw)


async def last_of(record: LogRecord, ledger: LogLedger, reader: Reader) -> EntryId:
    """Give the last entry that is in the log for good; that of the opening if none is.

    In a ledger without an end that is the last confirmed one, if the ledger continues the log.
    """
    if ledger.end is not None:
        return ledger.end.last_entry
    last = reader.last_confirmed
    if last > OPENING_ENTRY and joining.continues(record, ledger, await opening_of(reader)):
        return last
    return OPENING_ENTRY


@contextmanager
def _entry_read(ledger_id: LedgerId, entry_id: EntryId) -> Iterator[None]:
    try:
        yield
    except UnsupportedError as error:
        raise LogNewer(
            f"ledger {ledger_id}, entry {entry_id}: {error}; nothing was passed over: use a newer "
            "program"
        ) from error
    except MalformedError as error:
        raise LogDamaged(
            f"ledger {ledger_id}, entry {entry_id}: {error}; nothing was passed over: look at the "
            "ledger"
        ) from error


async def by_sequence(client: Client, name: str, record: LogRecord, sequence: int) -> MessageId:
    """Give the id of the message with a sequence."""
    if sequence < record.start_sequence:
        raise trimmed(name, record, f"message {sequence}")
    ledger = await logs.search(client.cluster, name, record, partial(_ends_at_or_before, sequence))
    found = None
    if ledger is not None and ledger.sequence is not None:
        place = sequence - ledger.sequence
        found = await _first(
            client, name, record, ledger, lambda batch: batch.place + len(batch) <= place
        )
        if found is not None:
            entry, batch = found
            return MessageId(ledger.id, entry, place - batch.place)
    raise NotInLog(f"log {name}: message {sequence} is ahead of its end; nothing was read")


def foreign(name: str, message_id: MessageId) -> NotInLog:
    """Give the error for an id of a ledger that is not the log's."""
    return NotInLog(
        f"log {name} has no message {message_id}: ledger {message_id.ledger} is not one of its "
        "ledgers; nothing was read or changed"
    )


async def by_time(client: Client, name: str, record: LogRecord, wall_ms: int) -> MessageId | None:
    """Give the first message that may be of a time or later; None: there is none yet.

    All messages before it are of an earlier time, if the clocks of all writers went right.
    """
    ledger = await logs.search(
        client.cluster,
        name,
        record,
        lambda one: one.end is not None and one.end.latest_ms < wall_ms,
    )
    if ledger is None:
        return None
    # The latest time of the first ledgers may be that of a message which was trimmed. Then all
    # that they have is older, and the message is in a ledger behind them, if there is one.
    async with aclosing(logs.ledgers(client.cluster, name, record, ledger.id)) as every:
        async for one in every:
            if one.sequence is None:
                return None
            if one.end is not None and (one.end.last_ms < wall_ms or not one.end.messages):
                continue
            found = await _first(client, name, record, one, lambda batch: batch.wall_ms < wall_ms)
            if found is not None:
                found_id = MessageId(one.id, found[0], 0)
                return found_id if record.start is None else max(found_id, record.start)
    return None


def trimmed(name: str, record: LogRecord, what: str) -> LogTrimmed:
    """Give the error for a message before the start."""
    if record.start is None:
        return LogTrimmed(
            f"log {name}: {what} was never in it: its first message has sequence "
            f"{record.start_sequence}, as that of the log which it copies"
        )
    return LogTrimmed(
        f"log {name}: {what} was trimmed; the earliest that is kept is {record.start}, with "
        f"sequence {record.start_sequence}"
    )


def _ends_at_or_before(sequence: int, ledger: LogLedger) -> bool:
    if ledger.end is None:
        return False
    assert ledger.sequence is not None, "a ledger that has ended has a sequence"
    return ledger.sequence + ledger.end.messages <= sequence


async def _first(
    client: Client,
    name: str,
    record: LogRecord,
    ledger: LogLedger,
    is_before: Callable[[MessageBatch], bool],
) -> tuple[EntryId, MessageBatch] | None:
    """Give the first batch of a ledger for which ``is_before`` is false; None: there is none."""
    async with reading(client, name, ledger.id, record.id) as reader:
        low, high = OPENING_ENTRY + 1, await last_of(record, ledger, reader) + 1
        found = None
        while low < high:
            middle = (low + high) // 2
            batch = await batch_of_log(ledger, reader, EntryId(middle))
            if batch is None:
                high = middle  # a manifest, which is the last entry
            elif is_before(batch):
                low = middle + 1
            else:
                high, found = middle, (EntryId(middle), batch)
    return found
