"""Read what a task was given: entries of ledgers, or the messages of a span of a log.

A task holds what one answer of a bookie has, and the next one that is fetched meanwhile: its memory
does not grow with its ledgers. Each entry's digest is checked by the client.

A ledger that had no end when the read was planned is read up to the entry that was confirmed then.
What is confirmed never goes away, but a bookie may tell this client of it later. So these entries
are read without asking how far the ledger is confirmed now.
"""

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing, contextmanager

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.loop_objects import streamed
from zonekeeper.client.api.reader import ReadBatch
from zonekeeper.client.base import boundary
from zonekeeper.client.base import errors as client_errors
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.log.formats.batches import MessageBatch
from zonekeeper.log.sessions import locating
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.reading.message_rows import MessagePiece
from zonekeeper.pipeline.reading.slices import EntrySlice, LogSpan, ReadTask
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats.entries import Entry

_logger = logging.getLogger(__name__)


def entries(kept: KeptClient, task: ReadTask) -> Iterator[Sequence[Entry]]:
    """Give the entries of a task, in order."""
    return streamed(kept.calls, lambda: entries_on_loop(kept.opened.client, task))


def messages(kept: KeptClient, task: ReadTask) -> Iterator[MessagePiece]:
    """Give the messages of a task, in order; raises what is wrong with the log."""
    for part, found in streamed(kept.calls, lambda: log_on_loop(kept.opened.client, task)):
        assert task.span is not None, "a task that reads messages has a span"
        for entry in found:
            piece = piece_of(task.span, part, entry)
            if piece is not None:
                yield piece


async def entries_on_loop(client: Client, task: ReadTask) -> AsyncGenerator[Sequence[Entry], None]:
    """Give the entries of a task as they come from bookies."""
    for part in task.slices:
        reader = await client.open(part.ledger, recover=False)
        async with aclosing(reader.read(part.first, part.last)) as many:
            async for batch in many:
                yield batch.entries


async def log_on_loop(
    client: Client, task: ReadTask
) -> AsyncGenerator[tuple[EntrySlice, Sequence[Entry]], None]:
    """Give the entries of a log's task as they come from bookies, each with its slice."""
    assert task.span is not None, "a task that reads messages has a span"
    with boundary.translated(f"reading log {task.span.name}"):
        for part in task.slices:
            async with aclosing(_of_log(client, task.span, part)) as many:
                async for batch in many:
                    yield part, batch.entries


def piece_of(span: LogSpan, part: EntrySlice, entry: Entry) -> MessagePiece | None:
    """Give the messages of an entry that a span has; None: it has none of them."""
    batch = batch_in(part, entry)
    if batch is None:
        return None
    sequence = part.sequence + batch.place
    first, end = max(0, span.first - sequence), min(len(batch), span.end - sequence)
    if first >= end:
        return None
    return MessagePiece(
        ledger=part.ledger,
        entry=entry.entry_id,
        sequence=sequence,
        batch=batch,
        first=first,
        end=end,
    )


def batch_in(part: EntrySlice, entry: Entry) -> MessageBatch | None:
    """Give the batch of an entry; None: it is the manifest that ends its ledger."""
    if locating.is_last_manifest(part.ends_at, entry.entry_id, entry.payload):
        return None
    return locating.parsed(part.ledger, entry.entry_id, entry.payload)


async def _of_log(
    client: Client, span: LogSpan, part: EntrySlice
) -> AsyncGenerator[ReadBatch, None]:
    following = part.first
    try:
        async with locating.reading(client, span.name, part.ledger, span.log_id) as reader:
            read = reader.read_unconfirmed if part.was_open else reader.read
            async with aclosing(read(part.first, part.last)) as many:
                async for batch in many:
                    following = EntryId(batch.last + 1)
                    yield batch
    except client_errors.ClientError:
        # A ledger that was trimmed, or that went with its log, says so better.
        await locating.check_kept(client, span.name, part.ledger, span.log_id)
        raise
    if following <= part.last:
        await locating.check_kept(client, span.name, part.ledger, span.log_id)
        raise LogDamaged(
            f"log {span.name}: ledger {part.ledger} had entries up to {part.last} when the read "
            f"was planned, and has none from {following} on; nothing was passed over"
        )


@contextmanager
def counted(kept: KeptClient) -> Iterator[None]:
    """Say in a line of the log how many bytes a task read in its own zone, and how many beyond."""
    counters = kept.ledgers.counters
    local, remote = counters.bytes_read_local, counters.bytes_read_remote
    try:
        yield
    finally:
        _logger.info(
            "a task has read %d bytes in its zone, and %d beyond it",
            counters.bytes_read_local - local,
            counters.bytes_read_remote - remote,
        )
