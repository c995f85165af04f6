"""The job ``replica-audit``: it reads every entry of finished fragments on each of its bookies.

Digests are checked, and copies are compared as the same entry, by the code of the auditor's check.
Nothing is marked or copied. What is found of a ledger is given only if the ledger's metadata is
still the same afterwards. If a repair has changed it, the ledger is read again; if the ledger is
gone, nothing is found of it.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from zonekeeper.client.api import loop_thread
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.loop_thread import Calls
from zonekeeper.client.base.errors import ClientError
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.ledgers import ledgers as ledger_store
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.planning import job_options, job_source, quiet, worker_view
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.planning.job_options import JobOptions
from zonekeeper.pipeline.planning.job_outcome import JobOutcome
from zonekeeper.pipeline.planning.job_source import ROWS_AT_ONCE, JobSource, Plan, Row, TaskWorker
from zonekeeper.pipeline.planning.worker_view import WatchedView
from zonekeeper.pipeline.reports import fault_rows
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.troubles import Refusal, Trouble
from zonekeeper.placement.zones.losses import Held
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.replica_reading import ReplicaReader
from zonekeeper.replication.decisions.fault_ranges import FaultRange, FaultRanges
from zonekeeper.replication.view import listing
from zonekeeper.replication.view.pace import BytePace
from zonekeeper.replication.view.view import View

#: A ledger that is repaired again and again is read at most so often; then it stands as it was.
READINGS_MAX: Final = 3
#: So many ranges of one ledger are kept; behind them the ledger is not read.
ROWS_OF_LEDGER_MAX: Final = 100_000
#: An outcome has at most so many lines about bookies.
ROWS_SHOWN: Final = 100


class BadJobError(Refusal):
    """The job cannot be begun as it was asked for; nothing was read."""


class ReplicaAuditSource(JobSource):
    """The audit as a data source; ``replica_audit`` makes its DataFrame."""

    COLUMNS = fault_rows.COLUMNS
    SETTINGS = job_options.EVERY_JOB + job_options.OF_READING
    LEDGERS_PER_TASK: ClassVar[int] = 100
    WATCHES: ClassVar[bool] = True

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper-replica-audit"

    async def plan(self, client: Client, wanted: JobOptions) -> Plan:
        """Plan the audit; refuse a cluster that no zone watch looks at."""
        async with worker_view.followed(client) as view:
            await quiet.check_watched(view, unwatched=wanted.unwatched)
        return await super().plan(client, wanted)

    async def rows(
        self, worker: TaskWorker, plan: Plan, ranges: tuple[IdRange, ...]
    ) -> AsyncGenerator[list[Row], None]:
        """Give what was found in the ledgers of a task, and how much was read."""
        assert worker.watched is not None, "this job watches"
        reading = CopiesReading.of_plan(worker.client, worker.watched, plan)
        for first, last in ranges:
            count = 0
            entries, size_bytes = reading.so_far
            every = listing.walk(worker.client.cluster, first=first, last=last)
            async with aclosing(every) as listed:
                async for one in listed:
                    count += 1
                    if not isinstance(one, StoredLedger):
                        yield [fault_rows.of_unreadable(one.id, one.error)]
                        continue
                    found = await reading.found(one)
                    for start in range(0, len(found), ROWS_AT_ONCE):
                        yield found[start : start + ROWS_AT_ONCE]
            entries_now, bytes_now = reading.so_far
            yield [fault_rows.of_reading(count, entries_now - entries, bytes_now - size_bytes)]


class CopiesReading:
    """Reads ledgers whole, one after the other, at a task's share of the job's rate."""

    def __init__(
        self, client: Client, view: View, pace: BytePace, ready: Callable[[], Awaitable[None]]
    ) -> None:
        """``ready`` is waited for before each window of entries."""
        self._client = client
        self._ready = ready
        self._metrics = AuditorMetrics()
        self._reader = ReplicaReader(view, client.bookies.pool, self._metrics, pace)

    @classmethod
    def of_plan(cls, client: Client, watched: WatchedView, plan: Plan) -> "CopiesReading":
        """Read as a task of the audit does: at its share of the rate, while nothing holds."""
        unwatched = plan.options.unwatched
        rate = share_of(plan.options.bytes_per_second, len(plan.ranges))

        async def ready() -> None:
            await quiet.until_quiet_ends(watched, unwatched=unwatched)

        return cls(client, watched.view, BytePace(lambda: rate), ready)

    @property
    def so_far(self) -> tuple[int, int]:
        """The entries and the bytes that were read."""
        return self._metrics.entries_checked_total, self._metrics.bytes_checked_total

    async def found(self, ledger: StoredLedger) -> list[Row]:
        """Read a ledger, and give the rows of what is wrong with it."""
        rows: list[Row] = []
        for _ in range(READINGS_MAX):
            rows = await self._faults(ledger)
            if not rows:
                break
            try:
                now = await self._read_again(ledger.id)
            except UnreadableError as error:
                return [fault_rows.of_unreadable(ledger.id, error)]
            if now is None or now.metadata.create_token != ledger.metadata.create_token:
                return []  # it was deleted, and its bookies have forgotten it
            if now.metadata.fragments == ledger.metadata.fragments:
                break
            ledger = now
        return rows

    async def _faults(self, ledger: StoredLedger) -> list[Row]:
        rows: list[Row] = []
        ranges, fragment = FaultRanges(), EntryId(0)

        def take(found: Iterable[FaultRange]) -> None:
            rows.extend(fault_rows.of_fault(ledger.id, fragment, one) for one in found)

        async with aclosing(self._reader.judged(ledger, self._ready)) as windows:
            async for window in windows:
                if window.fragment != fragment:
                    take(ranges.end())
                    fragment = window.fragment
                take(ranges.add(window.wanted, window.verdict.faults))
                if len(rows) >= ROWS_OF_LEDGER_MAX:
                    take(ranges.end())
                    last = EntryId(window.wanted[-1])
                    return [*rows, fault_rows.of_too_many(ledger.id, fragment, last)]
        take(ranges.end())
        return rows

    async def _read_again(self, ledger_id: LedgerId) -> StoredLedger | None:
        return await listing.until_done(
            lambda: ledger_store.read(self._client.cluster, ledger_id, sync=True),
            f"reading ledger {ledger_id}",
        )


def share_of(bytes_per_second: int, tasks: int) -> int:
    """Give a task's share of the job's rate; 0: no limit.

    The shares of all tasks together are at most the rate, or a byte a second for each task.
    """
    return max(1, bytes_per_second // tasks) if bytes_per_second else 0


def replica_audit(  # noqa: PLR0913 each is a wish of its own, and has a name
    spark: SparkSession,
    *,
    metadata: str,
    ledgers: str | None = None,
    ledgers_per_task: int | None = None,
    bytes_per_second: str | None = None,
    at_once: int | None = None,
    unwatched: bool | str | None = None,
    tls_authority: str | None = None,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
) -> DataFrame:
    """Give a row for each range of entries with one fault on one bookie; none: all is whole.

    docs/pipeline-jobs.md has the columns.
    """
    given = {name: value for name, value in locals().items() if name != "spark"}
    return without_readings(everything(spark, **given))


def without_readings(frame: DataFrame) -> DataFrame:
    """Leave out the rows, and the columns, that say how much was read."""
    return frame.where(sql.col("finding") != fault_rows.READ).drop("ledgers", "bytes")


def everything(spark: SparkSession, **given: object) -> DataFrame:
    """Give the rows of ``replica_audit``, and those that say how much was read."""
    return job_source.frame(spark, ReplicaAuditSource, with_at_once(spark, given))


def with_at_once(spark: SparkSession, given: Mapping[str, object]) -> dict[str, object]:
    """Complete the parameters of a job with a rate by how many tasks share it."""
    if given.get("bytes_per_second") is None or given.get("at_once") is not None:
        return dict(given)
    if not hasattr(spark, "sparkContext"):
        raise BadJobError(
            "at_once: not given: a Spark Connect client does not know how many tasks the "
            "server runs at once; give it beside bytes_per_second"
        )
    return {**given, "at_once": spark.sparkContext.defaultParallelism}


def outcome(frame: DataFrame) -> JobOutcome:
    """Sum up the audit, in Spark; what comes to the driver is a line a finding and a bookie."""
    found = sql.col("finding") != fault_rows.READ
    whole = frame.where(~found).agg(sql.sum("ledgers"), sql.sum("entries"), sql.sum("bytes"))
    ledgers, entries, size_bytes = (value or 0 for value in whole.collect()[0])
    by_bookie = (
        frame.where(found)
        .groupBy("finding", "bookie")
        .agg(
            sql.count_distinct("ledger").alias("ledgers"),
            sql.count("*").alias("ranges"),
            sql.sum("entries").alias("entries"),
        )
        .orderBy("finding", sql.desc("entries"), "bookie")
        .limit(ROWS_SHOWN)
        .collect()
    )
    lines = [f"{ledgers} ledgers, {entries} entries and {size_bytes} bytes of copies were read"]
    for row in by_bookie:
        where = "" if row["bookie"] is None else f" on {row['bookie']}"
        count = "" if row["entries"] is None else f"{row['entries']} entries in "
        ranges = f"{row['ranges']} ranges of " if count else ""
        lines.append(f"{row['finding']}{where}: {count}{ranges}{row['ledgers']} ledgers")
    if not by_bookie:
        lines.append("every copy is there, whole, and the same as the others")
    return JobOutcome(lines=tuple(lines), found=bool(by_bookie))


@contextmanager
def held(options: JobOptions) -> Iterator[Callable[[], Held | None]]:
    """Give a function that says what the job waits for now; None: for nothing."""

    def look(view: View) -> Held | None:
        found = quiet.holds(view, unwatched=options.unwatched)
        # That no evaluation was seen yet is no hold: the driver has just begun to look.
        return None if found is None or found.by in quiet.UNKNOWN else found

    with watching(options, look) as asked:
        yield asked


@contextmanager
def watching(
    options: JobOptions, look: Callable[[View], Held | None]
) -> Iterator[Callable[[], Held | None]]:
    """Give a function that looks at the driver's own view of the cluster."""
    with (
        job_source.connected(options) as kept,
        _followed(kept) as (view, calls),
    ):

        def asked() -> Held | None:
            try:
                return calls.do_now(lambda: look(view))
            except ClientError:
                return None  # the store is away: the tasks wait for it, and say so

        yield asked


@contextmanager
def _followed(kept: KeptClient) -> Iterator[tuple[View, Calls]]:
    """Give a view until the block ends; if the view failed meanwhile, the job does not fail."""
    block = loop_thread.opened(worker_view.followed(kept.opened.client))
    made = block.__enter__()
    try:
        yield made
    finally:
        with suppress(Trouble, OSError):
            block.__exit__(None, None, None)
