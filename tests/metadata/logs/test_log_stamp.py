"""The stamp of a log's ledger says which log it was made for, or that it does not say enough."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.logs import log_stamp
from zonekeeper.metadata.logs.log_stamp import LogStamp
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId

ID: Final = "0f" * 16
WHOLE: Final = log_stamp.custom("orders/eu-1", ID, 3)


def ledger(custom: Mapping[str, bytes]) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=1,
        write_quorum=1,
        ack_quorum=1,
        fragments=(Fragment(EntryId(0), (BookieId("bk-a-0"),)),),
        digest=Digest.CRC32C,
        password=b"",
        custom=tuple(sorted(custom.items())),
    )


def test_a_stamp_is_read_as_it_was_written_and_its_keys_never_change() -> None:
    assert log_stamp.of(ledger(WHOLE)) == LogStamp(name="orders/eu-1", log_id=ID, epoch=3)
    assert {
        "zonekeeper.log": b"orders/eu-1",
        "zonekeeper.log.id": ID.encode(),
        "zonekeeper.log.epoch": b"3",
    } == WHOLE


def test_a_stamp_may_name_the_batch_of_a_query() -> None:
    custom = log_stamp.custom("orders/eu-1", ID, 3, ("6f2ee3ee", 41))
    assert custom == {
        **WHOLE,
        "zonekeeper.log.query": b"6f2ee3ee",
        "zonekeeper.log.batch": b"41",
    }
    stamp = LogStamp(name="orders/eu-1", log_id=ID, epoch=3, batch=("6f2ee3ee", 41))
    assert log_stamp.of(ledger(custom)) == stamp
    for key, raw in (
        (log_stamp.QUERY_KEY, b""),
        (log_stamp.BATCH_KEY, b"-1"),
        (log_stamp.BATCH_KEY, b"041"),
        (log_stamp.BATCH_KEY, b"9" * 19),
    ):
        assert log_stamp.of(ledger({**custom, key: raw})) == replace(stamp, batch=None)
    del custom[log_stamp.QUERY_KEY]
    assert log_stamp.of(ledger(custom)) == replace(stamp, batch=None)


def test_a_ledger_without_the_name_is_of_no_log() -> None:
    assert log_stamp.of(ledger({})) is None
    assert log_stamp.of(ledger({log_stamp.ID_KEY: ID.encode()})) is None


@pytest.mark.parametrize("raw", [b"", b"0F" * 16, b"0f" * 15, b"\xff"])
def test_an_id_that_cannot_be_read_is_none(raw: bytes) -> None:
    found = log_stamp.of(ledger({**WHOLE, log_stamp.ID_KEY: raw}))
    assert found == LogStamp(name="orders/eu-1", epoch=3)


@pytest.mark.parametrize("raw", [b"", b"0", b"-1", b"03", b"3x", b"9" * 19])
def test_an_epoch_that_cannot_be_read_is_none(raw: bytes) -> None:
    found = log_stamp.of(ledger({**WHOLE, log_stamp.EPOCH_KEY: raw}))
    assert found == LogStamp(name="orders/eu-1", log_id=ID)
