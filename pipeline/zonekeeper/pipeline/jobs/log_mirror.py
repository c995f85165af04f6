"""The job ``log-mirror``: one cluster's log followed into a log of another cluster.

The messages keep their sequences, keys, headers and times, and their order. The log that is written
says how far the mirror is (``sink.mirror_sink``). With each start the mirror begins there, if
Spark's checkpoint does not say how it was going on. So a checkpoint that is lost costs nothing, and
one that does not fit is refused.

The log that is written has no other writer. One that another program writes or wrote is refused,
and so is the log that is followed.
"""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from zonekeeper.log.api.log_client import LogClient
from zonekeeper.log.publishing import partitions
from zonekeeper.log.publishing.partitions import QueryBatch
from zonekeeper.metadata.formats import log_record
from zonekeeper.metadata.formats.log_record import LogRecord
from zonekeeper.metadata.logs import log_queries
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.metadata.logs.logs import LogExistsError, NoLogError
from zonekeeper.pipeline.base import one_line, option_texts, worker_client
from zonekeeper.pipeline.base.connection_options import ConnectionOptions
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.planning import copy_options, job_options
from zonekeeper.pipeline.planning.copy_options import MirrorOptions
from zonekeeper.pipeline.planning.job_outcome import JobOutcome
from zonekeeper.pipeline.reports import mirror_progress
from zonekeeper.pipeline.reports.mirror_progress import MirrorProgress
from zonekeeper.pipeline.sink import mirror_sink
from zonekeeper.pipeline.sink.mirror_sink import MirrorSink
from zonekeeper.pipeline.source import planning
from zonekeeper.placement.base.troubles import Refusal

#: A micro-batch ends before the batch of the log that would make it larger.
BATCH_BYTES: Final = 256 << 20
#: So often the command looks how far the mirror is, and says it at most so often.
LOOK_EVERY_S: Final = 1
TOLD_EVERY_S: Final = 10.0


