"""The placement that a ledger was created under, as it stands in its custom metadata."""

import pytest

from zonekeeper.client import stamps
from zonekeeper.metadata.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.policy import PlacementRules
from zonekeeper.placement.quorums import Quorums

QUORUMS = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
RULES = PlacementRules(zones=(ZoneName("a"), ZoneName("b"), ZoneName("c")))


def stamped(stamp: bytes | None) -> LedgerMetadata:
    return LedgerMetadata(
        ensemble_size=3,
        write_quorum=3,
        ack_quorum=2,
        fragments=(Fragment(EntryId(0), (BookieId("a-0"), BookieId("b-0"), BookieId("c-0"))),),
        digest=Digest.CRC32C,
        password=b"",
        custom=() if stamp is None else ((stamps.KEY, stamp),),
    )


def test_the_zones_of_an_ack_are_those_that_the_creator_kept_to() -> None:
    assert stamps.quorums_of(stamped(stamps.render(QUORUMS, RULES, 7))) == QUORUMS


def test_no_stamp_promises_more_zones_than_an_ack_has_bookies() -> None:
    assert stamps.quorums_of(stamped(b'{"ackZones":9}')).ack_zones == 2


@pytest.mark.parametrize(
    "stamp",
    [
        None,
        b"",
        b"{",
        b"\xff",
        b"[2]",
        b'{"ackZones":"2"}',
        b'{"ackZones":0}',
        b'{"ackZones":' + b"9" * 5_000 + b"}",
        b"[" * 100_000,
        b'{"ackZones":' + b"[" * 100_000,
    ],
    ids=range(10),
)
def test_a_stamp_that_cannot_be_read_says_nothing(stamp: bytes | None) -> None:
    assert stamps.quorums_of(stamped(stamp)).ack_zones == 1
