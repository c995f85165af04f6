"""Ledgers as DataFrames: a real Spark session, real bookie processes."""

import hashlib
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from zonekeeper.client.api import blocking
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.quorums import Quorums

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]
STRIPED = Quorums(ensemble=6, write=3, ack=2, ack_zones=2)


def written(client: blocking.Client, payloads: list[bytes], quorums: Quorums | None = None) -> int:
    with client.create(quorums=quorums) as writer:
        writer.append_many(payloads)
    return writer.ledger_id


@pytest.fixture(scope="session")
def payloads() -> list[bytes]:
    """Payloads of many sizes, empty ones and large ones among them."""
    chance = random.Random(5)
    small = [chance.randbytes(chance.randrange(300)) for _ in range(20_000)]
    large = [chance.randbytes(3 << 20) for _ in range(8)]
    return [*small[:9_000], *large, *small[9_000:]]


@pytest.fixture(scope="session")
def ledger(writing: blocking.Client, payloads: list[bytes]) -> int:
    return written(writing, payloads)


@pytest.fixture
def read(spark: SparkSession, cluster_address: str) -> Read:
    """Give the way to a DataFrame of a ledger."""

    def frame(ledger: int, schema: str | None = None, **options: str | int) -> DataFrame:
        given: dict[str, str | int] = {"metadata": cluster_address, "ledger": ledger, **options}
        reader = spark.read.format("zonekeeper").options(**given)
        return (reader if schema is None else reader.schema(schema)).load()

    return frame


def rows(frame: DataFrame) -> list[tuple[int, int, int, bytes]]:
    return [
        (row.ledger, row.entry, row.length, bytes(row.payload))
        for row in frame.orderBy("entry").collect()
    ]


def expected(ledger: int, payloads: list[bytes]) -> list[tuple[int, int, int, bytes]]:
    length, made = 0, []
    for entry, payload in enumerate(payloads):
        length += len(payload)
        made.append((ledger, entry, length, payload))
    return made


def test_every_byte_of_every_entry_arrives(read: Read, ledger: int, payloads: list[bytes]) -> None:
    frame = read(ledger)

    assert frame.schema.simpleString() == (
        "struct<ledger:bigint,entry:bigint,length:bigint,payload:binary>"
    )
    seen = frame.select("entry", "length", sql.sha2("payload", 256).alias("digest"))
    found = sorted((row.entry, row.length, row.digest) for row in seen.collect())
    assert found == [
        (entry, length, hashlib.sha256(payload).hexdigest())
        for _, entry, length, payload in expected(ledger, payloads)
    ]


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_range_is_read_in_as_many_pieces_as_asked_for(
    read: Read, ledger: int, payloads: list[bytes], partitions: int
) -> None:
    frame = read(ledger, first=150, last=8_149, partitions=partitions, rowsPerBatch=999)

    assert frame.rdd.getNumPartitions() == partitions
    sizes = frame.groupBy(sql.spark_partition_id()).count().collect()
    assert sorted(row["count"] for row in sizes) == sorted(
        8_000 * (at + 1) // partitions - 8_000 * at // partitions for at in range(partitions)
    )
    assert rows(frame) == expected(ledger, payloads)[150:8_150]


def test_a_ledger_that_is_striped_over_more_bookies_reads_the_same(
    read: Read, writing: blocking.Client, payloads: list[bytes]
) -> None:
    ledger = written(writing, payloads[:3_000], STRIPED)

    assert rows(read(ledger, partitions=2)) == expected(ledger, payloads[:3_000])


def test_two_filters_on_one_frame_each_see_their_own_rows(read: Read, ledger: int) -> None:
    frame = read(ledger, last=99)

    three, five = frame.where("entry = 3"), frame.where("entry = 5")

    assert three.count() == 1
    assert frame.count() == 100
    assert [row.entry for row in three.union(five).collect()] == [3, 5]


def test_with_a_schema_only_its_columns_are_read(read: Read, ledger: int) -> None:
    frame = read(ledger, "length bigint, entry bigint", last=4_999)

    assert frame.columns == ["length", "entry"]
    assert frame.agg(sql.sum("entry")).collect()[0][0] == 4_999 * 5_000 // 2


def test_an_empty_ledger_and_an_empty_rest_are_empty_frames(
    read: Read, writing: blocking.Client
) -> None:
    empty = written(writing, [])
    two = written(writing, [b"a", b"b"])

    assert read(empty).count() == 0
    assert read(two, first=2, partitions=4).count() == 0
    assert read(two, partitions=4).rdd.getNumPartitions() == 2


def test_a_recovered_ledger_with_a_password_is_read_with_its_file(
    spark: SparkSession,
    read: Read,
    writing: blocking.Client,
    tmp_path: Path,
    event_log: Callable[[], str],
) -> None:
    secret = "sésame-ouvre-toi"
    writer = writing.create(password=secret.encode())
    writer.append_many([b"a", b"b"])
    writer.flush()
    writing.open(writer.ledger_id, password=secret.encode(), recover=True)
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    right.write_text(f"{secret}\n")
    wrong.write_text("another")

    frame = read(writer.ledger_id, passwordFile=str(right))
    assert rows(frame)[1] == (writer.ledger_id, 1, 2, b"b")
    shown = str(frame._jdf.queryExecution().toString())
    assert "BatchScan" in shown
    told = [
        said(lambda: read(writer.ledger_id).count()),
        said(lambda: read(writer.ledger_id, passwordFile=str(wrong)).count()),
    ]
    assert all("has another password" in one for one in told)
    refused = said(lambda: read(writer.ledger_id, password=secret).count())
    assert "give the file's name as passwordFile" in refused
    assert "zonekeeper" in event_log()
    for text in (shown, *told, refused, event_log()):
        assert "ouvre" not in text
        assert "another'" not in text
    writer.halt()


