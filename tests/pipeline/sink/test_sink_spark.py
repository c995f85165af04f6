"""Rows of Spark in a log: each once and in order, whatever dies; refused in words."""

from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyspark.errors import (
    AnalysisException,
    PySparkException,
    PythonException,
    StreamingQueryException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.pipeline.dying_sink import DyingSink
from zonekeeper.client.api.blocking import Client
from zonekeeper.log.api.blocking import BlockingLogs
from zonekeeper.log.formats.messages import BadMessageError, LogMessage
from zonekeeper.log.publishing.partitions import QueryBatch
from zonekeeper.metadata.logs.log_queries import QueryRun
from zonekeeper.pipeline.sink import part_writing, sink_options

pytestmark = pytest.mark.spark

LIMIT_S = 600
#: Spark gives the process of a source ten seconds to start, which a busy machine may not do.
LATE = "Timed out while waiting for the Python worker to connect back"
STARTS = 5


@pytest.fixture(scope="module", autouse=True)
def dying(spark: SparkSession) -> None:
    spark.dataSource.register(DyingSink)


def messages(first: int, end: int) -> list[LogMessage]:
    """Give messages with all kinds of keys and headers; some are large."""

    def one(number: int) -> LogMessage:
        headers = (("n", b"%d" % number), ("é", b"")) if number % 7 == 0 else ()
        key = None if number % 3 == 0 else b"" if number % 3 == 1 else b"%d" % number
        size = 200_000 if number % 100 == 0 else number % 50
        return LogMessage(payload=b"%d/" % number + b"x" * size, key=key, headers=headers)

    return [one(number) for number in range(first, end)]


def append(logs: BlockingLogs, name: str, many: list[LogMessage]) -> None:
    with logs.writer(name) as writer:
        writer.flushed(writer.append_many(many) - 1)


def content(logs: BlockingLogs, name: str) -> list[LogMessage]:
    """Read a log as its readers do; its sequences are dense."""
    found = list(logs.reader(name).read_messages())
    assert [one.sequence for one in found] == list(range(len(found)))
    return [one.message for one in found]


def number(message: LogMessage) -> int:
    return int(bytes(message.payload).split(b"/")[0])


Write = Callable[..., None]


@pytest.fixture
def write(cluster_address: str) -> Write:
    """Give the way to write a frame into a log, as one job."""

    def job(frame: DataFrame, log: str, *, mode: str = "append", **given: str) -> None:
        source = "dying_sink" if "dies" in given else "zonekeeper"
        options = {"metadata": cluster_address, "log": log, **given}
        frame.write.format(source).options(**options).mode(mode).save()

    return job


def test_a_log_goes_through_spark_into_another_by_one_job(
    spark: SparkSession, cluster_address: str, write: Write, logs: BlockingLogs
) -> None:
    many = messages(0, 3_000)
    for name in ("sunk/from", "sunk/to", "sunk/texts"):
        logs.create(name)
    append(logs, "sunk/from", many)
    source = spark.read.format("zonekeeper").options(metadata=cluster_address, log="sunk/from")
    frame = source.load().select("headers", "payload", "key")

    write(frame, "sunk/to", dies="raise")
    assert content(logs, "sunk/to") == many
    write(frame.limit(0), "sunk/to")
    append(logs, "sunk/to", messages(3_000, 3_001))
    write(frame.repartition(3), "sunk/to", dies="exit")
    came = content(logs, "sunk/to")
    assert came[:3_001] == messages(0, 3_001)
    assert sorted(came[3_001:], key=number) == many

    write(spark.range(5).selectExpr("CAST(id AS string) AS payload"), "sunk/texts")
    assert sorted(one.payload for one in content(logs, "sunk/texts")) == [
        b"%d" % one for one in range(5)
    ]


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(PySparkException) as said:
        ask()
    lines = [
        line for line in str(said.value).splitlines() if "zonekeeper.pipeline.NotWritten" in line
    ]
    assert lines, said.value
    assert "Traceback" not in str(said.value)
    return lines[0]


def test_what_no_log_takes_is_refused_before_it_moves(
    spark: SparkSession, cluster_address: str, write: Write, logs: BlockingLogs, tmp_path: Path
) -> None:
    logs.create("sunk/refused")
    rows = spark.range(20).selectExpr("CAST(id AS string) AS payload")

    assert "is only appended to" in refused(lambda: write(rows, "sunk/refused", mode="overwrite"))
    assert "sunk/nowhere" in refused(lambda: write(rows, "sunk/nowhere"))
    assert "from: unknown: is no option" in refused(
        lambda: write(rows, "sunk/refused", **{"from": "latest"})
    )
    wrong = rows.selectExpr("payload", "1L AS sequence", "2 AS key")
    said = refused(lambda: write(wrong, "sunk/refused"))
    assert "sequence bigint, key int" in said
    assert '.select("key", "payload", "headers")' in said
    nulls = rows.selectExpr("CAST(NULL AS binary) AS payload")
    assert "have no payload (null)" in refused(lambda: write(nulls, "sunk/refused"))
    insert = "INSERT INTO sunk_table SELECT '1' AS payload"
    spark.sql(
        "CREATE TABLE sunk_table USING zonekeeper OPTIONS "
        f"(metadata '{cluster_address}', log 'sunk/refused')"
    )
    with pytest.raises(AnalysisException):  # a table has the source's columns
        spark.sql(insert)
    with pytest.raises(PythonException, match="this attempt dies"):
        write(rows, "sunk/refused", dies="always")
    assert content(logs, "sunk/refused") == []

    # A job that failed holds up nobody.
    write(rows, "sunk/refused")
    assert len(content(logs, "sunk/refused")) == 20
    (tmp_path / "other").write_text("another")
    assert "has another password" in refused(
        lambda: write(rows, "sunk/refused", passwordFile=str(tmp_path / "other"))
    )


def test_an_attempt_that_fails_leaves_no_ledger(
    cluster_address: str, writing: Client, logs: BlockingLogs
) -> None:
    logs.create("sunk/failing")
    options = sink_options.parse({"metadata": cluster_address, "log": "sunk/failing"})
    of = QueryBatch(log="sunk/failing", run=QueryRun(query="q", run="r"), batch=0)
    large, null = (
        pyarrow.RecordBatch.from_pydict({"payload": pyarrow.array([one], pyarrow.binary())})
        for one in (b"x" * 300_000, None)
    )
    before = list(writing.ledgers())

    with pytest.raises(BadMessageError, match="in rows 1 to 1"):
        part_writing.written(options, of, 0, [large, null])
    assert list(writing.ledgers()) == before
    part = part_writing.written(options, of, 0, [large])
    assert len(list(writing.ledgers())) == len(before) + 1
    assert part_writing.published(options, [part]).messages == 1
    assert part_writing.published(options, [part]).was_known


Start = Callable[..., StreamingQuery]


@pytest.fixture
def start(spark: SparkSession, cluster_address: str, tmp_path: Path) -> Start:
    """Give the way to start a stream from one log into another."""

    def stream(name: str, *, of: str, to: str, dies: str = "", once: bool = True) -> StreamingQuery:
        options = {"metadata": cluster_address, "log": of, "maxRowsPerTrigger": "40"}
        frame = spark.readStream.format("zonekeeper").options(**options).load()
        sink = {"metadata": cluster_address, "log": to, **({"dies": dies} if dies else {})}
        writing = (
            frame.select("key", "payload", "headers")
            .writeStream.format("dying_sink" if dies else "zonekeeper")
            .queryName(name)
            .options(**sink)
            .option("checkpointLocation", str(tmp_path / name))
        )
        return (
            writing.trigger(availableNow=True)
            if once
            else writing.trigger(processingTime="0 seconds")
        ).start()

    return stream


def run(start: Start, *given: str, **named: str) -> None:
    """Run a stream to the end that its log has now."""
    for _ in range(STARTS):
        try:
            assert start(*given, **named).awaitTermination(LIMIT_S)
        except StreamingQueryException as error:
            if LATE not in str(error):
                raise
        else:
            return
    raise AssertionError("Spark started no process for the source")


def forget_last_commit(checkpoint: Path) -> int:
    """Set a checkpoint to where it is when the driver dies between publish and commit."""
    commits = checkpoint / "commits"
    last = max(int(one.name) for one in commits.iterdir() if one.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last


def test_a_stream_into_a_log_loses_nothing_and_gives_nothing_twice(
    start: Start, logs: BlockingLogs, tmp_path: Path
) -> None:
    of, to = "sunk/etl-from", "sunk/etl-to"
    for name in (of, to):
        logs.create(name)
    append(logs, of, messages(0, 100))

    run(start, "etl", of=of, to=to, dies="raise")
    assert content(logs, to) == messages(0, 100)
    assert forget_last_commit(tmp_path / "etl") == 2
    append(logs, of, messages(100, 130))
    run(start, "etl", of=of, to=to, dies="exit")
    assert content(logs, to) == messages(0, 130)
    assert forget_last_commit(tmp_path / "etl") == 3
    run(start, "etl", of=of, to=to)
    assert content(logs, to) == messages(0, 130)

    # An application takes the log; the next run takes it back.
    append(logs, to, messages(130, 131))
    append(logs, of, messages(131, 140))
    run(start, "etl", of=of, to=to)
    assert content(logs, to) == messages(0, 140)


def test_of_two_streams_into_one_log_the_one_that_lost_it_hears_of_it(
    spark: SparkSession, start: Start, logs: BlockingLogs
) -> None:
    of, to = "sunk/both-from", "sunk/both-to"
    for name in (of, to):
        logs.create(name)
    append(logs, of, messages(0, 10))
    first = start("first", of=of, to=to, once=False)
    first.processAllAvailable()
    count = len(content(logs, to))
    assert count == 10
    run(start, "second", of=of, to=to)
    assert len(content(logs, to)) == 2 * count
    append(logs, of, messages(0, 10))

    with pytest.raises(StreamingQueryException) as said:
        first.awaitTermination(LIMIT_S)
    lines = [one for one in str(said.value).splitlines() if "NotWritten" in one]
    assert f"log {to}" in lines[0]
    assert "has claimed it" in lines[0]
    assert len(content(logs, to)) == 2 * count
    assert not spark.streams.active
