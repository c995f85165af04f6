"""The shell of a stream: a refusal is told at the first question, and limits are the options'."""

import pickle

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import LongType, StructField, StructType

from zonekeeper.pipeline import NotRead
from zonekeeper.pipeline.reading import message_rows
from zonekeeper.pipeline.source.data_source import LedgerSource
from zonekeeper.pipeline.source.log_stream import StreamLimits
from zonekeeper.pipeline.source.stream_reader import LogStreamReader, RefusedStream

GIVEN = {"metadata": "sqlite:///srv/meta.db", "log": "orders"}
SCHEMA = message_rows.COLUMNS.schema()


def made(**given: str) -> LogStreamReader:
    reader = LedgerSource({**GIVEN, **given}).streamReader(SCHEMA)
    assert isinstance(reader, LogStreamReader)
    return reader


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"to": "latest"}, "to: latest: is no option of a stream"),
        ({"from": "latest"}, "from: latest: needs a cursor in a stream"),
        ({"nosuch": "x"}, "nosuch: unknown"),
    ],
)
def test_what_is_wrong_is_raised_at_the_first_question(given: dict[str, str], said: str) -> None:
    refused(LedgerSource({**GIVEN, **given}), SCHEMA, said)


def refused(source: LedgerSource, schema: StructType, said: str) -> None:
    reader = pickle.loads(pickle.dumps(source.streamReader(schema)))
    assert isinstance(reader, RefusedStream)
    for ask in (reader.initialOffset, lambda: reader.latestOffset({}, ReadAllAvailable())):
        with pytest.raises(NotRead, match=said):
            ask()


def test_a_stream_of_a_ledger_or_of_other_columns_is_refused() -> None:
    ledger = LedgerSource({"metadata": GIVEN["metadata"], "ledger": "7"})
    refused(ledger, SCHEMA, "log: not given: is required for a stream")
    wrong = StructType([StructField("length", LongType())])
    refused(LedgerSource(dict(GIVEN)), wrong, "the schema asks for length bigint")


def test_a_reader_can_be_sent_and_says_that_it_can_end_by_itself() -> None:
    reader = made(cursor="c", **{"from": "latest"})

    assert isinstance(reader, SupportsTriggerAvailableNow)
    assert isinstance(pickle.loads(pickle.dumps(reader)), LogStreamReader)
    assert reader.reportLatestOffset() is None


@pytest.mark.parametrize(
    ("given", "default", "limit", "limits"),
    [
        ({}, ReadAllAvailable(), ReadAllAvailable(), StreamLimits()),
        ({}, ReadAllAvailable(), ReadMaxRows(5), StreamLimits(rows=5)),
        (
            {"maxRowsPerTrigger": "3", "maxBytesPerTrigger": "9"},
            ReadMaxRows(3),
            ReadMaxRows(3),
            StreamLimits(rows=3, size_bytes=9),
        ),
        (
            {"maxBytesPerTrigger": "9"},
            ReadMaxBytes(9),
            ReadMaxBytes(4),
            StreamLimits(size_bytes=4),
        ),
        ({"maxRowsPerTrigger": "3"}, ReadMaxRows(3), ReadAllAvailable(), StreamLimits()),
    ],
)
def test_the_limits_are_the_least_of_what_spark_and_the_options_say(
    given: dict[str, str], default: ReadLimit, limit: ReadLimit, limits: StreamLimits
) -> None:
    reader = made(**given)

    assert reader.getDefaultReadLimit() == default
    assert reader._limits(limit) == limits
