"""Messages are hashed out of Arrow batches as the definition says."""

import struct

import pyarrow
import pytest

from tests.pipeline.reports.test_message_hash import independent
from zonekeeper.pipeline.base.one_line import NotRead
from zonekeeper.pipeline.jobs import log_hashing
from zonekeeper.pipeline.reading import columns, message_rows
from zonekeeper.pipeline.reading.columns import RecordBatch

SCHEMA = columns.arrow_schema(message_rows.COLUMNS.schema())
#: Ledger, sequence, time, key, payload, headers.
ROWS = [
    (3, 500, 7, b"k", b"one", [("n", b"v"), ("é", b"")]),
    (3, 501, 9, None, b"", []),
    (4, 502, 8, b"", b"three", []),
    (3, 503, 6, None, b"four", [("n", b"")]),
]


def batch(**other: list[object]) -> RecordBatch:
    ledgers, sequences, times, keys, payloads, headers = zip(*ROWS, strict=True)
    count = len(ROWS)
    made: dict[str, list[object]] = {
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


def test_each_message_has_the_digest_of_all_that_a_copy_keeps() -> None:
    assert log_hashing.digests(batch()) == expected()
    assert log_hashing.digests(batch().slice(1, 2)) == expected()[1:3]


def test_sums_are_made_of_each_run_of_messages_of_one_ledger() -> None:
    (made,) = log_hashing.pieces([batch(), batch().slice(0, 0)])
    found = [tuple(row.values()) for row in made.to_pylist()]
    digests = [int.from_bytes(one, "big") for one in expected()]
    hashes = [
        struct.unpack(">4q", one.to_bytes(32, "big"))
        for one in (digests[0] ^ digests[1], *digests[2:])
    ]
    assert found == [
        (3, 2, 500, 502, 7, 9, 8, *hashes[0]),
        (4, 1, 502, 503, 8, 8, 5, *hashes[1]),
        (3, 1, 503, 504, 6, 6, 5, *hashes[2]),
    ]
    names = ["messages", "first", "end", *log_hashing.LANES]
    sums = log_hashing.sums_of({name: made.to_pylist()[0][name] for name in names})
    assert (sums.messages, sums.first, sums.end) == (2, 500, 502)
    assert sums.hash == (digests[0] ^ digests[1]).to_bytes(32, "big")


@pytest.mark.parametrize("name", ["ledger", "sequence", "time", "payload", "headers"])
def test_a_message_that_lacks_something_is_damage(name: str) -> None:
    with pytest.raises(NotRead, match=f"a message has no {name}"):
        list(log_hashing.pieces([batch(**{name: [None] * len(ROWS)})]))


def test_a_number_that_none_has_is_damage() -> None:
    for name in ("sequence", "time"):
        with pytest.raises(NotRead, match="a sequence or a time that none has"):
            list(log_hashing.pieces([batch(**{name: [-1_000] * len(ROWS)})]))
