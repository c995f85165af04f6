"""``python -m zonekeeper.pipeline JOB``: a job as a command.

====  ==============================================================================
   0  the job was done, and found nothing; of a repair: and nothing is left
   1  the job was done, and found something: its lines say what
   2  the job could not be done: wrong options, no Java, no cluster, a failed task
 130  the command was interrupted
====  ==============================================================================

Standard output has what was found, standard error progress and errors. An error is one line that
begins with ``Error:``. Only a bug of ours has a traceback, and it ends with 2 as well: the cluster
is then not known to be well.
"""

import argparse
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from py4j.protocol import Py4JError
from pyspark import StatusTracker
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from zonekeeper.pipeline.base import java_runtime, one_line, option_texts
from zonekeeper.pipeline.jobs import (
    copy_jobs,
    placement_audit,
    replica_audit,
    zone_repair,
    zone_report,
)
from zonekeeper.pipeline.jobs.copy_jobs import CopyJob
from zonekeeper.pipeline.planning import job_options, job_output, job_progress, job_source
from zonekeeper.pipeline.planning.job_options import JobOptions
from zonekeeper.pipeline.planning.job_outcome import JobAhead, JobOutcome
from zonekeeper.pipeline.planning.job_progress import JobProgress
from zonekeeper.placement.base.settings import Setting
from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.placement.zones.losses import Held

NOTHING: Final = 0
FOUND: Final = 1
NOT_DONE: Final = 2
INTERRUPTED: Final = 130

#: How a trouble of a worker stands in what Spark says.
_TOLD: Final = re.compile(r"zonekeeper\.pipeline\.Not(?:Read|Written): ([^\n]*)")
#: How the Java error stands behind the name of the call that failed.
_OF_JAVA: Final = ": "


class BadCommandError(Refusal):
    """The command cannot be carried out as it was given; nothing was read."""


#: Says what a job waits for; None: for nothing.
Waiting: TypeAlias = Callable[[], Held | None]


def _nothing() -> Held | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineJob:
    """One job of the command line."""

    name: str
    help: str
    settings: tuple[Setting, ...]
    frame: Callable[..., DataFrame]
    outcome: Callable[[DataFrame], JobOutcome]
    #: The rows that are written, of those that the outcome is made of.
    kept: Callable[[DataFrame], DataFrame] = lambda frame: frame
    #: The endings of what can be written.
    endings: tuple[str, ...] = job_output.TABLES
    #: Makes the page of HTML, if the job has one.
    page: Callable[[DataFrame, str, JobOptions], str] | None = None
    #: For a job that waits: says for what.
    held: Callable[[JobOptions], AbstractContextManager[Waiting]] = lambda _: nullcontext(_nothing)
    #: Settings that are the command's own: the job itself does not know them.
    of_command: tuple[Setting, ...] = ()
    #: Looks before the job begins; its second parameter takes lines of progress.
    before: Callable[[JobOptions, Callable[[str], None]], JobAhead] | None = None
    #: Looks once more when the job has ended.
    after: Callable[[JobOptions], JobOutcome] | None = None


