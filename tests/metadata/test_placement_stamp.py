"""A ledger remembers under which placement it was created."""

import dataclasses

from zonekeeper.metadata import ledger_format, placement_stamp
from zonekeeper.metadata.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.placement.digests import Digest
from zonekeeper.placement.ids import BookieId, EntryId, ZoneName
from zonekeeper.placement.policy import PlacementRules, Policy
from zonekeeper.placement.quorums import Quorums

POLICY = Policy(placement=PlacementRules(zones=(ZoneName("a"), ZoneName("b"))), version=7)
PLAIN = LedgerMetadata(
    ensemble_size=2,
    write_quorum=2,
    ack_quorum=1,
    fragments=(Fragment(EntryId(0), (BookieId("x"), BookieId("y"))),),
    digest=Digest.CRC32C,
    password=b"",
)


def test_the_stamp_travels_with_the_ledger() -> None:
    stamp = placement_stamp.of_policy(POLICY)
    ledger = dataclasses.replace(PLAIN, custom=(placement_stamp.render(stamp),))
    stored = ledger_format.parse(ledger_format.render(ledger))
    assert placement_stamp.of_ledger(stored) == stamp
    assert placement_stamp.quorums(stored) == Quorums(ensemble=2, write=2, ack=1, ack_zones=2)


def test_a_ledger_of_another_program_has_no_stamp_and_needs_one_zone() -> None:
    assert placement_stamp.of_ledger(PLAIN) is None
    assert placement_stamp.quorums(PLAIN).ack_zones == 1
