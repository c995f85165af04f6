"""What would become of a ledger if some bookies were lost, on top of those that are missing now?

Every write set of every fragment is judged, and the worst answer counts. With ``and_one`` one
further member is lost as well, and the worst choice of that member counts. A member whose zone is
unknown counts as lost, too.

- *unreadable*: no copy of some entries is left;
- *perhaps unreadable*: the lost members of a write set alone may make an ack quorum. An entry that
  no other member has would be gone. Most entries reach all of their write set;
- *at its last copy*: one copy of some entries is left;
- *unwritable*: an open ledger cannot get an acknowledgement without another ensemble.

``of_ledger`` judges a ledger by the worst of its fragments, ``of_fragment`` one fragment.
"""

import enum
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
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
        """The words that reports print."""
        return {0: "safe", 1: "at its last copy", 2: "perhaps unreadable", 3: "unreadable"}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerOutcome:
    """What becomes of one ledger, or of one fragment."""

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
            found = of_fragment(quorums, zones, gone, grows=grows, empty=empty)
            harm, unwritable = max(harm, found.harm), unwritable or found.unwritable
    return LedgerOutcome(harm=harm, unwritable=unwritable)


def of_fragment(
    quorums: Quorums,
    zones: Sequence[ZoneName | None],
    lost: AbstractSet[int],
    *,
    grows: bool,
    empty: bool,
) -> LedgerOutcome:
    """Judge a fragment of which the positions ``lost`` are lost; ``zones`` are its members'.

    Positions whose zone is unknown must be among them. ``grows``: its writer may still append to
    it. ``empty``: it is known to have no entry, so nothing of it can be lost.
    """
    return LedgerOutcome(
        harm=Harm.NONE if empty else _harm(quorums, zones, lost),
        unwritable=grows and not _can_ack(quorums, zones, lost),
    )


def _losses(lost: frozenset[int], size: int, *, and_one: bool) -> Iterator[frozenset[int]]:
    """Give ``lost``; with ``and_one`` give ``lost`` with each further position, if there is one."""
    left = [at for at in range(size) if at not in lost]
    if not and_one or not left:
        yield lost
    else:
        yield from (lost | {at} for at in left)


def _harm(quorums: Quorums, zones: Sequence[ZoneName | None], gone: AbstractSet[int]) -> Harm:
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


def _can_ack(quorums: Quorums, zones: Sequence[ZoneName | None], gone: AbstractSet[int]) -> bool:
    return all(
        quorums.suffice([zones[at] for at in quorums.write_set(EntryId(start)) if at not in gone])
        is Enough.YES
        for start in range(quorums.ensemble)
    )
