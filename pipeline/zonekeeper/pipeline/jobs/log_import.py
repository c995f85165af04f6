"""The job ``log-import``: an export of ``log-export`` becomes a new log.

A message keeps its payload, key, headers, time and sequence. Its id is of the new log. All messages
come into the log in one step, as one batch of a job. Until then the log is empty, so a log with
messages is whole. The job hashes the files first, and compares them with their manifest. Behind
that step it reads the log, and compares again. If anything fails, the log that was made is deleted.

If the job is ended from outside, the empty log stays. The job that is started again with the same
export takes that log, and goes on. If the messages had come in before, it only compares.

One task writes at a time: ledgers of a log are in the order of their ids.
"""

import logging
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from zonekeeper.log.publishing import partitions
from zonekeeper.log.publishing.partitions import BatchPart, QueryBatch
from zonekeeper.metadata.formats.log_record import LogRecord, LogTaken
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.logs import log_queries
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.metadata.logs.logs import LogExistsError, NoLogError
from zonekeeper.pipeline.base import one_line, worker_client
from zonekeeper.pipeline.base.one_line import NotWritten
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.jobs import log_hashing
from zonekeeper.pipeline.planning import copy_options, job_options
from zonekeeper.pipeline.planning.copy_options import ImportOptions
from zonekeeper.pipeline.planning.hadoop_files import FilesRefused, HadoopFiles
from zonekeeper.pipeline.planning.job_outcome import JobOutcome
from zonekeeper.pipeline.reading import message_rows
from zonekeeper.pipeline.reports import export_manifest, import_plan, message_hash
from zonekeeper.pipeline.reports.export_manifest import ExportManifest
from zonekeeper.pipeline.reports.import_plan import ExportDamaged, SequenceRange
from zonekeeper.pipeline.reports.message_hash import MessageSums
from zonekeeper.pipeline.sink import import_sink, mirror_sink, part_writing
from zonekeeper.pipeline.sink.import_sink import ImportSink, ImportTask
from zonekeeper.pipeline.sink.sink_options import SinkOptions
from zonekeeper.placement.base.troubles import Trouble

_TOKEN_BYTES: Final = 8

_logger = logging.getLogger(__name__)


class ImportDiffers(Trouble):
    """What the log has is not what the files have; the log was deleted."""


def log_import(  # noqa: PLR0913 each is an option
    spark: SparkSession,
    *,
    metadata: str,
    log: str,
    input: str,  # noqa: A002 the option's name
    password_file: str | None = None,
    tls_authority: str | None = None,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
) -> ExportManifest:
    """Make a log of an export; give what it holds, with the new log's name and id."""
    given = {name: text for name, text in locals().items() if name != "spark" and text is not None}
    texts = {name.replace("_", "-"): text for name, text in given.items()}
    with one_line.told(NotWritten):
        return imported(spark, copy_options.parse_import(texts, job_options.of_python))


def imported(spark: SparkSession, options: ImportOptions) -> ExportManifest:
    """Import an export; see above."""
    manifest = _manifest(HadoopFiles(spark), options.source)
    sink = SinkOptions(connection=options.connection, log=options.log)
    run = QueryRun(query=f"import-{manifest.export}", run=secrets.token_hex(_TOKEN_BYTES))
    of = QueryBatch(log=options.log, run=run, batch=0, is_job=True, begins_at=manifest.sums.first)
    with worker_client.connect(options.connection.metadata, options.connection.config()) as kept:
        _there(kept, of)  # what is refused is refused before the files are read
    files = spark.read.schema(message_rows.COLUMNS.schema()).parquet(options.source)
    ledgers = import_plan.check(manifest, log_hashing.ledgers_of(files))
    ranges = import_plan.planned(ledgers)
    with worker_client.connect(options.connection.metadata, options.connection.config()) as kept:
        record = _there(kept, of) or _made(kept, of)
        with _whole_or_none(kept, of, record.id):
            if not log_queries.is_known(record, run.query, of.batch):
                spark.dataSource.register(ImportSink)
                parts = [_written(files, options, of, at, one) for at, one in enumerate(ranges)]
                part_writing.published(sink, parts)
            _check(spark, options, record, manifest.sums)
    return ExportManifest(
        export=manifest.export, log=options.log, log_id=record.id, sums=manifest.sums
    )