class MirrorRefused(Refusal):
    """The log cannot be mirrored as wanted; nothing was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorStart:
    """Where a mirror begins."""

    #: The id of the log that is followed.
    log_id: str
    #: The sequence that follows in the log that is written.
    at: int
    #: The sequence behind the last message of the log that is followed.
    end: int


def log_mirror(  # noqa: PLR0913 each is an option
    spark: SparkSession,
    *,
    metadata: str,
    log: str,
    checkpoint: str,
    to_metadata: str | None = None,
    to_log: str | None = None,
    create: bool = False,
    until_now: bool = False,
    every: int | None = None,
    password_file: str | None = None,
    tls_authority: str | None = None,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
    to_password_file: str | None = None,
    to_tls_authority: str | None = None,
    to_tls_certificate: str | None = None,
    to_tls_key: str | None = None,
) -> StreamingQuery:
    """Follow a log into another one; give the query, which may be waited for and stopped."""
    given = {name: text for name, text in locals().items() if name != "spark" and text is not None}
    texts = {name.replace("_", "-"): _text(value) for name, value in given.items()}
    with one_line.told():
        options = copy_options.parse_mirror(texts, job_options.of_python)
        return started(spark, options, begun(options))


def _text(value: object) -> str:
    return ("no", option_texts.YES)[value] if isinstance(value, bool) else str(value)


def started(
    spark: SparkSession,
    options: MirrorOptions,
    start: MirrorStart,
    sink: type[MirrorSink] = MirrorSink,
) -> StreamingQuery:
    """Start the query of a mirror."""
    spark.dataSource.register(sink)
    rows = (
        spark.readStream.format("zonekeeper")
        .options(**copy_options.for_spark(options.of), log=options.log)
        .option("from", f"sequence:{start.at}")
        .option("partitions", 1)
        .option("maxBytesPerTrigger", BATCH_BYTES)
        .load()
        .select(*mirror_sink.COLUMNS)
    )
    writing = (
        rows.writeStream.format(sink.name())
        .options(**copy_options.for_spark(options.to), log=options.to_log)
        .option(mirror_sink.OF, start.log_id)
        .option("checkpointLocation", options.checkpoint)
    )
    if options.until_now:
        return writing.trigger(availableNow=True).start()
    return writing.trigger(processingTime=f"{options.every_s} seconds").start()


def follow(query: StreamingQuery, tell: Callable[[str], None]) -> MirrorProgress | None:
    """Wait until a mirror ends, and tell its lag; raises what ends it. Give how far it came."""
    told_at_s, told = time.perf_counter() - TOLD_EVERY_S, None
    try:
        while not query.awaitTermination(LOOK_EVERY_S):
            seen = mirror_progress.seen(query.lastProgress)
            now_s = time.perf_counter()
            if seen is not None and seen != told and now_s - told_at_s >= TOLD_EVERY_S:
                told, told_at_s = seen, now_s
                tell(str(seen))
    finally:
        if query.isActive:
            query.stop()
    return mirror_progress.seen(query.lastProgress)


def outcome(seen: MirrorProgress | None, options: MirrorOptions, start: MirrorStart) -> JobOutcome:
    """Say how far a mirror came that has ended."""
    came = seen or MirrorProgress(copied=start.at, end=start.end)
    line = f"log {options.log} is mirrored into log {options.to_log}: {came}"
    return JobOutcome(lines=(line,), found=False)


# ── the two logs ──


def begun(options: MirrorOptions) -> MirrorStart:
    """Look at both logs, and make the one that is written if that is wanted."""
    with _connected(options.of) as of, _connected(options.to) as to:
        record = of.calls.do(lambda: planning.record_of(of.opened, options.log))
        _, end = of.calls.do(lambda: planning.end_of(of.opened, options.log, record))
        written = to.calls.do(lambda: _written_log(to.opened, options, record))
    return MirrorStart(log_id=record.id, at=start_of(options, record, end, written), end=end)


def _connected(connection: ConnectionOptions) -> AbstractContextManager[KeptClient]:
    return worker_client.connect(connection.metadata, connection.config())


async def _written_log(to: LogClient, options: MirrorOptions, of: LogRecord) -> LogRecord:
    """Give the record of the log that is written."""
    try:
        return await planning.record_of(to, options.to_log)
    except NoLogError as error:
        if not options.create:
            raise NoLogError(
                f"{error}; nothing was copied: give create (--create) to make it with the rules of "
                f"log {options.log}"
            ) from error
    with suppress(LogExistsError):
        await to.create(options.to_log, of.rules, first_sequence=of.start_sequence)
    return await planning.record_of(to, options.to_log)


def start_of(options: MirrorOptions, of: LogRecord, end: int, to: LogRecord) -> int:
    """Give the sequence at which a mirror goes on; refuse what would be no copy."""
    if of.id == to.id:
        raise MirrorRefused(
            f"log {options.to_log} is the very log {options.log} that is followed; nothing was "
            "copied: name another log, or another cluster"
        )
    run = QueryRun(query=mirror_sink.query_of(of.id), run="")
    copies = QueryBatch(log=options.to_log, run=run, batch=0)
    partitions.check_only_copied(copies, to)
    at = log_record.next_sequence(to)
    known = log_queries.of(to, run.query)
    if at is None or ((known is None or known.published is None) and at != to.start_sequence):
        raise MirrorRefused(
            f"log {options.to_log} has messages that no mirror of log {options.log} has written; "
            "nothing was copied: name another log"
        )
    if not of.start_sequence <= at <= end:
        raise MirrorRefused(
            f"log {options.to_log} goes on with message {at}, and log {options.log} has those from "
            f"{of.start_sequence} up to {end}; a mirror keeps the sequences, so nothing was "
            "copied: let the mirror make a new log (create, or --create)"
        )
    return at
