"""What the sink decides by itself: which batch a task writes, and what is refused."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from pyspark import TaskContext
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from tests.log.batching import PACKERS
from zonekeeper.log.api import blocking as blocking_logs
from zonekeeper.log.base.errors import BadBatch
from zonekeeper.log.formats import batches
from zonekeeper.log.formats.messages import BadMessageError
from zonekeeper.log.publishing.partitions import IdlePartition, QueryBatch, SmallPartition
from zonekeeper.log.publishing.publishing import PublishedBatch
from zonekeeper.metadata.formats.log_record import LogRecord
from zonekeeper.metadata.logs.log_queries import QueryOver, QueryRun
from zonekeeper.pipeline.base import worker_client
from zonekeeper.pipeline.base.one_line import NotWritten
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.sink import log_sink, part_writing, sink_options
from zonekeeper.pipeline.sink.log_sink import BATCH, QUERY, RUN, LogStreamWriter, PartWritten
from zonekeeper.pipeline.sink.sink_options import SinkOptions
from zonekeeper.pipeline.source.data_source import LedgerSource

SCHEMA = StructType([StructField("payload", BinaryType())])
OF = QueryBatch(log="a/b", run=QueryRun(query="q", run="r"), batch=4)
#: Nothing answers there.
NOWHERE = {"metadata": "zk://127.0.0.1:1/ledgers", "log": "a/b"}


def task(given: dict[str, str]) -> TaskContext:
    """Give a context as a worker makes it."""
    made = object.__new__(TaskContext)  # TaskContext() would stay the one of this process
    made._localProperties = given
    made._partitionId = 2
    return made


def test_a_task_of_a_stream_knows_its_query_its_run_and_its_batch() -> None:
    given = {QUERY: "q", RUN: "r", BATCH: "4"}
    assert log_sink.batch_of("a/b", task(given)) == OF
    for name in given:
        rest = {key: text for key, text in given.items() if key != name}
        with pytest.raises(BadBatch, match=name):
            log_sink.batch_of("a/b", task(rest))
    with pytest.raises(BadBatch, match="nothing was written"):
        log_sink.batch_of("a/b", task({**given, BATCH: "-1"}))


def test_jobs_have_ids_of_their_own_and_a_message_can_be_sent() -> None:
    options = sink_options.parse(NOWHERE)
    one = log_sink.LogJobWriter(options, "job-1")
    assert pickle.loads(pickle.dumps(one)).__dict__ == one.__dict__
    part = PartWritten(IdlePartition(of=OF, partition=2))
    assert pickle.loads(pickle.dumps(part)) == part


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clients that a test asks for end with it."""
    kept = worker_client.KeptClients()
    monkeypatch.setattr(worker_client, "_KEPT", kept)
    yield
    kept.close()


@pytest.fixture
def unconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the cluster was asked")

    monkeypatch.setattr(worker_client, "kept", refuse)


@pytest.mark.usefixtures("unconnected")
def test_a_batch_without_rows_asks_nothing_of_the_cluster() -> None:
    options = sink_options.parse(NOWHERE)
    empty = pyarrow.RecordBatch.from_pydict({"payload": pyarrow.array([], pyarrow.binary())})

    part = part_writing.written(options, OF, 2, iter([empty]))

    assert part == IdlePartition(of=OF, partition=2)
    assert part_writing.published(options, [part]) == PublishedBatch()
    assert part_writing.published(options, []) == PublishedBatch()


@pytest.mark.usefixtures("unconnected")
def test_what_spark_commits_is_checked() -> None:
    writer = LogStreamWriter(sink_options.parse(NOWHERE))
    part = PartWritten(IdlePartition(of=OF, partition=2))

    writer.commit([part], 4)
    writer.abort([part, None], 4)
    with pytest.raises(NotWritten, match="Spark commits batch 5, and a part is of batch 4"):
        writer.commit([part], 5)
    with pytest.raises(NotWritten, match="1 of 2 tasks have no part; nothing was published"):
        writer.commit([part, None], 4)


@pytest.mark.usefixtures("unconnected")
def test_refusals_come_before_the_cluster_is_asked() -> None:
    wrong = StructType([StructField("text", StringType())])
    for given, schema, overwrite, said in (
        ({"metadata": "x"}, SCHEMA, False, "2 faults"),
        (NOWHERE, wrong, False, "the rows have text string"),
        (NOWHERE, SCHEMA, True, "log a/b is only appended to"),
    ):
        source = LedgerSource(given)
        with pytest.raises(NotWritten, match=said):
            source.writer(schema, overwrite)
        with pytest.raises(NotWritten, match=said):
            source.streamWriter(schema, overwrite)
    # A stream's writer is made with each micro-batch, and does not connect.
    LedgerSource(NOWHERE).streamWriter(SCHEMA, False)