def check(options: ImportOptions) -> None:
    """Refuse a cluster that cannot be reached, before Spark is started; nothing is changed."""
    with worker_client.connect(options.connection.metadata, options.connection.config()) as kept:
        kept.calls.do_now(kept.opened.client.bookies.check)


def outcome(manifest: ExportManifest, options: ImportOptions) -> JobOutcome:
    """Say what was imported."""
    line = f"log {manifest.log} has what is in {options.source}: {manifest.sums}"
    return JobOutcome(lines=(line,), found=False)


def _manifest(files: HadoopFiles, source: str) -> ExportManifest:
    path = f"{source}/{export_manifest.FILE}"
    if not files.is_there(path):
        raise FilesRefused(
            f"{source} is no export of a log, or not a whole one: there is no {path}; nothing was "
            "done: export the log by log-export"
        )
    try:
        return export_manifest.parse(files.read(path, export_manifest.MANIFEST_BYTES_MAX))
    except UnreadableError as error:
        raise ExportDamaged(f"{path}: {error}; nothing was written") from error


# ── the log ──


def _there(kept: KeptClient, of: QueryBatch) -> LogRecord | None:
    """Give the log that an earlier run of this import has made; refuse any other of the name."""
    try:
        record = kept.logs.record(of.log)
    except NoLogError:
        return None
    if not is_of_import(record, of):
        raise LogExistsError(
            f"there is a log {of.log}, and an import makes its log itself; nothing was changed: "
            "name another log, or delete that one"
        )
    return record


def _made(kept: KeptClient, of: QueryBatch) -> LogRecord:
    assert of.begins_at is not None, "an import is a copy"
    kept.logs.create(of.log, first_sequence=of.begins_at)
    return kept.logs.record(of.log)


def is_of_import(record: LogRecord, of: QueryBatch) -> bool:
    """Was a log made by an import of the same export, and written by nothing else since?"""
    if record.deleting or log_queries.of(record, of.run.query) is None:
        return False
    try:
        partitions.check_only_copied(of, record)
    except LogTaken:
        return False
    is_known = log_queries.is_known(record, of.run.query, of.batch)
    return is_known or (record.start_sequence == of.begins_at and not record.ledgers)


@contextmanager
def _whole_or_none(kept: KeptClient, of: QueryBatch, log_id: str) -> Iterator[None]:
    """Delete the log that was made when the block fails, unless another program writes it."""
    try:
        yield
    except BaseException:
        try:
            _delete(kept, of, log_id)
        except (Trouble, OSError) as error:
            _logger.warning(
                "log %s was made for an import that failed, and is still there: %s; look at it, "
                "and delete it",
                of.log,
                error,
            )
        raise


def _delete(kept: KeptClient, of: QueryBatch, log_id: str) -> None:
    try:
        record = kept.logs.record(of.log)
    except NoLogError:
        return
    if record.id == log_id:
        partitions.check_only_copied(of, record)
        kept.logs.delete(of.log)


# ── the messages ──


def _written(
    files: DataFrame, options: ImportOptions, of: QueryBatch, number: int, some: SequenceRange
) -> BatchPart:
    """Write some messages into a ledger, by one task."""
    rows = (
        files.where(sql.col("sequence").between(some.first, some.end - 1))
        .select(*mirror_sink.COLUMNS)
        .coalesce(1)
        .sortWithinPartitions("sequence")
    )
    with tempfile.TemporaryDirectory(prefix="zonekeeper-import-") as folder:
        task = ImportTask(of=of, number=number, first=some.first, file=f"{folder}/part")
        connection = copy_options.for_spark(options.connection)
        writing = rows.write.format(ImportSink.name()).options(**connection, log=options.log)
        writing.options(**task.options()).mode("append").save()
        return import_sink.part_of(task)


def _check(
    spark: SparkSession, options: ImportOptions, record: LogRecord, wanted: MessageSums
) -> None:
    """Hold that the log has what the files have."""
    found = message_hash.none_from(wanted.first)
    if wanted.messages:
        log = log_hashing.hashed(spark, options.connection, options.log, wanted.first, wanted.end)
        found = log_hashing.sums_of(log.agg(*log_hashing.totals()).collect()[0])
    if found != wanted:
        raise ImportDiffers(
            f"log {options.log}, with id {record.id}, has {found}, and the export has {wanted}; "
            "the log is deleted; import it again"
        )
