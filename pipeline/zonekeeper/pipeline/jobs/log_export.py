"""The job ``log-export``: the messages of a log, or of a range of it, as Parquet files.

Each message is hashed where it is read, before Spark has it. The files are written, read back, and
hashed again. Only if both are equal, and no sequence is lacking, a manifest is put beside the files
(``export_manifest``), and the folder gets its name. So a folder of that name is whole. Until then
the folder's name ends with ``.partial``. An export that is started again removes that one, and
begins anew.

The end of the range is fixed when the job begins, so a log that grows meanwhile does no harm. A log
that is trimmed into the range, or deleted, ends the job.
"""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Observation, SparkSession

from zonekeeper.pipeline.base import one_line, worker_client
from zonekeeper.pipeline.jobs import log_hashing
from zonekeeper.pipeline.planning import copy_options, job_options
from zonekeeper.pipeline.planning.copy_options import ExportOptions
from zonekeeper.pipeline.planning.hadoop_files import FilesRefused, HadoopFiles
from zonekeeper.pipeline.planning.job_outcome import JobOutcome
from zonekeeper.pipeline.reading import message_rows
from zonekeeper.pipeline.reading.slices import LogSpan
from zonekeeper.pipeline.reports import export_manifest, import_plan, message_hash
from zonekeeper.pipeline.reports.export_manifest import ExportManifest
from zonekeeper.pipeline.reports.message_hash import MessageSums
from zonekeeper.pipeline.source import planning
from zonekeeper.placement.base.troubles import Trouble

#: The folder of an export that is not whole.
PARTIAL: Final = ".partial"
_TOKEN_BYTES: Final = 16

_logger = logging.getLogger(__name__)


class ExportDiffers(Trouble):
    """What was written is not what was read; nothing of it is left."""

    retryable = True


def log_export(  # noqa: PLR0913 each is an option
    spark: SparkSession,
    *,
    metadata: str,
    log: str,
    output: str,
    first: str | None = None,
    last: str | None = None,
    password_file: str | None = None,
    tls_authority: str | None = None,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
) -> ExportManifest:
    """Export messages of a log into a folder of Parquet files; give what it holds."""
    given = {name: text for name, text in locals().items() if name != "spark" and text is not None}
    texts = {name.replace("_", "-"): text for name, text in given.items()}
    with one_line.told():
        return exported(spark, copy_options.parse_export(texts, job_options.of_python))


def exported(spark: SparkSession, options: ExportOptions) -> ExportManifest:
    """Export a log; see above."""
    files = HadoopFiles(spark)
    if files.is_there(options.output):
        raise FilesRefused(
            f"{options.output} exists already, and nothing is overwritten; name another path, or "
            "remove it"
        )
    span = _span(options)
    partial = f"{options.output}{PARTIAL}"
    files.remove(partial)
    with _whole_or_nothing(files, partial):
        read = _written(spark, options, span, partial)
        back = import_plan.total(log_hashing.ledgers_of(spark.read.parquet(partial)), span.first)
        _check(span, read, back)
        _check_kept(options, span)
        manifest = ExportManifest(
            export=secrets.token_hex(_TOKEN_BYTES), log=span.name, log_id=span.log_id, sums=back
        )
        files.write(f"{partial}/{export_manifest.FILE}", export_manifest.build(manifest))
        files.rename(partial, options.output)
    return manifest


def check(options: ExportOptions) -> None:
    """Refuse a log that cannot be read, before Spark is started; nothing is changed."""
    _span(options)


def outcome(manifest: ExportManifest, options: ExportOptions) -> JobOutcome:
    """Say what was exported."""
    line = f"log {manifest.log} is in {options.output}: {manifest.sums}"
    return JobOutcome(lines=(line,), found=False)


@contextmanager
def _whole_or_nothing(files: HadoopFiles, partial: str) -> Iterator[None]:
    """Remove what is half done when the block fails."""
    try:
        yield
    except BaseException:
        try:
            files.remove(partial)
        except (Py4JError, OSError) as error:
            _logger.warning("%s is left over; remove it: %s", partial, error)
        raise


def _span(options: ExportOptions) -> LogSpan:
    """Fix which messages of which incarnation are exported."""
    with worker_client.connect(options.connection.metadata, options.connection.config()) as kept:
        return kept.calls.do(lambda: planning.span_of(kept.opened, options.log))


def _check_kept(options: ExportOptions, span: LogSpan) -> None:
    """Raise ``OtherIncarnation`` if what was read may be of another log of the name."""
    with worker_client.connect(options.connection.metadata, options.connection.config()) as kept:
        kept.calls.do(lambda: planning.check_incarnation(kept.opened, span.name, span.log_id))


def _written(spark: SparkSession, options: ExportOptions, span: LogSpan, path: str) -> MessageSums:
    """Write the messages; give the sums of them as they were read from the log."""
    if span.first == span.end:
        _empty(spark).write.parquet(path)
        return message_hash.none_from(span.first)
    read = log_hashing.hashed(spark, options.connection, span.name, span.first, span.end)
    seen = Observation()
    rows = read.observe(seen, *log_hashing.totals()).drop(*log_hashing.LANES)
    rows.write.parquet(path)
    return log_hashing.sums_of(seen.get)


def _empty(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], message_rows.COLUMNS.schema())


def _check(span: LogSpan, read: MessageSums, back: MessageSums) -> None:
    wanted = (span.first, span.end)
    if read != back or not read.is_dense or (read.first, read.end) != wanted:
        raise ExportDiffers(
            f"log {span.name}, from message {span.first} up to {span.end}: {read} were read, and "
            f"the files have {back}; the files are removed; run the export again"
        )
