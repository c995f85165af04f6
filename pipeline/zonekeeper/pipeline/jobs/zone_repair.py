"""The job ``zone-repair``: it repairs what the auditor marked, in many tasks at once.

Marks and claims in the store are all of its state. So it may run beside autorecovery, and be killed
and started again. A task that dies leaves its claims to the end of its session; the task that
follows it waits for that. The plan lists the marked ledgers once, and each task gets its own.
Ledgers that are marked later are counted at the end, and left to the next run.

The job changes the cluster when its frame is used. A frame that is used again finds its ledgers
repaired, and only audits them.
"""

from array import array
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import ClassVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from zonekeeper.client.api.client import Client
from zonekeeper.client.base import boundary
from zonekeeper.pipeline.base import one_line
from zonekeeper.pipeline.jobs import marked_ledgers, replica_audit
from zonekeeper.pipeline.jobs.repair_task import RepairPlan, RepairTask
from zonekeeper.pipeline.planning import (
    id_ranges,
    job_options,
    job_source,
    repair_holds,
    worker_repairer,
    worker_view,
)
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.planning.job_options import JobOptions
from zonekeeper.pipeline.planning.job_outcome import JobAhead, JobOutcome
from zonekeeper.pipeline.planning.job_source import JobReader, JobSource, Plan, Row, TaskWorker
from zonekeeper.pipeline.planning.repair_holds import RepairHolds
from zonekeeper.pipeline.reports import fault_rows, repair_preflight, repair_rows
from zonekeeper.pipeline.reports.repair_preflight import RepairPreflight
from zonekeeper.pipeline.reports.report_page import size
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.zones.losses import Held

#: An outcome has at most so many lines about what is left.
LEFT_SHOWN = 100


