"""A job as a data source of Spark: it plans once beside the driver, and its tasks give rows.

The plan has the policy and the bookies as they were when the job was planned, and for each task its
ranges of ledger ids. So all tasks judge by the same rules and bookies, and a task that runs again
judges as it did before. What a task reads of ledgers is as it is then: a ledger that is created,
closed or deleted meanwhile may be in the result or not, and is never in it twice.

Spark pickles a reader before it asks for partitions. So the reader plans when it is made.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.loop_objects import streamed
from zonekeeper.client.base import boundary
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.pipeline.base import one_line, worker_client
from zonekeeper.pipeline.base.worker_client import KeptClient
from zonekeeper.pipeline.planning import id_ranges, job_options, worker_view
from zonekeeper.pipeline.planning.id_ranges import IdRange, RangeCutter
from zonekeeper.pipeline.planning.job_options import JobOptions
from zonekeeper.pipeline.planning.worker_view import WatchedView
from zonekeeper.placement.base.settings import Setting
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.policy.rules import Policy

#: A row, in the order of the job's columns.
Row: TypeAlias = tuple[object, ...]

#: Rows go from the loop to Spark's thread in portions of about this size.
ROWS_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all tasks of a job go by."""

    options: JobOptions
    policy: Policy
    bookies: tuple[Bookie, ...]
    #: By task.
    ranges: tuple[tuple[IdRange, ...], ...]

    @property
    def topology(self) -> Topology:
        """The bookies, by id and by location."""
        return Topology(self.bookies)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWorker:
    """What the tasks of one Python worker share."""

    client: Client
    #: Only for a job that watches the cluster's gates.
    watched: WatchedView | None


@contextmanager
def connected(options: JobOptions) -> Iterator[KeptClient]:
    """Give a client for planning; raises ``ClusterNotReady`` if the cluster has no policy.

    Without a policy nothing can be judged, and a view of the cluster would be waited for in vain.
    """
    with worker_client.connect(options.metadata, options.config) as kept:
        kept.calls.do_now(kept.opened.client.bookies.check)
        yield kept


class JobSource(DataSource):
    """A job; a subclass says which columns it gives, and how a task makes the rows of a range."""

    #: The columns, in Spark's notation.
    COLUMNS: ClassVar[str]
    SETTINGS: ClassVar[tuple[Setting, ...]] = job_options.EVERY_JOB
    LEDGERS_PER_TASK: ClassVar[int]
    #: The tasks need a view of the cluster's gates.
    WATCHES: ClassVar[bool] = False

    def schema(self) -> str:
        """Give the columns."""
        return self.COLUMNS

    def reader(self, schema: StructType) -> "JobReader":
        """Plan the job; reads the ids of the ledgers, and changes nothing."""
        del schema
        with one_line.told():
            wanted = job_options.parse(self.options, self.SETTINGS)
            with connected(wanted) as kept:
                plan = kept.calls.do(lambda: self.plan(kept.opened.client, wanted))
        return JobReader(self, plan)

    async def plan(self, client: Client, wanted: JobOptions) -> Plan:
        """Read what the tasks go by."""
        per_task = wanted.ledgers_per_task or self.LEDGERS_PER_TASK
        cutter = RangeCutter(wanted.wanted, per_task)
        with boundary.translated("listing the ledgers"):
            listed = ledger_listing.ids(
                client.cluster, first=wanted.wanted.first, last=wanted.wanted.last
            )
            async with aclosing(listed) as ids:
                async for ledger_id in ids:
                    cutter.add(ledger_id)
        ranges = cutter.ranges()
        tasks = wanted.at_once if wanted.bytes_per_second else len(ranges)
        return Plan(
            options=wanted,
            policy=client.bookies.policy,
            bookies=tuple(client.bookies.topology),
            ranges=tuple(id_ranges.deal(ranges, tasks)),
        )

    def rows(
        self, worker: TaskWorker, plan: Plan, ranges: tuple[IdRange, ...]
    ) -> AsyncGenerator[list[Row], None]:
        """Give the rows of a task, in portions."""
        raise NotImplementedError


class JobReader(DataSourceReader):
    """The plan of a job, and its tasks."""

    def __init__(self, source: JobSource, plan: Plan) -> None:
        self._source = source
        self._plan = plan

    def partitions(self) -> list[InputPartition]:
        """Give each task its ranges."""
        return [InputPartition(ranges) for ranges in self._plan.ranges]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """Give the rows of a task."""
        options, ranges = self._plan.options, partition.value
        with one_line.told():
            kept = worker_client.kept(options.metadata, options.config)
            watched = worker_view.of(options.metadata, kept) if self._source.WATCHES else None
            worker = TaskWorker(client=kept.opened.client, watched=watched)
            every = streamed(kept.calls, lambda: self._source.rows(worker, self._plan, ranges))
            for portion in every:
                yield from portion


def frame(spark: SparkSession, source: type[JobSource], given: Mapping[str, object]) -> DataFrame:
    """Give a job's DataFrame; ``given`` are the parameters of its function, None: not given.

    Wrong parameters are refused here. The cluster is asked when the frame is first used.
    """
    texts = {
        name.replace("_", "-"): _text(value) for name, value in given.items() if value is not None
    }
    with one_line.told():
        job_options.parse(texts, source.SETTINGS, job_options.of_python)
    spark.dataSource.register(source)
    return spark.read.format(source.name()).options(**texts).load()


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)