def said(ask: Callable[[], object]) -> str:
    """Give what Spark says when it cannot plan."""
    with pytest.raises(AnalysisException) as refused:
        ask()
    return str(refused.value)


def test_several_ledgers_are_one_frame(
    spark: SparkSession, cluster_address: str, writing: blocking.Client
) -> None:
    made = []
    for count in range(5):
        with writing.create(custom={"run": b"%d" % (count % 2)}) as writer:
            writer.append_many([b"%d" % count] * count)
        made.append(writer.ledger_id)
    source = spark.read.format("zonekeeper").option("metadata", cluster_address)

    ranged = source.option("ledgers", f"{made[1]}-{made[3]}").load()
    assert ranged.rdd.getNumPartitions() == 1
    assert [(row.ledger, bytes(row.payload)) for row in ranged.collect()] == [
        (made[count], b"%d" % count) for count in (1, 2, 3) for _ in range(count)
    ]
    odd = source.option("ledgers", "run=1").option("partitions", 3).load()
    assert sorted(row.ledger for row in odd.collect()) == [made[1], *[made[3]] * 3]


def test_an_open_ledger_is_refused_with_what_to_do(read: Read, writing: blocking.Client) -> None:
    writer = writing.create()
    writer.append_and_wait(b"a")

    told = said(lambda: read(writer.ledger_id).count())

    assert f"ledger {writer.ledger_id} is OPEN: only a closed ledger is read" in told
    assert f"client.open({writer.ledger_id}, recover=True) recovers it, and" in told
    writer.append_and_wait(b"b")  # nobody was disturbed
    writer.close()
    assert read(writer.ledger_id).count() == 2


def test_what_cannot_be_read_is_refused_in_words(
    spark: SparkSession, read: Read, ledger: int, payloads: list[bytes]
) -> None:
    end = len(payloads) - 1
    told = said(lambda: spark.read.format("zonekeeper").option("partitons", 3).load())
    assert "metadata: not given: is required" in told
    assert "ledger, ledgers or log: not given: exactly one is required" in told
    assert "did you mean partitions?" in told
    told = said(lambda: read(ledger, last=end + 1).count())
    assert f"its last entry is {end}: there is no entry {end + 1}" in told
    assert "there is no ledger 123456" in said(lambda: read(123_456).count())
    assert "the schema asks for payload string" in said(
        lambda: read(ledger, "payload string").count()
    )
    told = said(lambda: read(ledger, metadata="sqlite:///nowhere/meta.db").count())
    assert "/nowhere/meta.db" in told


def test_s175_a_ledger_that_is_gone_fails_the_query_and_says_so_in_one_line(
    read: Read, writing: blocking.Client
) -> None:
    frame = read(ledger := written(writing, [b"a"]))
    assert frame.count() == 1
    writing.delete(LedgerId(ledger))

    with pytest.raises(PythonException, match=f"there is no ledger {ledger}") as refused:
        frame.count()
    of_spark, ours = str(refused.value).strip().splitlines()
    assert of_spark == "An exception was thrown from the Python worker:"
    assert ours.startswith(f"zonekeeper.pipeline.NotRead: there is no ledger {ledger} in ")


def test_s175_what_is_wrong_is_one_line_before_spark_s_own(read: Read, ledger: int) -> None:
    for ask in (
        lambda: read(123_456).count(),
        lambda: read(ledger, ledgr=7),
        lambda: read(ledger, "payload string").count(),
        lambda: read(ledger, metadata="sqlite:///nowhere/meta.db").count(),
    ):
        first, *rest = said(ask).strip().splitlines()
        assert "zonekeeper.pipeline.NotRead: " in first
        assert [line.strip() for line in rest] == ["SQLSTATE: 38000"]


def test_s176_a_ledger_is_a_table_of_sql(
    spark: SparkSession, cluster_address: str, writing: blocking.Client
) -> None:
    ledger = written(writing, [b"a", b"b", b"c"])
    given = f"metadata '{cluster_address}', ledger '{ledger}'"

    def ask(text: str) -> list[tuple[object, ...]]:
        return [tuple(row) for row in spark.sql(text).collect()]

    ask(f"CREATE TEMPORARY VIEW two_seen USING zonekeeper OPTIONS ({given}, last '1')")
    assert ask("SELECT max(entry) FROM two_seen") == [(1,)]
    ask(f"CREATE TABLE kept USING zonekeeper OPTIONS ({given}) COMMENT 'c'")
    try:
        assert ask("SELECT count(*), max(entry) FROM kept") == [(3, 2)]
        assert ask("SELECT entry FROM kept WITH (last = 0)") == [(0,)]
    finally:
        ask("DROP TABLE kept")
    wrong = f"CREATE TABLE wrong USING zonekeeper OPTIONS ({given}, frist '0')"
    assert "frist: unknown: is no option of zonekeeper; did you mean first?" in said(
        lambda: ask(wrong)
    )