class ZoneRepairSource(JobSource):
    """The repair as a data source; ``zone_repair`` makes its DataFrame."""

    COLUMNS = fault_rows.COLUMNS
    SETTINGS = job_options.EVERY_JOB + job_options.OF_REPAIR
    LEDGERS_PER_TASK: ClassVar[int] = 100
    WATCHES: ClassVar[bool] = True

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper-zone-repair"

    def reader(self, schema: StructType) -> "RepairReader":
        """Plan the repair; lists the marks, and changes nothing."""
        del schema
        with one_line.told():
            wanted = job_options.parse(self.options, self.SETTINGS)
            with job_source.connected(wanted) as kept:
                plan, shares = kept.calls.do(lambda: self.shared(kept.opened.client, wanted))
        return RepairReader(self, plan, shares)

    async def shared(
        self, client: Client, wanted: JobOptions
    ) -> tuple[RepairPlan, list["array[int]"]]:
        """Read what the tasks go by, and give each its ledgers; refuse what is held."""
        async with worker_view.followed(client) as view:
            holds = await repair_holds.seen(view)
        if holds.refusal is not None:
            raise holds.refusal
        with boundary.translated("listing the marked ledgers"):
            marked = await marked_ledgers.listed(client.cluster, wanted.wanted)
        per_task = wanted.ledgers_per_task or self.LEDGERS_PER_TASK
        tasks = wanted.at_once if wanted.bytes_per_second else -(-len(marked) // per_task)
        tasks = max(1, min(tasks, len(marked)))
        plan = RepairPlan(
            options=wanted,
            policy=client.bookies.policy,
            bookies=tuple(client.bookies.topology),
            ranges=(),
            held=frozenset(holds.held),
            unresolved_held=holds.anywhere is not None,
            permitted=holds.permitted,
            share_bytes_per_second=replica_audit.share_of(wanted.bytes_per_second, tasks),
        )
        # Neighbours are of one age and often of one size, so they go to different tasks.
        return plan, [marked[at::tasks] for at in range(tasks)]

    async def rows(
        self, worker: TaskWorker, plan: Plan, ranges: tuple[IdRange, ...]
    ) -> AsyncGenerator[list[Row], None]:
        """Repair the ledgers of a task, and audit them; give what is done, and what is left."""
        assert worker.watched is not None, "this job watches"
        assert isinstance(plan, RepairPlan), "this job planned it"
        mine = worker_repairer.of(
            plan.options.metadata,
            worker.client,
            worker.watched.view,
            plan.share_bytes_per_second,
        )
        ids = [LedgerId(one) for first, last in ranges for one in range(first, last + 1)]
        task = RepairTask(mine, worker.watched, plan, ids)
        for part in (task.repaired, task.audited):
            async with aclosing(part()) as portions:
                async for portion in portions:
                    yield portion


class RepairReader(JobReader):
    """The plan of a repair. The ledgers of all tasks stay here: each task gets its own."""

    def __init__(self, source: JobSource, plan: Plan, shares: list["array[int]"]) -> None:
        super().__init__(source, plan)
        self._shares = shares

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_shares": []}

    def partitions(self) -> list[InputPartition]:
        """Give each task its ledgers."""
        return [MarkedPartition(share) for share in self._shares]


class MarkedPartition(InputPartition):
    """The ledgers of one task, eight bytes each."""

    def __init__(self, ids: "array[int]") -> None:
        super().__init__(ids.tobytes())

    @property
    def value(self) -> tuple[IdRange, ...]:
        """The ranges that have exactly these ledgers."""
        return id_ranges.runs(map(LedgerId, array("q", self._ids)))

    @value.setter
    def value(self, ids: bytes) -> None:
        self._ids = ids


def zone_repair(  # noqa: PLR0913 each is a wish of its own, and has a name
    spark: SparkSession,
    *,
    metadata: str,
    ledgers: str | None = None,
    ledgers_per_task: int | None = None,
    bytes_per_second: str | None = None,
    at_once: int | None = None,
    tls_authority: str | None = None,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
) -> DataFrame:
    """Repair the marked ledgers when the frame is used; give a row for each, and what is left.

    docs/pipeline-jobs.md has the columns.
    """
    given = {name: value for name, value in locals().items() if name != "spark"}
    return without_sums(everything(spark, **given))


def without_sums(frame: DataFrame) -> DataFrame:
    """Leave out the rows, and the columns, that say how much was copied and read."""
    return frame.where(~sql.col("finding").isin(*repair_rows.SUMS)).drop("ledgers", "bytes")


def everything(spark: SparkSession, **given: object) -> DataFrame:
    """Give the rows of ``zone_repair``, and those that say how much was copied and read."""
    return job_source.frame(spark, ZoneRepairSource, replica_audit.with_at_once(spark, given))


def before(options: JobOptions, tell: Callable[[str], None]) -> JobAhead:
    """Count what would be copied, from the marks and the metadata of the marked ledgers."""

    async def look(client: Client) -> tuple[RepairHolds, RepairPreflight]:
        async with worker_view.followed(client) as view:
            holds = await repair_holds.seen(view)
            counted = await marked_ledgers.measure(
                client,
                view,
                holds,
                options.wanted,
                options.bytes_per_second,
                lambda number: tell(f"{number} marked ledgers counted"),
            )
            return holds, counted

    with job_source.connected(options) as kept, boundary.translated("counting what is marked"):
        holds, found = kept.calls.do(lambda: look(kept.opened.client))
    return JobAhead(
        lines=tuple(repair_preflight.lines(found, options.prices)),
        refusal=holds.refusal,
        ends=options.dry_run,
        found=bool(found.marked or found.unmarked) if options.dry_run else bool(found.unmarked),
    )


def after(options: JobOptions) -> JobOutcome:
    """Say how many ledgers are marked when the job has ended."""
    with job_source.connected(options) as kept, boundary.translated("counting what is marked"):
        count = kept.calls.do(
            lambda: marked_ledgers.left(kept.opened.client.cluster, options.wanted)
        )
    if not count:
        return JobOutcome(lines=("no ledger is marked for repair any more",), found=False)
    many = f"{count} or more" if count == marked_ledgers.LEFT_MAX else str(count)
    line = f"marked for repair now: {many} ledgers; start the job again for those"
    return JobOutcome(lines=(line,), found=True)


def outcome(frame: DataFrame) -> JobOutcome:
    """Sum up the repair, in Spark; what comes to the driver is a line a finding and a bookie."""
    sums = {
        row["finding"]: row
        for row in frame.groupBy("finding")
        .agg(
            sql.count_distinct("ledger").alias("about"),
            *(sql.sum(name).alias(name) for name in ("ledgers", "entries", "bytes")),
        )
        .collect()
    }
    copied, read = sums[repair_rows.COPIED], sums[fault_rows.READ]
    done = sums[repair_rows.DONE]["about"] if repair_rows.DONE in sums else 0
    left = (
        frame.where(~sql.col("finding").isin(*repair_rows.HARMLESS))
        .groupBy("finding", "bookie")
        .agg(sql.count_distinct("ledger").alias("ledgers"), sql.min("error").alias("error"))
        .orderBy("finding", sql.desc("ledgers"), "bookie")
        .limit(LEFT_SHOWN)
        .collect()
    )
    lines = [
        f"done: {done} ledgers; of these this job repaired {copied['ledgers']}, and copied "
        f"{size(copied['bytes'])}",
        f"audited: {read['ledgers']} ledgers, {read['entries']} entries and "
        f"{size(read['bytes'])} of copies were read",
    ]
    if repair_rows.SPREAD in sums:
        spread = sums[repair_rows.SPREAD]["about"]
        lines.append(f"left to autorecovery: {spread} ledgers are only to be spread better")
    for row in left:
        where = "" if row["bookie"] is None else f" on {row['bookie']}"
        why = "" if row["error"] is None else f", such as: {row['error']}"
        lines.append(f"{row['finding']}{where}: {row['ledgers']} ledgers{why}")
    if not left:
        lines.append("every copy of what is done is there, whole, and the same as the others")
    return JobOutcome(lines=tuple(lines), found=bool(left))


@contextmanager
def held(options: JobOptions) -> Iterator[Callable[[], Held | None]]:
    """Give a function that says what the job waits for now; None: for nothing."""
    with replica_audit.watching(options, repair_holds.LaterHolds().look) as asked:
        yield asked
