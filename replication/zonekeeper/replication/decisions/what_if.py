"""What would become of a ledger if some bookies were lost, on top of those that are missing now?

Asked of every write set of every fragment, and the answer is the worst. With ``and_one`` it is the
worst over every further bookie as well. A member whose zone is unknown is taken to be lost, too.

- *unreadable*: no copy of some entries is left;
- *perhaps unreadable*: the lost alone make an ack quorum. An entry that reached only
  them would be gone; most entries reach all of their write set;
- *at its last copy*: one copy of some entries is left;
- *unwritable*: an open ledger cannot get an acknowledgement without another ensemble.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.ids import NO_ENTRY, BookieId, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Enough, Quorums


class Harm(enum.IntEnum):
    """What becomes of a ledger's entries, the worst last."""

    NONE = 0
    LAST_COPY = 1
    PERHAPS_UNREADABLE = 2
    UNREADABLE = 3

    @property
    def word(self) -> str:
        """Give it as reports print it."""
        return {0: "safe", 1: "at its last copy", 2: "perhaps unreadable", 3: "unreadable"}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOutcome:
    """What becomes of one ledger."""

    harm: Harm
    unwritable: bool


def of_ledger(
    ledger: LedgerMetadata,
    zone_of: Callable[[BookieId], ZoneName | None],
    is_lost: Callable[[BookieId], bool],
    *,
    and_one: bool = False,
) -> LedgerOutcome:
    """Judge a ledger; ``is_lost`` says which bookies would be lost, or are missing already."""
    quorums = placement_stamp.quorums_of(ledger)
    harm, unwritable = Harm.NONE, False
    for fragment in ledger.fragments:
        zones = [zone_of(one) for one in fragment.ensemble]
        lost = frozenset(
            at for at, one in enumerate(fragment.ensemble) if zones[at] is None or is_lost(one)
        )
        grows = not ledger.is_closed and fragment is ledger.last_fragment
        empty = ledger.is_closed and ledger.last_entry == NO_ENTRY
        for gone in _losses(lost, quorums.ensemble, and_one=and_one):
            if not empty:
                harm = max(harm, _harm(quorums, zones, gone))
            unwritable = unwritable or (grows and not _can_ack(quorums, zones, gone))
    return LedgerOutcome(harm=harm, unwritable=unwritable)


def _losses(lost: frozenset[int], size: int, *, and_one: bool) -> Iterator[frozenset[int]]:
    """Give the loss, or every loss of one more."""
    left = [at for at in range(size) if at not in lost]
    if not and_one or not left:
        yield lost
    else:
        yield from (lost | {at} for at in left)


def _harm(quorums: Quorums, zones: Sequence[ZoneName | None], gone: frozenset[int]) -> Harm:
    worst = Harm.NONE
    for start in range(quorums.ensemble):
        members = quorums.write_set(EntryId(start))
        lost = [at for at in members if at in gone]
        left = len(members) - len(lost)
        if left == 0:
            return Harm.UNREADABLE
        if quorums.suffice([zones[at] for at in lost]) is not Enough.NO:
            worst = max(worst, Harm.PERHAPS_UNREADABLE)
        elif left == 1:
            worst = max(worst, Harm.LAST_COPY)
    return worst


def _can_ack(quorums: Quorums, zones: Sequence[ZoneName | None], gone: frozenset[int]) -> bool:
    return all(
        quorums.suffice([zones[at] for at in quorums.write_set(EntryId(start)) if at not in gone])
        is Enough.YES
        for start in range(quorums.ensemble)
    )
