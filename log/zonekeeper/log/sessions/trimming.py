"""Trim a log: move its start by compare-and-set, and then delete what is below it.

The start is moved to a message id, a sequence, a time or a number of bytes, or as the log's rules
say. Each of them may be called again, and goes on with the ledgers that an earlier call left.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from zonekeeper.client.api.client import Client
from zonekeeper.log.keeping import retention
from zonekeeper.log.sessions import locating, positions
from zonekeeper.metadata.formats.log_record import LogLedger, LogRecord, OtherIncarnation
from zonekeeper.metadata.formats.message_ids import MessageId
from zonekeeper.metadata.logs import log_cursors, logs
from zonekeeper.metadata.logs.logs import NoLogError
from zonekeeper.metadata.store.background import together

#: The kind of program that the cluster's record of a deletion names.
DELETER: Final = "log"


async def to_id(client: Client, name: str, record: LogRecord, message: MessageId) -> None:
    """Forget all messages before one; a start that is behind it already stays."""
    if record.start is None or message > record.start:
        sequence = await positions.sequence_of(client, name, record, message)
        await logs.trim(client.cluster, name, record.id, message, sequence)
    await reclaim(client, name, record.id)


async def to_sequence(client: Client, name: str, record: LogRecord, sequence: int) -> None:
    """Forget all messages before one; a start that is behind it already stays."""
    if sequence > record.start_sequence:
        start = await locating.by_sequence(client, name, record, sequence)
        await logs.trim(client.cluster, name, record.id, start, sequence)
    await reclaim(client, name, record.id)


async def to_time(client: Client, name: str, record: LogRecord, wall_ms: int) -> None:
    """Forget messages that are older than a time. Where all are, the log is empty afterwards."""
    start = await locating.by_time(client, name, record, wall_ms)
    if start is None:
        end, sequence = await positions.end_of(client, name, record)
        if end is not None:
            await logs.trim(client.cluster, name, record.id, end, sequence)
        await reclaim(client, name, record.id)
    else:
        await to_id(client, name, record, start)


async def to_bytes(client: Client, name: str, record: LogRecord, keep_bytes: int) -> None:
    """Forget the oldest ledgers, so that the others still have so many bytes."""
    await _to_first(client, name, record, retention.keeping_bytes(record, keep_bytes))
    await reclaim(client, name, record.id)


async def by_rules(client: Client, name: str, record: LogRecord, now_ms: int) -> bool:
    """Move the start as the log's rules and cursors say; give whether it moved."""
    if record.rules.keep_ms is None and record.rules.keep_bytes is None:
        return False
    cursors = await log_cursors.every(client.cluster, name, record.id)
    limits = retention.of(record, [one.position.sequence for one in cursors.values()], now_ms)
    assert limits is not None, "there is a rule"
    return await _to_first(client, name, record, limits.may_go)


async def reclaim(client: Client, name: str, log_id: str) -> int:
    """Delete the ledgers that are no part of a log any more; give how many there were."""
    cluster, count = client.cluster, 0
    while step := await logs.reclaiming(cluster, name, await logs.find(cluster, name)):
        await _delete(client, step.ledgers)
        await logs.reclaimed(cluster, name, log_id, step.up_to)
        count += len(step.ledgers)
    return count


async def delete(client: Client, name: str, log_id: str, now_ms: int) -> None:
    """Delete a log: mark it, delete its ledgers and cursors, and remove the record last.

    Autorecovery may go on with the same deletion, and be faster: then it is done.
    """
    await logs.begin_deletion(client.cluster, name, log_id)
    with suppress(NoLogError, OtherIncarnation):
        await reclaim(client, name, log_id)
        await log_cursors.delete_all(client.cluster, name)
        await logs.remove(client.cluster, name, log_id, now_ms=now_ms)


async def _to_first(
    client: Client, name: str, record: LogRecord, may_go: Callable[[LogLedger], bool]
) -> bool:
    """Move the start to the first ledger that may not go."""
    found = await logs.search(client.cluster, name, record, may_go)
    start = retention.new_start(record, found)
    if start is None:
        return False
    await logs.trim(client.cluster, name, record.id, *start)
    return True


async def _delete(client: Client, ledgers: Iterable[int]) -> None:
    await together(client.delete(one, by=DELETER) for one in ledgers)
