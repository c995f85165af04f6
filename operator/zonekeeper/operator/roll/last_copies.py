"""What a step of a roll leaves of each ledger while its bookies are away. Pure.

Each fragment is asked, with those bookies counted that are away already. Fragments with the same
bookies and quorums have the same answer, so they are kept together.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.holds import Holds
from zonekeeper.placement.base.ids import BookieId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.promises import absences
from zonekeeper.replication.decisions import order_steps

#: A fragment: its quorums, its bookies, and whether it may still grow.
_Kind: TypeAlias = tuple[Quorums, tuple[BookieId, ...], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPrice:
    """What a step costs while it lasts: numbers of ledgers."""

    #: They have a copy on a bookie of the step.
    ledgers: int
    #: Some of their entries have one copy left, or none.
    last_copy: int
    #: Some of their entries may not be readable.
    unreadable: int
    #: They could not be recovered for certain if their writer died.
    unrecoverable: int
    #: The first ledger at its last copy; None: there is none.
    first: LedgerId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldCopies:
    """What a bookie holds."""

    #: The number of ledgers that name it.
    ledgers: int
    #: Its part of the payload of those that are closed.
    closed_bytes: int


class LedgerCopies:
    """The fragments of a listing of all ledgers."""

    def __init__(self) -> None:
        self.ledgers = 0
        #: Ledgers whose metadata cannot be read: nothing is known of their copies.
        self.unknown = 0
        self._ledgers: dict[_Kind, set[LedgerId]] = {}
        self._held: dict[BookieId, HeldCopies] = {}

    def add(self, ledger_id: LedgerId, ledger: LedgerMetadata) -> None:
        """Add a ledger."""
        self.ledgers += 1
        for bookie in ledger.bookies:
            before = self.held(bookie)
            own_bytes = order_steps.held_bytes(ledger, bookie)
            self._held[bookie] = HeldCopies(
                ledgers=before.ledgers + 1, closed_bytes=before.closed_bytes + own_bytes
            )
        quorums = placement_stamp.quorums_of(ledger)
        last = ledger.fragments[-1]
        for fragment in ledger.fragments:
            grows = fragment is last and not ledger.is_closed
            kind = (quorums, fragment.ensemble, grows)
            self._ledgers.setdefault(kind, set()).add(ledger_id)

    def held(self, bookie: BookieId) -> HeldCopies:
        """Give what a bookie holds."""
        return self._held.get(bookie, HeldCopies(ledgers=0, closed_bytes=0))

    def add_unknown(self) -> None:
        """Add a ledger whose metadata cannot be read."""
        self.ledgers += 1
        self.unknown += 1

    def price(
        self,
        zone: ZoneName,
        bookies: Collection[BookieId],
        locations: Mapping[BookieId, Location | None],
        away: Collection[BookieId],
    ) -> StepPrice:
        """Give the price of a step with these bookies of a zone; ``away``: away already."""
        touched, last, unreadable, unrecoverable = (set[LedgerId]() for _ in range(4))
        # The bookies of the step are named one by one, so no unit is away as a whole.
        nowhere = Location(zone, UpgradeDomain(""))
        for (quorums, ensemble, grows), ledgers in self._ledgers.items():
            if not any(bookie in bookies for bookie in ensemble):
                continue
            gone = frozenset(
                at for at, bookie in enumerate(ensemble) if bookie in bookies or bookie in away
            )
            where = [locations.get(bookie) for bookie in ensemble]
            absence = absences.of_unit(quorums, where, nowhere, already=gone)
            touched |= ledgers
            if quorums.write - absence.worst <= 1:
                last |= ledgers
            if absence.reads is not Holds.YES:
                unreadable |= ledgers
            if grows and absence.recovery is not Holds.YES:
                unrecoverable |= ledgers
        return StepPrice(
            ledgers=len(touched),
            last_copy=len(last),
            unreadable=len(unreadable),
            unrecoverable=len(unrecoverable),
            first=min(last, default=None),
        )
