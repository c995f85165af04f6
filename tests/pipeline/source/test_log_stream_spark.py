"""A query over a log: each message once, over restarts and dying tasks; refused in words."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from zonekeeper.log.api.blocking import BlockingLogs
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.log_record import LogRules

pytestmark = pytest.mark.spark

NAME = "streamed/one"
LIMIT_S = 600
#: Spark gives the process of a source ten seconds to start, which a busy machine may not do.
LATE = "Timed out while waiting for the Python worker to connect back"
STARTS = 5
#: Runs a query to its end, and gives it.
Run = Callable[..., StreamingQuery]


def append(logs: BlockingLogs, name: str, first: int, count: int) -> None:
    with logs.writer(name) as writer:
        for at in range(first, first + count, 10):
            many = [LogMessage(payload=b"%d" % number) for number in range(at, at + 10)]
            writer.flushed(writer.append_many(many) - 1)


@pytest.fixture
def run(spark: SparkSession, cluster_address: str, tmp_path: Path) -> Run:
    """Give the way to run a query with one checkpoint to the end that the log has now."""

    def query(log: str = NAME, **given: str) -> StreamingQuery:
        for _ in range(STARTS):
            try:
                return once(log, **given)
            except StreamingQueryException as error:
                if LATE not in str(error):
                    raise
        raise AssertionError("Spark started no process for the source")

    def once(log: str, **given: str) -> StreamingQuery:
        options = {"metadata": cluster_address, "log": log, **given}
        frame = spark.readStream.format("zonekeeper").options(**options).load()
        running = (
            frame.selectExpr("sequence", "CAST(payload AS string) AS payload")
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        assert running.awaitTermination(LIMIT_S)
        return running

    return query


@pytest.fixture
def came(spark: SparkSession, tmp_path: Path) -> Callable[[], DataFrame]:
    return lambda: spark.read.parquet(str(tmp_path / "out"))


def test_each_message_comes_once_over_restarts_and_limits(
    run: Run, came: Callable[[], DataFrame], logs: BlockingLogs
) -> None:
    logs.create(NAME, LogRules(rotate_messages=45))
    append(logs, NAME, 0, 100)

    first = run(maxRowsPerTrigger="33", cursor="etl")
    assert [one["numInputRows"] for one in first.recentProgress] == [33, 33, 33, 1]
    latest = first.recentProgress[-1]["sources"][0]["latestOffset"]
    assert latest is not None
    append(logs, NAME, 100, 60)
    second = run(maxBytesPerTrigger="200", cursor="etl")
    assert sum(one["numInputRows"] for one in second.recentProgress) == 60
    assert len(second.recentProgress) > 1

    rows = sorted((row.sequence, row.payload) for row in came().collect())
    assert rows == [(number, str(number)) for number in range(160)]
    # Spark commits a micro-batch to its source when it plans the next one.
    assert 99 <= logs.cursors(NAME)["etl"].position.sequence <= 160


def refused(ask: Callable[[], object]) -> str:
    with pytest.raises(StreamingQueryException) as said:
        ask()
    lines = [line for line in str(said.value).splitlines() if "zonekeeper.pipeline.NotRead" in line]
    assert lines
    assert "Traceback" not in str(said.value)
    return lines[0]


def test_a_trim_behind_a_query_and_another_log_are_refused_in_words(
    run: Run, came: Callable[[], DataFrame], logs: BlockingLogs
) -> None:
    name = "streamed/trimmed"
    logs.create(name)
    append(logs, name, 0, 20)
    run(log=name)
    append(logs, name, 20, 30)
    logs.trim(name, 30)

    assert "goes on at message 20, and those before 30 were trimmed" in refused(
        lambda: run(log=name)
    )
    run(log=name, onTrimmed="earliest")
    assert sorted(row.sequence for row in came().collect()) == [*range(20), *range(30, 50)]
    logs.delete(name)
    logs.create(name)
    append(logs, name, 0, 10)
    assert "it was deleted and made anew" in refused(lambda: run(log=name))
    assert "needs a cursor in a stream" in refused(lambda: run(log=name, **{"from": "latest"}))
