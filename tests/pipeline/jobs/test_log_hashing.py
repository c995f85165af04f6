"""Messages are hashed out of Arrow batches as the definition says."""

import struct
from collections.abc import Sequence

import pyarrow
import pytest

from tests.pipeline.reports.test_message_hash import independent
from zonekeeper.pipeline.jobs import log_hashing
from zonekeeper.pipeline.reading import columns, message_rows
from zonekeeper.pipeline.reading.columns import RecordBatch
from zonekeeper.pipeline.reports.import_plan import ExportDamaged
from zonekeeper.pipeline.reports.message_hash import MessageSums

SCHEMA = columns.arrow_schema(message_rows.COLUMNS.schema())
#: Ledger, sequence, time, key, payload, headers.
ROWS = [
    (3, 500, 7, b"k", b"one", [("n", b"v"), ("é", b"")]),
    (3, 501, 9, None, b"", []),
    (4, 502, 8, b"", b"three", []),
    (3, 503, 6, None, b"four", [("n", b"")]),
]


def batch(**other: Sequence[object]) -> RecordBatch:
    ledgers, sequences, times, keys, payloads, headers = zip(*ROWS, strict=True)
    count = len(ROWS)
    made: dict[str, Sequence[object]] = {
        "ledger": list(ledgers),
        "entry": [1] * count,
        "batch": [0] * count,
        "sequence": list(sequences),
        "time": [1_000 * one for one in times],
        "key": list(keys),
        "payload": list(payloads),
        "headers": [[{"name": name, "value": value} for name, value in one] for one in headers],
        **other,
    }
    arrays = [pyarrow.array(made[field.name], field.type) for field in SCHEMA]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def expected() -> list[bytes]:
    return [
        independent(
            sequence, wall_ms, payload, key, [(name.encode(), value) for name, value in headers]
        )
        for _, sequence, wall_ms, key, payload, headers in ROWS
    ]


def digests(found: RecordBatch) -> list[bytes]:
    return log_hashing.digests(*(found.column(name) for name in log_hashing.HASHED))


def test_each_message_has_the_digest_of_all_that_a_copy_keeps() -> None:
    assert digests(batch()) == expected()
    assert digests(batch().slice(1, 2)) == expected()[1:3]


def test_a_digest_goes_through_spark_as_four_numbers() -> None:
    for count in (len(ROWS), 0):
        columns_of = [batch().slice(0, count).column(name) for name in log_hashing.HASHED]
        rows = log_hashing.digest_lanes(*columns_of).to_pylist()
        assert [struct.pack(">4q", *row.values()) for row in rows] == expected()[:count]
    row = dict(zip(log_hashing.LANES, struct.unpack(">4q", expected()[0]), strict=True))
    sums = log_hashing.sums_of({"messages": 2, "first": 500, "end": 502, **row})
    assert sums == MessageSums(messages=2, first=500, end=502, hash=expected()[0])


@pytest.mark.parametrize("name", ["sequence", "time", "payload", "headers"])
def test_a_message_that_lacks_something_is_damage(name: str) -> None:
    with pytest.raises(ExportDamaged, match=f"a message has no {name}"):
        digests(batch(**{name: [None] * len(ROWS)}))


def test_a_number_that_none_has_is_damage() -> None:
    for name in ("sequence", "time"):
        with pytest.raises(ExportDamaged, match="a sequence or a time that none has"):
            digests(batch(**{name: [-1_000] * len(ROWS)}))
