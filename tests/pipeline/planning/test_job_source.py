"""A job's plan and its tasks, without Spark: every ledger once, in whatever task."""

import asyncio
import dataclasses
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql.types import StructType

from tests.replication.decisions.test_what_if import ledger
from zonekeeper import pipeline
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster.cluster import open_cluster
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.jobs.placement_audit import PlacementAuditSource
from zonekeeper.pipeline.jobs.replica_audit import ReplicaAuditSource
from zonekeeper.pipeline.jobs.zone_report import ZoneReportSource
from zonekeeper.pipeline.planning.job_source import JobReader, JobSource, Row
from zonekeeper.placement.base.ids import LedgerId

IDS = [0, 1, 9_999, 10_000, 123_456_789, 2**31 - 1, 9 << 32, 2**63 - 1]
DAMAGED = 5


@pytest.fixture
def address(pipeline_root: str) -> str:
    """A root with ledgers, one of which cannot be read."""

    async def filled() -> None:
        store = await open_store(pipeline_root, must_exist=True)
        try:
            cluster = await open_cluster(store)
            for one in IDS:
                metadata = dataclasses.replace(ledger("a-0", "b-0", "c-0"), create_token=7)
                await ledgers.create(cluster, metadata, ledger_id=LedgerId(one))
            path = ledgers.path(cluster, LedgerId(DAMAGED))
            await store.create(path, b"garbage", make_parents=True)
        finally:
            await store.close()

    asyncio.run(filled())
    return pipeline_root


def planned(address: str, **options: str) -> JobReader:
    source = PlacementAuditSource({"metadata": address, **options})
    sent = pickle.dumps(source.reader(schema=StructType()))
    reader = pickle.loads(sent)
    assert isinstance(reader, JobReader)
    return reader


def given(reader: JobReader) -> list[Sequence[Row]]:
    """Give the rows of each task."""
    try:
        return [list(reader.read(partition)) for partition in reader.partitions()]
    finally:
        worker_client._KEPT.close()


def test_every_ledger_is_in_exactly_one_task(address: str) -> None:
    tasks = given(planned(address, **{"ledgers-per-task": "2"}))

    assert len(tasks) == 5
    assert [[row[0] for row in rows] for rows in tasks] == [
        [0, 1],
        [DAMAGED, 9_999],
        [10_000, 123_456_789],
        [2**31 - 1, 9 << 32],
        [2**63 - 1],
    ]
    damaged = tasks[1][0]
    assert damaged[1] is None
    assert "garbage" not in str(damaged[-1])
    assert str(DAMAGED) in str(damaged[-1])


def test_only_the_wanted_ledgers_are_looked_at(address: str) -> None:
    assert [row[0] for rows in given(planned(address, ledgers="6-10000")) for row in rows] == [
        *(9_999, 10_000)
    ]
    assert given(planned(address, ledgers="77")) == [[]]


def test_a_ledger_that_is_made_after_the_plan_is_in_one_task_as_well(address: str) -> None:
    reader = planned(address, **{"ledgers-per-task": "3"})

    async def one_more() -> None:
        store = await open_store(address, must_exist=True)
        cluster = await open_cluster(store)
        metadata = dataclasses.replace(ledger("a-0", "b-0", "c-0"), create_token=1)
        await ledgers.create(cluster, metadata, ledger_id=LedgerId(777))
        await store.close()

    asyncio.run(one_more())
    seen = [row[0] for rows in given(reader) for row in rows]
    assert seen == [*IDS[:2], DAMAGED, 777, *IDS[2:]]


def test_a_task_that_runs_again_gives_the_same_rows(address: str) -> None:
    reader = planned(address)
    assert given(reader) == given(reader)


def test_tasks_of_a_report_sum_up_and_the_first_gives_the_disks(address: str) -> None:
    source = ZoneReportSource({"metadata": address, "ledgers-per-task": "5"})
    tasks = given(source.reader(schema=StructType()))
    names = [part.split()[0] for part in ZoneReportSource.COLUMNS.split(", ")]
    clusters = [
        dict(zip(names, row, strict=True)) for rows in tasks for row in rows if row[0] == "cluster"
    ]
    assert len(tasks) == len(clusters) == 2
    assert sum(one["ledgers"] for one in clusters) == len(IDS)  # type: ignore[misc] # a number
    assert [one["unreadable_ledgers"] for one in clusters] == [1, 0]
    assert clusters[0]["name"] == clusters[1]["name"], "the cluster's id"
    assert "bookie a-0" in {f"{row[0]} {row[1]}" for row in tasks[1]}


def test_a_report_of_nothing_is_a_cluster_without_ledgers(pipeline_root: str) -> None:
    source = ZoneReportSource({"metadata": pipeline_root})
    ((row,),) = given(source.reader(schema=StructType()))
    assert (row[0], row[2]) == ("cluster", 0)


def test_with_a_rate_no_more_tasks_run_than_share_it(address: str) -> None:
    texts = {"metadata": address, "ledgers-per-task": "1", "unwatched": "yes", "at-once": "3"}
    free = ReplicaAuditSource(texts).reader(schema=StructType())
    assert len(free.partitions()) == len(IDS) + 1
    limited = ReplicaAuditSource({**texts, "bytes-per-second": "1MiB"})
    tasks = limited.reader(schema=StructType()).partitions()
    assert len(tasks) == 3
    assert sum(len(one.value) for one in tasks) == len(IDS) + 1


@pytest.mark.parametrize("source", [PlacementAuditSource, ReplicaAuditSource, ZoneReportSource])
def test_a_cluster_without_a_policy_is_refused_and_not_waited_for(
    source: type[JobSource], tmp_path: Path
) -> None:
    uri = f"sqlite://{tmp_path / 'meta.db'}"

    async def without_policy() -> None:
        store = await open_store(uri)
        await clusters.initialise(store, "3b0c9a51-0000-4000-8000-000000000001")
        await store.close()

    asyncio.run(without_policy())
    with pytest.raises(pipeline.NotRead, match="has no policy that can be read"):
        source({"metadata": uri}).reader(schema=StructType())


def test_what_cannot_be_planned_is_told_in_one_line(address: str) -> None:
    with pytest.raises(pipeline.NotRead, match="ledgers-per-task"):
        planned(address, **{"ledgers-per-task": "none"})
    with pytest.raises(pipeline.NotRead, match="no such file") as refused:
        planned("sqlite:///nowhere/meta.db")
    assert len(str(refused.value).splitlines()) == 1