JOBS: Final = (
    PipelineJob(
        name="placement-audit",
        help="How well each fragment keeps the policy, and what each loss would do.",
        settings=placement_audit.PlacementAuditSource.SETTINGS,
        frame=placement_audit.placement_audit,
        outcome=placement_audit.outcome,
    ),
    PipelineJob(
        name="replica-audit",
        help="Read every entry on each of its bookies, and compare.",
        settings=replica_audit.ReplicaAuditSource.SETTINGS,
        frame=replica_audit.everything,
        outcome=replica_audit.outcome,
        kept=replica_audit.without_readings,
        held=replica_audit.held,
    ),
    PipelineJob(
        name="zone-report",
        help="What zones, upgrade domains and bookies hold, and what the loss of each costs.",
        settings=zone_report.ZoneReportSource.SETTINGS,
        frame=zone_report.zone_report,
        outcome=zone_report.outcome,
        endings=(*job_output.TABLES, job_output.HTML),
        page=zone_report.page,
    ),
    PipelineJob(
        name="zone-repair",
        help="Copy again what the auditor has marked, as far as the gates permit, and audit it.",
        settings=zone_repair.ZoneRepairSource.SETTINGS,
        frame=zone_repair.everything,
        outcome=zone_repair.outcome,
        kept=zone_repair.without_sums,
        held=zone_repair.held,
        of_command=(*job_options.PRICES, job_options.DRY_RUN),
        before=zone_repair.before,
        after=zone_repair.after,
    ),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Raise in one line what argparse would print in several."""
        raise BadCommandError(f"{message}; `{self.prog} --help` lists what there is")


def main(words: Sequence[str] | None = None) -> int:
    """Run a job; give the exit code."""
    try:
        return _run(sys.argv[1:] if words is None else words)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    except (Trouble, OSError) as error:
        sys.stderr.write(f"Error: {one_line.line_of(error)}\n")
    except (PySparkException, Py4JError) as error:
        sys.stderr.write(f"Error: {of_spark(str(error))}\n")
    except Exception:  # noqa: BLE001 a bug must not end with the exit code of a finding
        traceback.print_exc()
    return NOT_DONE


def of_spark(text: str) -> str:
    """Give what Spark says in one line: what the job's own worker said, if it did."""
    told = _TOLD.search(text)
    if told is not None:
        return told[1].strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    of_java = [line.removeprefix(_OF_JAVA) for line in lines if line.startswith(_OF_JAVA)]
    why = next(iter([*of_java, *lines]), "it does not say why")
    return f"Spark could not run the job: {why}"


def _run(words: Sequence[str]) -> int:
    given = vars(_parser().parse_args(words))
    name = given.pop("job")
    job = next(one for one in (*JOBS, *copy_jobs.COPY_JOBS) if one.name == name)
    master, quiet, log_level = given.pop("master"), given.pop("quiet"), given.pop("log_level")
    if isinstance(job, CopyJob):
        return _copied(job, _texts(given), master, log_level, quiet=quiet)
    outputs = given.pop("output")
    texts = _texts(given)
    options = job_options.parse(texts, job.settings + job.of_command)
    job_output.check_apart(outputs)
    for path in outputs:
        job_output.ending(path, job.endings)
        if path.endswith(job_output.HTML):
            job_output.check_no_file(path)
    check_java(os.environ)
    with job_source.connected(options):
        pass  # a cluster that is away, or has no policy, is told now, in one line
    ahead = None if job.before is None else _ahead(job.before, options, quiet=quiet)
    if ahead is not None and ahead.ends:
        return FOUND if ahead.found else NOTHING
    spark = _session(job.name, master, log_level)
    try:
        for path in outputs:
            job_output.check_absent(spark, path)
        with job.held(options) as held:
            progress = None if quiet else JobProgress(sys.stderr, time.perf_counter)
            watched = job_progress.followed(progress, _tracker(spark), held)
            outcome = _done(spark, job, options, texts, outputs, watched)
    finally:
        spark.stop()
    _say(outcome.lines)
    later = JobOutcome(lines=(), found=False) if job.after is None else job.after(options)
    _say(later.lines)
    found = outcome.found or later.found or (ahead is not None and ahead.found)
    return FOUND if found else NOTHING


def _ahead(
    before: Callable[[JobOptions, Callable[[str], None]], JobAhead],
    options: JobOptions,
    *,
    quiet: bool,
) -> JobAhead:
    """Print what the job would do; raises its refusal."""

    def tell(line: str) -> None:
        if not quiet:
            sys.stderr.write(f"{line}\n")

    ahead = before(options, tell)
    _say(ahead.lines)
    if ahead.refusal is not None:
        raise ahead.refusal
    return ahead


def _say(lines: Sequence[str]) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def _texts(given: Mapping[str, str | None]) -> dict[str, str]:
    return {name.replace("_", "-"): text for name, text in given.items() if text is not None}


def _copied(
    job: CopyJob, texts: Mapping[str, str], master: str | None, log_level: str, *, quiet: bool
) -> int:
    """Copy a log; what is copied was compared, so there is nothing to be found."""
    checking = job.parsed(texts)
    check_java(os.environ)
    do = checking()

    def tell(line: str) -> None:
        if not quiet:
            with suppress(OSError):  # nobody listens
                sys.stderr.write(f"{line}\n")
                sys.stderr.flush()

    spark = _session(job.name, master, log_level)
    try:
        outcome = do(spark, tell)
    finally:
        spark.stop()
    _say(outcome.lines)
    return FOUND if outcome.found else NOTHING


def _done(
    spark: SparkSession,
    job: PipelineJob,
    options: JobOptions,
    texts: Mapping[str, str],
    outputs: Sequence[str],
    watched: AbstractContextManager[None],
) -> JobOutcome:
    own = {setting.name for setting in job.of_command}
    given = {job_options.of_python(name): text for name, text in texts.items() if name not in own}
    # The cluster is read once: rows are kept on the executors' disks until all is written.
    rows = job.frame(spark, **given).persist(StorageLevel.DISK_ONLY)
    with watched:
        for path in outputs:
            if path.endswith(job_output.HTML):
                assert job.page is not None, "checked with the endings"
                made_at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
                job_output.write_page(job.page(rows, made_at, options), path)
            else:
                job_output.write_table(job.kept(rows), path)
        return job.outcome(rows)


def _tracker(spark: SparkSession) -> StatusTracker | None:
    return spark.sparkContext.statusTracker() if hasattr(spark, "sparkContext") else None


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m zonekeeper.pipeline",
        description="Jobs over a whole cluster, on Spark.",
        epilog="Exit codes: 0 nothing was found, or is left; 1 something was; "
        "2 it could not be done.",
    )
    jobs = parser.add_subparsers(dest="job", required=True, metavar="JOB", parser_class=_Parser)
    for job in (*JOBS, *copy_jobs.COPY_JOBS):
        one = jobs.add_parser(job.name, help=job.help, description=job.help, allow_abbrev=False)
        own = job.of_command if isinstance(job, PipelineJob) else ()
        for setting in (*job.settings, *own):
            otherwise = f" [{setting.what_else}]" if setting.what_else else ""
            is_yes = setting.shown_as == option_texts.YES
            one.add_argument(
                f"--{setting.name}",
                metavar=setting.shown_as,
                # A flag alone means yes.
                nargs="?" if is_yes else None,
                const=option_texts.YES if is_yes else None,
                help=f"{setting.help}{otherwise}".replace("%", "%%"),
            )
        if isinstance(job, PipelineJob):
            one.add_argument(
                "--output",
                metavar="PATH",
                action="append",
                default=[],
                help=f"Where the rows go; the ending says how: {', '.join(job.endings)}. "
                "Can be given several times.",
            )
        one.add_argument(
            "--master",
            metavar="URL",
            help="Spark's master, such as local[4] [what spark-submit says, else local[*]]",
        )
        one.add_argument(
            "--log-level",
            choices=("OFF", "ERROR", "WARN", "INFO"),
            default="OFF",
            help="What Spark logs; an error of the job is told in one line in any case. [OFF]",
        )
        one.add_argument("--quiet", action="store_true", help="Say nothing of the progress.")
    return parser


def check_java(environment: Mapping[str, str]) -> None:
    """Raise ``NoJava`` if this process would have to start Java, and there is none."""
    if "PYSPARK_GATEWAY_PORT" not in environment and "SPARK_REMOTE" not in environment:
        java_runtime.found(environment)


def _session(name: str, master: str | None, log_level: str) -> SparkSession:
    # Without it workers run the first python3 on the PATH, which may lack what this one has.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(f"zonekeeper {name}")
    if master is not None:
        builder = builder.master(master)
    spark = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    if hasattr(spark, "sparkContext"):
        spark.sparkContext.setLogLevel(log_level)
    return spark
