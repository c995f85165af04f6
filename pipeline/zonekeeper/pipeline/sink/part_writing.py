"""What a task does with its rows, and what the driver's side does with the parts.

A task without a row asks nothing of the cluster. The side of the driver runs in a process that
knows nothing: all that it needs is in the parts.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from zonekeeper.client.base import boundary
from zonekeeper.log.base.errors import BadBatch
from zonekeeper.log.formats.messages import BadMessageError
from zonekeeper.log.publishing.blocking_queries import BlockingQueryLogs
from zonekeeper.log.publishing.partitions import (
    BatchPart,
    CopyTaken,
    IdlePartition,
    QueryBatch,
)
from zonekeeper.log.publishing.publishing import PublishedBatch
from zonekeeper.log.publishing.query_logs import QueryLogs
from zonekeeper.log.sessions import locating
from zonekeeper.metadata.formats.log_record import LogDeleting, LogTaken
from zonekeeper.metadata.logs import logs
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import sink_columns
from zonekeeper.pipeline.sink.sink_options import SinkOptions
from zonekeeper.placement.base.troubles import Trouble

_logger = logging.getLogger(__name__)


def check_log(options: SinkOptions) -> None:
    """Refuse a log that is not there, or has another password; nothing is changed."""
    kept = _connected(options)
    kept.calls.do(lambda: _checked(kept, options.log))


async def _checked(kept: KeptClient, name: str) -> None:
    client = kept.opened.client
    with boundary.translated(f"looking at log {name}"):
        record = await logs.find(client.cluster, name)
        if record.deleting:
            raise LogDeleting(f"log {name} is being deleted; nothing was written")
        await locating.check_password(client, name, record)


def written(
    options: SinkOptions,
    of: QueryBatch,
    partition: int,
    batches: Iterable[RecordBatch],
    *,
    small_bytes: int | None = None,
) -> BatchPart:
    """Write the rows of one task as an attempt of its partition.

    The rows of a copy have a column ``time``, and keep their times. What fails leaves nothing in
    the log; its ledger is deleted at once where that is possible.
    """
    with _as_copy(of.log, is_copy=of.begins_at is not None):
        return _written(options, of, partition, batches, small_bytes)


def _written(
    options: SinkOptions,
    of: QueryBatch,
    partition: int,
    batches: Iterable[RecordBatch],
    small_bytes: int | None,
) -> BatchPart:
    attempt = None
    row = 0
    try:
        for batch in batches:
            if not batch.num_rows:
                continue
            if attempt is None:
                attempt = _queries(options).attempt(of, partition, small_bytes=small_bytes)
            try:
                times = None if of.begins_at is None else sink_columns.times(batch)
                attempt.append_columns(sink_columns.columns(batch), times)
            except BadMessageError as error:
                raise BadMessageError(
                    f"partition {partition}, in rows {row} to {row + batch.num_rows - 1}: {error}"
                ) from error
            row += batch.num_rows
        if attempt is None:
            return IdlePartition(of=of, partition=partition)
        return attempt.finish()
    except BaseException:
        if attempt is not None:
            with suppress(Trouble, OSError):  # the collector deletes what is left
                attempt.discard()
        raise


@contextmanager
def _as_copy(log: str, *, is_copy: bool) -> Iterator[None]:
    """Say of a copy that it takes the log from nobody."""
    try:
        yield
    except CopyTaken:
        raise
    except LogTaken as error:
        if not is_copy:
            raise
        raise CopyTaken(
            f"another writer has taken log {log}, or a newer run of this copy has it; nothing more "
            "is copied by this run; what another program writes is no copy: copy into another log"
        ) from error


def published(options: SinkOptions, parts: Sequence[BatchPart | None]) -> PublishedBatch:
    """Publish a batch whose tasks have all given a part."""
    if None in parts:
        raise BadBatch(
            f"log {options.log}: {parts.count(None)} of {len(parts)} tasks have no part; nothing "
            "was published; run the batch again"
        )
    if all(isinstance(one, IdlePartition) and not one.is_known for one in parts):
        return PublishedBatch()
    is_copy = any(one is not None and one.of.begins_at is not None for one in parts)
    with _as_copy(options.log, is_copy=is_copy):
        done = _queries(options).publish(parts)
    _logger.info("log %s: %s", options.log, done)
    return done


def ended(options: SinkOptions, job: str) -> None:
    """Note that a job was aborted; a failure of this hides not why it was."""
    try:
        _queries(options).end_job(options.log, job)
    except (Trouble, OSError) as error:
        _logger.warning(
            "log %s: job %s failed, and that could not be noted: %s; its ledgers are collected "
            "once another writer has taken the log",
            options.log,
            job,
            error,
        )


def _connected(options: SinkOptions) -> KeptClient:
    return worker_client.kept(options.connection.metadata, options.connection.config())


def _queries(options: SinkOptions) -> BlockingQueryLogs:
    kept = _connected(options)
    queries = QueryLogs(kept.opened.client, lambda: time.time_ns() // 1_000_000)
    return BlockingQueryLogs(queries, kept.calls)
