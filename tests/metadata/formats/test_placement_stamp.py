"""A ledger's stamp says its placement; a client that cannot read it does not recover."""

import dataclasses

import pytest

from zonekeeper.metadata.formats import ledger_format, placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules

QUORUMS = Quorums(ensemble=3, write=3, ack=2, ack_zones=2)
RULES = PlacementRules(zones=(ZoneName("a"), ZoneName("b"), ZoneName("c")))
PLAIN = LedgerMetadata(
    ensemble_size=3,
    write_quorum=3,
    ack_quorum=2,
    fragments=(Fragment(EntryId(0), (BookieId("x"), BookieId("y"), BookieId("z"))),),
    digest=Digest.CRC32C,
    password=b"",
)

#: What was ever written, for ever: as a client writes it, and as a rebuild once did.
GOLDEN = (
    b'{"ackZones":2,"desiredZones":3,"format":1,"minZones":2,"policy":7,"strict":true,'
    b'"zones":["a","b","c"]}'
)
OF_A_REBUILD = b'{"ackZones":2,"desiredZones":2,"minZones":2,"policy":0,"strict":false}'


def stamped(stamp: bytes) -> LedgerMetadata:
    return dataclasses.replace(PLAIN, custom=((placement_stamp.KEY, stamp),))


def test_a_stamp_is_written_as_it_always_was() -> None:
    assert placement_stamp.KEY == "zonekeeper.placement"
    assert placement_stamp.render(QUORUMS, RULES, 7) == GOLDEN


@pytest.mark.parametrize("stamp", [GOLDEN, OF_A_REBUILD, GOLDEN.replace(b"{", b'{"new":1,', 1)])
def test_every_stamp_that_was_ever_written_is_read(stamp: bytes) -> None:
    stored = ledger_format.parse(ledger_format.render(stamped(stamp)))
    assert placement_stamp.promised(stored) == QUORUMS
    assert placement_stamp.quorums_of(stored) == QUORUMS


def test_a_ledger_of_another_program_has_no_stamp_and_needs_one_zone() -> None:
    assert placement_stamp.promised(PLAIN) == dataclasses.replace(QUORUMS, ack_zones=1)
    assert placement_stamp.quorums_of(PLAIN) == placement_stamp.promised(PLAIN)


@pytest.mark.parametrize(
    "stamp",
    [
        b"",
        b"{",
        b"{}",
        b"\xff",
        b"[2]",
        b'{"ackZones":"2"}',
        b'{"ackZones":0}',
        b'{"ackZones":-1}',
        b'{"ackZones":true}',
        b'{"ackZones":2,"ackZones":1}',
        b'{"ackZones":1,"format":2}',
        b'{"ackZones":' + b"9" * 5_000 + b"}",
        b"[" * 100_000,
        b'{"ackZones":' + b"[" * 100_000,
    ],
    ids=range(14),
)
def test_an_unreadable_stamp_promises_nothing_and_keeps_nobody_from_reading(stamp: bytes) -> None:
    with pytest.raises(UnreadableError, match=r"zonekeeper\.placement in its custom metadata"):
        placement_stamp.promised(stamped(stamp))
    assert placement_stamp.quorums_of(stamped(stamp)).ack_zones == 1


def test_more_zones_than_acknowledging_bookies_are_promised_as_far_as_can_be() -> None:
    old = stamped(b'{"ackZones":3}')
    assert placement_stamp.promised(old) == QUORUMS
    assert placement_stamp.quorums_of(old) == QUORUMS
