"""Which ledgers would be at risk while a unit is away: what one listing has seen. Pure.

Ledgers are asked, not pods. A fragment is at risk if, with the unit away and with those bookies
that are away already, acknowledged entries could not be read for certain. A fragment that may still
grow is at risk, too, if its ledger could not be recovered for certain when its writer died. That
the rest of an ensemble cannot acknowledge is no risk: the writer then changes its ensemble.

Fragments with the same bookies and quorums have the same answer. So they are kept together, and a
gate asks once for each kind of fragment, and not once for each ledger.
"""

from array import array
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.promises import absences
from zonekeeper.replication.decisions import order_steps

#: Its quorums, its bookies, and whether it may still grow.
_Kind: TypeAlias = tuple[Quorums, tuple[BookieId, ...], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class AtRisk:
    """The ledgers that would be at risk; at least one."""

    ledgers: int
    first: LedgerId


class FragmentKinds:
    """The fragments of a listing, by kind. Ledgers are added in any order."""

    def __init__(self) -> None:
        self.ledgers = 0
        #: The payload bytes of closed ledgers that each bookie holds.
        self.held_bytes: dict[BookieId, int] = {}
        self._ledgers: dict[_Kind, array[int]] = {}
        self._unreadable: array[int] = array("q")

    def add(self, ledger_id: LedgerId, ledger: LedgerMetadata) -> None:
        """Add a ledger; a fragment that has no entries, and gets none, is left out."""
        self.ledgers += 1
        for bookie in ledger.bookies:
            held = self.held_bytes.get(bookie, 0) + order_steps.held_bytes(ledger, bookie)
            self.held_bytes[bookie] = held
        quorums = placement_stamp.quorums_of(ledger)
        ends: list[int | None] = [after.first_entry for after in ledger.fragments[1:]]
        ends.append(ledger.last_entry + 1 if ledger.is_closed else None)
        for fragment, end in zip(ledger.fragments, ends, strict=True):
            if end is None or end > fragment.first_entry:
                kind = (quorums, fragment.ensemble, end is None)
                self._ledgers.setdefault(kind, array("q")).append(ledger_id)

    def add_unreadable(self, ledger_id: LedgerId) -> None:
        """Add a ledger whose metadata cannot be read: each unit may hold its last copies."""
        self.ledgers += 1
        self._unreadable.append(ledger_id)

    def at_risk(
        self,
        unit: Location,
        locations: Mapping[BookieId, Location | None],
        away: Collection[BookieId],
    ) -> AtRisk | None:
        """Give the ledgers at risk while a unit is away; ``away``: who is away already."""
        found = {*self._unreadable}
        for (quorums, ensemble, grows), ledgers in self._ledgers.items():
            where = [locations.get(bookie) for bookie in ensemble]
            if unit not in where and None not in where:
                continue
            already = frozenset(at for at, bookie in enumerate(ensemble) if bookie in away)
            absence = absences.of_unit(quorums, where, unit, already=already)
            needed = (absence.reads, absence.recovery) if grows else (absence.reads,)
            if any(answer is not Holds.YES for answer in needed):
                found |= {*ledgers}
        return AtRisk(ledgers=len(found), first=LedgerId(min(found))) if found else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerSight:
    """A listing that is complete, and what was known of bookies when it began."""

    #: The bookies that were registered, their starts, the gates. With another basis it is stale.
    basis: Hashable
    kinds: FragmentKinds = field(default_factory=FragmentKinds)
