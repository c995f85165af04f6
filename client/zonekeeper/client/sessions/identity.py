"""What says to a bookie which ledger a writer writes, and that it may.

It is the same for all fragments of a ledger: an opening adds the first entry and the members.
"""

from dataclasses import dataclass, field

from zonekeeper.client.writing import writer_events as ev
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import openings
from zonekeeper.wire.formats.digests import MasterKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The part of an opening that is the same for all fragments of a ledger."""

    ledger_id: LedgerId
    master_key: MasterKey = field(repr=False)
    quorums: Quorums
    digest: Digest
    create_token: int

    def opening(self, wanted: ev.OpenLane) -> openings.FragmentOpening:
        """Give the opening of a fragment."""
        return openings.FragmentOpening(
            ledger_id=self.ledger_id,
            master_key=self.master_key,
            quorums=self.quorums,
            digest=self.digest,
            first_entry_id=wanted.first_entry,
            ensemble=wanted.ensemble,
            create_token=self.create_token,
        )
