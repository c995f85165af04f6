"""The job ``zone-report``: what zones, upgrade domains and bookies hold, and what losses cost.

Each task sums up its ledgers; Spark adds the sums up. So what comes to the driver is a row for each
zone, unit and bookie. The first task gives beside them what the bookies said of their disks when
the job was planned.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import astuple, dataclass
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from zonekeeper.client.api.client import Client
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.pipeline.jobs import zone_disks
from zonekeeper.pipeline.jobs.zone_disks import ReportedDisk
from zonekeeper.pipeline.planning import job_options, job_source
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.planning.job_options import JobOptions
from zonekeeper.pipeline.planning.job_outcome import JobOutcome
from zonekeeper.pipeline.planning.job_source import JobSource, Plan, Row, TaskWorker
from zonekeeper.pipeline.reports import report_page, zone_sums
from zonekeeper.pipeline.reports.fragment_losses import LossScope
from zonekeeper.pipeline.reports.zone_sums import CLUSTER, ZoneSums
from zonekeeper.placement.promises.headroom import Room
from zonekeeper.replication.view import listing, usage

_DISK: Final = ("capacity_bytes", "used_bytes", "room", "why")
_SUMS: Final = ", ".join(f"{name} bigint" for name in zone_sums.NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPlan(Plan):
    """A plan with what bookies said of their disks."""

    disks: tuple[ReportedDisk, ...]
    cluster_id: str


class ZoneReportSource(JobSource):
    """The sums of each task as a data source; ``zone_report`` makes the DataFrame."""

    COLUMNS = (
        f"kind string, name string, {_SUMS}, capacity_bytes bigint, used_bytes bigint, "
        "room string, why string"
    )
    SETTINGS = job_options.EVERY_JOB + job_options.PRICES
    LEDGERS_PER_TASK: ClassVar[int] = 5_000

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper-zone-report"

    async def plan(self, client: Client, wanted: JobOptions) -> Plan:
        """Plan the job, and ask each bookie for its disk."""
        plan = await super().plan(client, wanted)
        there = [bookie.id for bookie in plan.bookies if bookie.readable]
        infos = await usage.survey(client.bookies.pool, there)
        return ReportPlan(
            options=plan.options,
            policy=plan.policy,
            bookies=plan.bookies,
            ranges=plan.ranges,
            disks=tuple(zone_disks.judged(plan.topology, infos, plan.policy.placement)),
            cluster_id=client.cluster.instance,
        )

    async def rows(
        self, worker: TaskWorker, plan: Plan, ranges: tuple[IdRange, ...]
    ) -> AsyncGenerator[list[Row], None]:
        """Give the sums of a task's ledgers."""
        assert isinstance(plan, ReportPlan), "this job planned it"
        sums = ZoneSums(plan.topology)
        for first, last in ranges:
            every = listing.walk(worker.client.cluster, first=first, last=last)
            async with aclosing(every) as listed:
                async for one in listed:
                    if isinstance(one, StoredLedger):
                        sums.add(one.metadata)
                    else:
                        sums.unreadable()
        yield [
            (kind, plan.cluster_id if kind == CLUSTER else name, *astuple(found), *[None] * 4)
            for kind, name, found in sums.rows()
        ]
        if ranges[0].first == plan.options.wanted.first:
            zeros = [0] * len(zone_sums.NAMES)
            yield [
                (str(one.kind), one.name, *zeros, *(getattr(one, name) for name in _DISK))
                for one in plan.disks
            ]


def zone_report(  # noqa: PLR0913 each is a wish of its own, and has a name
    spark: SparkSession,
    *,
    metadata: str,
    ledgers: str | None = None,
    ledgers_per_task: int | None = None,
    price_per_gb: str | None = None,
    currency: str | None = None,
    price_as_of: str | None = None,
    price_source: str | None = None,
    tls_authority: str | None = None,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
) -> DataFrame:
    """Give a row for each zone, upgrade domain and bookie, and one for the cluster.

    docs/pipeline-jobs.md has the columns.
    """
    given = {name: value for name, value in locals().items() if name != "spark"}
    sums = [sql.sum(name).alias(name) for name in (*zone_sums.NAMES, *_DISK[:2])]
    texts = [sql.max(name).alias(name) for name in _DISK[2:]]
    tasks = job_source.frame(spark, ZoneReportSource, given)
    per_byte = 0.0 if price_per_gb is None else float(price_per_gb) / 10**9
    price = sql.lit(None).cast("double") if price_per_gb is None else sql.lit(per_byte)
    kind = Window.partitionBy("kind")
    return (
        tasks.groupBy("kind", "name")
        .agg(*sums, *texts)
        .withColumn("of_mean", sql.try_divide("bytes", sql.avg("bytes").over(kind)))
        .withColumn("loss_price", sql.col("loss_crossing_bytes") * price)
        .orderBy("kind", "name")
        .coalesce(1)
    )


def rows_of(frame: DataFrame) -> list[Mapping[str, object]]:
    """Give the report's rows; there is one for each zone, unit and bookie, and one more."""
    return [row.asDict() for row in frame.collect()]


def page(frame: DataFrame, made_at: str, options: JobOptions) -> str:
    """Give the report as a page of HTML."""
    return report_page.page(rows_of(frame), made_at=made_at, prices=options.prices)


def outcome(frame: DataFrame) -> JobOutcome:
    """Sum up the report."""
    rows = rows_of(frame)
    cluster = next(row for row in rows if row["kind"] == CLUSTER)
    lines = [
        f"{cluster['ledgers']} ledgers ({cluster['open_ledgers']} open), "
        f"{report_page.size(cluster['bytes'])} of payload, each counted once"
    ]
    if cluster["unreadable_ledgers"]:
        lines.append(f"ledgers whose metadata cannot be read: {cluster['unreadable_ledgers']}")
    risky, found = 0, bool(cluster["unreadable_ledgers"])
    for row in rows:
        if row["kind"] == LossScope.ZONE:
            lines.append(
                f"zone {row['name']}: {report_page.size(row['bytes'])} of copies; if it is lost, "
                f"room for them: {row['room']}, {row['why']}"
            )
            found |= row["room"] not in (Room.FITS.value, Room.TIGHT.value)
        harmful = report_page.harmful(row)
        if row["kind"] != CLUSTER and harmful:
            risky += 1
            lines.append(f"the loss of {row['kind']} {row['name']}: {harmful}")
    lines.append(f"losses that would make entries unreadable, for certain or perhaps: {risky}")
    return JobOutcome(lines=tuple(lines[:LINES_MAX]), found=found or risky > 0)


#: An outcome has at most so many lines; the rows have all.
LINES_MAX: Final = 200