@pytest.mark.usefixtures("unconnected")
def test_the_options_that_came_with_the_rows_are_not_those_of_the_sink() -> None:
    kept = {"zonekeeper.options": NOWHERE}
    rows = StructType([StructField("payload", BinaryType(), True, kept)])
    with pytest.raises(NotWritten, match="log: not given"):
        LedgerSource({"metadata": NOWHERE["metadata"]}).writer(rows, False)


def test_a_job_into_a_log_that_is_not_there_is_refused(pipeline_root: str) -> None:
    given = {"metadata": pipeline_root, "log": "a/b"}
    with pytest.raises(NotWritten, match="a/b"):
        LedgerSource(given).writer(SCHEMA, False)

    with blocking_logs.connect(pipeline_root) as logs:
        logs.create("a/b")
    first, second = (LedgerSource(given).writer(SCHEMA, False) for _ in range(2))
    assert first._job != second._job


@pytest.fixture
def options(pipeline_root: str) -> SinkOptions:
    """Options of a log that is there; small partitions need no bookie."""
    with blocking_logs.connect(pipeline_root) as logs:
        logs.create("a/b")
    return sink_options.parse({"metadata": pipeline_root, "log": "a/b"})


def rows(*many: bytes | None) -> RecordBatch:
    return pyarrow.RecordBatch.from_pydict({"payload": pyarrow.array(many, pyarrow.binary())})


def record(options: SinkOptions) -> LogRecord:
    kept = worker_client.kept(options.connection.metadata)
    return kept.calls.do(lambda: kept.opened.record(options.log))


def test_the_rows_of_a_task_are_its_part_in_their_order(options: SinkOptions) -> None:
    part = part_writing.written(options, OF, 2, [rows(b"1", b"2"), rows(), rows(b"3")])

    assert isinstance(part, SmallPartition)
    assert (part.of, part.partition, part.messages) == (OF, 2, 3)
    read = [batches.parse(raw, PACKERS).messages() for raw in part.batches]
    assert [one.payload for many in read for one in many] == [b"1", b"2", b"3"]
    writer = record(options).writer
    assert writer is not None
    assert writer.token == OF.run.token


def test_a_job_and_a_stream_write_what_they_are(
    options: SinkOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {QUERY: "q", RUN: "r", BATCH: "4"}
    monkeypatch.setattr(TaskContext, "_taskContext", task(given))  # as a worker has it

    of_job = log_sink.LogJobWriter(options, "job-1").write(iter([rows(b"1")])).part
    run = QueryRun(query="job-1", run="1")
    assert of_job.of == QueryBatch(log="a/b", run=run, batch=0, is_job=True)
    of_stream = LogStreamWriter(options).write(iter([rows(b"1")])).part
    assert of_stream.of == OF
    assert of_job.partition == of_stream.partition == 2


def test_rows_that_no_log_takes_are_named(options: SinkOptions) -> None:
    with pytest.raises(BadMessageError, match="partition 2, in rows 2 to 3: 1 rows have no pay"):
        part_writing.written(options, OF, 2, [rows(b"1", b"2"), rows(b"3", None)])


def test_a_failed_job_is_over(options: SinkOptions) -> None:
    job = log_sink.LogJobWriter(options, "job-1")
    of = QueryBatch(log="a/b", run=QueryRun(query="job-1", run="1"), batch=0, is_job=True)
    part_writing.written(options, of, 0, [rows(b"1")])
    job.abort([None])
    assert [(one.query, one.is_over) for one in record(options).queries] == [("job-1", True)]


def test_a_job_that_failed_before_it_wrote_is_over_for_its_late_tasks_too(
    options: SinkOptions,
) -> None:
    log_sink.LogJobWriter(options, "job-1").abort([None])
    assert [(one.query, one.is_over) for one in record(options).queries] == [("job-1", True)]
    of = QueryBatch(log="a/b", run=QueryRun(query="job-1", run="1"), batch=0, is_job=True)
    with pytest.raises(QueryOver):
        part_writing.written(options, of, 0, [rows(b"1")])
    assert record(options).writer is None


def test_an_abort_that_cannot_be_noted_hides_no_error(options: SinkOptions) -> None:
    part_writing.ended(replace(options, log="a/none"), "job-1")


def test_the_log_is_named_in_what_is_told(tmp_path: Path) -> None:
    options = sink_options.parse({"metadata": f"sqlite://{tmp_path}/no/meta.db", "log": "a/b"})
    with pytest.raises(NotWritten, match=r"\Alog a/b"):
        LogStreamWriter(options).commit(
            [PartWritten(IdlePartition(of=OF, partition=2, is_known=True))], 4
        )
