"""The commands that copy a log: what they check before Spark is started, and what they do.

Unlike other jobs they give no rows. They find nothing: what they cannot copy whole is an error.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyspark.sql import SparkSession

from zonekeeper.pipeline.jobs import log_export, log_import, log_mirror
from zonekeeper.pipeline.planning import copy_options
from zonekeeper.pipeline.planning.job_outcome import JobOutcome
from zonekeeper.placement.base.settings import Setting

#: Takes a line of progress.
Telling: TypeAlias = Callable[[str], None]
#: Does the job; it was checked.
Doing: TypeAlias = Callable[[SparkSession, Telling], JobOutcome]
#: Refuses a cluster that is away, or a log that cannot be copied; gives what does the job.
Checking: TypeAlias = Callable[[], Doing]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyJob:
    """One of the commands."""

    name: str
    help: str
    settings: tuple[Setting, ...]
    #: Refuses wrong options.
    parsed: Callable[[Mapping[str, str]], Checking]


def _export(texts: Mapping[str, str]) -> Checking:
    options = copy_options.parse_export(texts)

    def export(spark: SparkSession, _: Telling) -> JobOutcome:
        return log_export.outcome(log_export.exported(spark, options), options)

    def checked() -> Doing:
        log_export.check(options)
        return export

    return checked


def _import(texts: Mapping[str, str]) -> Checking:
    options = copy_options.parse_import(texts)

    def bring_in(spark: SparkSession, _: Telling) -> JobOutcome:
        return log_import.outcome(log_import.imported(spark, options), options)

    def checked() -> Doing:
        log_import.check(options)
        return bring_in

    return checked


def _mirror(texts: Mapping[str, str]) -> Checking:
    options = copy_options.parse_mirror(texts)

    def checked() -> Doing:
        start = log_mirror.begun(options)

        def mirror(spark: SparkSession, tell: Telling) -> JobOutcome:
            query = log_mirror.started(spark, options, start)
            return log_mirror.outcome(log_mirror.follow(query, tell), options, start)

        return mirror

    return checked


COPY_JOBS: Final = (
    CopyJob(
        name="log-export",
        help="Write a log, or a range of it, into Parquet files, and compare.",
        settings=copy_options.EVERY_COPY + copy_options.OF_EXPORT,
        parsed=_export,
    ),
    CopyJob(
        name="log-import",
        help="Make a log of an export, with sequences and times as they were, and compare.",
        settings=copy_options.EVERY_COPY + copy_options.OF_IMPORT,
        parsed=_import,
    ),
    CopyJob(
        name="log-mirror",
        help="Follow a log into a log of another cluster; each message comes once.",
        settings=copy_options.EVERY_COPY + copy_options.OF_MIRROR,
        parsed=_mirror,
    ),
)
