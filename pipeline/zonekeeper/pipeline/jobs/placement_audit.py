"""The job ``placement-audit``: how well fragments keep the policy, and what losses would do.

It reads the ledgers' metadata and the bookies' places, and asks no bookie.
"""

import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import ClassVar, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.pipeline.planning import job_source
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.planning.job_outcome import JobOutcome
from zonekeeper.pipeline.planning.job_source import ROWS_AT_ONCE, JobSource, Plan, Row, TaskWorker
from zonekeeper.pipeline.reports import fragment_rows
from zonekeeper.pipeline.reports.fragment_rows import FragmentRows
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.replication.decisions.what_if import Harm
from zonekeeper.replication.view import listing

#: An outcome names at most so many losses.
LOSSES_SHOWN: Final = 40


class PlacementAuditSource(JobSource):
    """The audit as a data source; ``placement_audit`` makes its DataFrame."""

    COLUMNS = fragment_rows.COLUMNS
    LEDGERS_PER_TASK: ClassVar[int] = 5_000

    @classmethod
    def name(cls) -> str:
        """Give the format's name."""
        return "zonekeeper-placement-audit"

    async def rows(
        self, worker: TaskWorker, plan: Plan, ranges: tuple[IdRange, ...]
    ) -> AsyncGenerator[list[Row], None]:
        """Give a row for each fragment of the ledgers of a task; no bookie is asked."""
        made = FragmentRows(plan.topology, plan.policy.placement, random.SystemRandom())
        portion: list[Row] = []
        for first, last in ranges:
            async with aclosing(
                listing.walk(worker.client.cluster, first=first, last=last)
            ) as every:
                async for one in every:
                    if isinstance(one, StoredLedger):
                        portion += made.of_ledger(one.id, one.metadata)
                    else:
                        portion.append(fragment_rows.of_unreadable(one.id, one.error))
                    if len(portion) >= ROWS_AT_ONCE:
                        yield portion
                        portion = []
        if portion:
            yield portion


def placement_audit(  # noqa: PLR0913 each is a wish of its own, and has a name
    spark: SparkSession,
    *,
    metadata: str,
    ledgers: str | None = None,
    ledgers_per_task: int | None = None,
    tls_authority: str | None = None,
    tls_certificate: str | None = None,
    tls_key: str | None = None,
) -> DataFrame:
    """Give a row for each fragment: its adherence to the policy, and what each loss would do.

    docs/pipeline-jobs.md has the columns.
    """
    given = {
        "metadata": metadata,
        "ledgers": ledgers,
        "ledgers_per_task": ledgers_per_task,
        "tls_authority": tls_authority,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
    }
    return job_source.frame(spark, PlacementAuditSource, given)


def outcome(frame: DataFrame) -> JobOutcome:
    """Sum up the audit, in Spark; what comes to the driver is a line a level and a loss."""
    levels = {
        row["level"] or "unreadable": (row["fragments"], row["bytes"] or 0)
        for row in frame.groupBy("level")
        .agg(sql.count("*").alias("fragments"), sql.sum("bytes").alias("bytes"))
        .collect()
    }
    now = {row["harm"]: row["count"] for row in frame.groupBy("harm").count().collect()}
    harms = [harm.word for harm in reversed(Harm) if harm is not Harm.NONE]
    worst = [sql.sum((sql.col("loss.harm") == harm).cast("bigint")).alias(harm) for harm in harms]
    unwritable = sql.sum(sql.col("loss.unwritable").cast("bigint")).alias("unwritable")
    by_loss = (
        frame.select(sql.explode("losses").alias("loss"))
        .groupBy("loss.kind", "loss.name")
        .agg(*worst, unwritable)
        .orderBy(*[sql.desc(harm) for harm in harms], sql.desc("unwritable"), "kind", "name")
        .limit(LOSSES_SHOWN)
        .collect()
    )
    lines = ["fragments by adherence to the policy:"]
    for level in (*[each.name for each in reversed(Level)], "unreadable"):
        fragments, size_bytes = levels.get(level, (0, 0))
        lines.append(f"  {level:<12}{fragments:>12}  {size_bytes:>18} bytes of payload")
    lines.append("fragments as they are now:")
    for harm in reversed(Harm):
        lines.append(f"  {harm.word:<20}{now.get(harm.word, 0):>12}")
    lines.append(f"what a loss would do, in fragments (the worst {LOSSES_SHOWN} losses):")
    for row in by_loss:
        told = ", ".join(f"{row[name]} {name}" for name in (*harms, "unwritable") if row[name])
        lines.append(f"  {row['kind']} {row['name']}: {told or 'no harm'}")
    at_risk = sum(count for harm, count in now.items() if harm not in (None, Harm.NONE.word))
    failed = levels.get(Level.FAIL.name, (0, 0))[0]
    unreadable = levels.get("unreadable", (0, 0))[0]
    return JobOutcome(lines=tuple(lines), found=bool(at_risk or failed or unreadable))
