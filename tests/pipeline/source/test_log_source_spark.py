"""A log as a DataFrame: every column of every message, each once, whatever happens to tasks."""

import hashlib
import random
from collections.abc import Callable

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from tests.pipeline.dying_source import DyingSource
from zonekeeper.log.api.blocking import BlockingLogs
from zonekeeper.log.formats.messages import LogMessage
from zonekeeper.metadata.formats.log_record import LogRules

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]
NAME = "orders/eu-1"
COUNT = 30_000


def made() -> list[LogMessage]:
    chance = random.Random(7)

    def one(number: int) -> LogMessage:
        headers = (("n", b"%d" % number), ("n", b"")) if number % 50 == 0 else ()
        key = None if number % 3 == 0 else b"" if number % 3 == 1 else b"%d" % (number % 97)
        size = 100_000 if number % 5_000 == 0 else chance.randrange(200)
        return LogMessage(payload=chance.randbytes(size), key=key, headers=headers)

    return [one(number) for number in range(COUNT)]


@pytest.fixture(scope="session")
def messages(logs: BlockingLogs) -> list[LogMessage]:
    """The messages of a log of several ledgers."""
    many = made()
    logs.create(NAME, LogRules(rotate_messages=7_000))
    with logs.writer(NAME) as writer:
        for at in range(0, COUNT, 1_000):
            last = writer.append_many(many[at : at + 1_000])
            writer.flushed(last - 1)
    return many


@pytest.fixture
def read(spark: SparkSession, cluster_address: str, messages: list[LogMessage]) -> Read:
    """Give the way to a DataFrame of the log."""
    assert messages

    def frame(schema: str | None = None, source: str = "zonekeeper", **options: str) -> DataFrame:
        given = {"metadata": cluster_address, "log": NAME, **options}
        reader = spark.read.format(source).options(**given)
        return (reader if schema is None else reader.schema(schema)).load()

    return frame


def digest(many: list[LogMessage], first: int = 0) -> list[tuple[object, ...]]:
    return [
        (
            first + at,
            one.key,
            hashlib.sha256(one.payload).hexdigest(),
            [(name, value) for name, value in one.headers],
        )
        for at, one in enumerate(many)
    ]


def digests(frame: DataFrame) -> list[tuple[object, ...]]:
    seen = frame.select("sequence", "key", sql.sha2("payload", 256).alias("payload"), "headers")
    return [
        (
            row.sequence,
            None if row.key is None else bytes(row.key),
            row.payload,
            [(pair.name, bytes(pair.value)) for pair in row.headers],
        )
        for row in seen.orderBy("sequence").collect()
    ]


def test_every_byte_of_every_message_arrives(
    read: Read, messages: list[LogMessage], logs: BlockingLogs
) -> None:
    frame = read(partitions="5")

    assert frame.schema.simpleString() == (
        "struct<ledger:bigint,entry:bigint,batch:int,sequence:bigint,time:timestamp,key:binary,"
        "payload:binary,headers:array<struct<name:string,value:binary>>>"
    )
    assert frame.rdd.getNumPartitions() == 5
    assert digests(frame) == digest(messages)
    some = frame.where("sequence IN (0, 6999, 7000, 29999)").orderBy("sequence").collect()
    reader = logs.reader(NAME)
    assert [f"{row.ledger}:{row.entry}:{row.batch}" for row in some] == [
        str(reader.at_sequence(row.sequence)) for row in some
    ]
    late = sql.abs(sql.unix_seconds("time") - sql.unix_seconds(sql.now())) > 86_400
    assert frame.where(late).count() == 0


def test_any_columns_in_any_order_are_read_alone(read: Read) -> None:
    frame = read("headers array<struct<name:string,value:binary>>, sequence bigint NOT NULL")
    assert frame.columns == ["headers", "sequence"]
    assert frame.where(sql.size("headers") > 0).count() == COUNT // 50
    kinds = dict(read().dtypes)
    for name, kind in kinds.items():
        assert read(f"{name} {kind}").where(f"{name} IS NULL").count() == (
            COUNT // 3 if name == "key" else 0
        )


def test_two_queries_on_one_view_and_a_union_of_two_filters(
    spark: SparkSession, cluster_address: str, read: Read
) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW log_seen USING zonekeeper OPTIONS "
        f"(metadata '{cluster_address}', log '{NAME}', from 'sequence:10', to 'sequence:19')"
    )

    def ask(text: str) -> list[int]:
        return sorted(row[0] for row in spark.sql(text).collect())

    assert ask("SELECT sequence FROM log_seen WHERE sequence = 13") == [13]
    assert ask("SELECT count(*) FROM log_seen") == [10]
    assert ask(
        "SELECT sequence FROM log_seen WHERE sequence = 13 UNION ALL "
        "SELECT sequence FROM log_seen WHERE sequence = 15"
    ) == [13, 15]
    frame = read(to="sequence:99")
    assert frame.where("sequence < 5").union(frame.where("sequence >= 95")).count() == 10


@pytest.mark.parametrize("dies", ["raise", "exit"])
def test_a_task_that_dies_once_gives_the_same_rows(
    spark: SparkSession, read: Read, messages: list[LogMessage], dies: str
) -> None:
    spark.dataSource.register(DyingSource)

    frame = read(source="dying", dies=dies, partitions="2", **{"from": "sequence:1000"})

    assert digests(frame) == digest(messages[1_000:], 1_000)


def test_an_open_log_is_read_to_the_end_that_it_had_when_it_was_loaded(
    spark: SparkSession, cluster_address: str, logs: BlockingLogs
) -> None:
    logs.create("orders/open")
    source = spark.read.format("zonekeeper").option("metadata", cluster_address)
    with logs.writer("orders/open") as writer:
        writer.flushed(writer.append(LogMessage(payload=b"a")))
        frame = source.option("log", "orders/open").load()
        assert [bytes(row.payload) for row in frame.collect()] == [b"a"]
        writer.flushed(writer.append(LogMessage(payload=b"b")))
        assert frame.count() == 1
        assert source.option("log", "orders/open").load().count() == 2
    assert frame.count() == 1
    logs.delete("orders/open")
    with pytest.raises(PythonException, match="NotRead: there is no log orders/open") as gone:
        frame.count()
    assert len(str(gone.value).strip().splitlines()) == 2


def test_what_cannot_be_read_is_one_line_before_data_moves(spark: SparkSession, read: Read) -> None:
    for wrong, said in (
        ({"log": "no/such"}, "there is no log no/such"),
        ({"from": "204"}, 'from: "204": is no place in a log; write sequence:204'),
        ({"ledger": "7"}, "exactly one is required"),
        ({"to": "sequence:999999"}, "message 999999 is ahead of its end"),
        ({"cursor": "c"}, "is an option of a stream"),
        ({"schema": "payload string"}, "the schema asks for payload string"),
        ({"passwordFile": "/no/such"}, "/no/such cannot be read on this machine: No such file"),
        ({"metadata": "zk://127.0.0.1:1/ledgers"}, "127.0.0.1:1"),
    ):
        with pytest.raises(AnalysisException) as refused:
            read(**wrong).count()
        first, *rest = str(refused.value).strip().splitlines()
        assert "zonekeeper.pipeline.NotRead: " in first
        assert said in first
        assert [line.strip() for line in rest] == ["SQLSTATE: 38000"]
