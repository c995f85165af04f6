"""Coverage: has every possible ack quorum a member that answered?

A recovery fences bookies and asks what they have. It may go on once every possible ack quorum has
an answering member, in **each** write set of the ensemble. Then the old writer gets no further
entry acknowledged without meeting a fence, and at least one bookie that answered has each entry
that was acknowledged. To count answers over the whole ensemble is not enough: with E > Qw the
silent bookies may be neighbours, in one write set. The same rule on one write set shows that an
entry was never acknowledged, if the answers are explicit denials.

These answers count: the answer to a fencing request, once the fence is on disk; and the answer to a
read with good data, or with an explicit "no such entry" or "no such ledger". A timeout, an error, a
bad digest, and a bookie that cannot tell are silence.

The deciding rule is Apache BookKeeper's: in each write set fewer than ``ack`` bookies are silent.
If ``ack_zones > 1``, fewer answers can be proof, because silent bookies of one zone make no ack
quorum, however many they are. That is true only if the writer was bound by this ``ack_zones`` and
saw these zones. Counting cannot show that. So this is an answer of its own (``BY_ZONES``), and
never ``YES``. An unresolved zone may be any zone, so it never helps.
"""

import enum
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Enough, Quorums


class Coverage(enum.Enum):
    """Does every possible ack quorum have a member that answered?"""

    #: By number alone: in each write set fewer than ``ack`` bookies are silent.
    YES = "yes"
    #: The bookies that have not answered yet can still make it YES or BY_ZONES.
    NOT_YET = "not yet"
    #: The silent bookies are enough for an ack quorum by number, but stand in too few zones. This
    #: is proof only if the ledger's writer is known to have kept to this ``ack_zones`` and zones.
    BY_ZONES = "by zones"
    #: The silent bookies could be an ack quorum, whatever answers are still to come.
    NO = "no"

    def __bool__(self) -> bool:
        raise TypeError("four answers are not two: compare with `is Coverage.YES`")


def of_ensemble(
    quorums: Quorums,
    *,
    answered: AbstractSet[int],
    pending: AbstractSet[int],
    zones: Sequence[ZoneName | None],
) -> Coverage:
    """Judge the answers of an ensemble over all of its write sets: may recovery go on?

    Positions are those of the ensemble. A position in neither set will not answer any more.
    """
    write_sets = [quorums.write_set(EntryId(start)) for start in range(quorums.ensemble)]
    return _judge(quorums, write_sets, answered, pending, zones)


def of_entry(
    quorums: Quorums,
    entry_id: EntryId,
    *,
    denied: AbstractSet[int],
    pending: AbstractSet[int],
    zones: Sequence[ZoneName | None],
) -> Coverage:
    """Judge the explicit denials of one entry: was the entry never acknowledged?

    ``denied`` are the positions whose bookie said that it does not have the entry. A position whose
    bookie has it is in neither set; such an entry is recovered, whatever the others say.
    """
    return _judge(quorums, [quorums.write_set(entry_id)], denied, pending, zones)


def _judge(
    quorums: Quorums,
    write_sets: Iterable[tuple[int, ...]],
    answered: AbstractSet[int],
    pending: AbstractSet[int],
    zones: Sequence[ZoneName | None],
) -> Coverage:
    silent_now = [[p for p in members if p not in answered] for members in write_sets]
    if _too_few(quorums, silent_now):
        return Coverage.YES
    silent_at_last = [[p for p in silent if p not in pending] for silent in silent_now]
    if _too_few(quorums, silent_at_last):
        return Coverage.NOT_YET
    if _too_close(quorums, silent_now, zones):
        return Coverage.BY_ZONES
    if _too_close(quorums, silent_at_last, zones):
        return Coverage.NOT_YET
    return Coverage.NO


def _too_few(quorums: Quorums, silent: Iterable[Sequence[int]]) -> bool:
    return all(len(positions) < quorums.ack for positions in silent)


def _too_close(
    quorums: Quorums, silent: Iterable[Sequence[int]], zones: Sequence[ZoneName | None]
) -> bool:
    return all(
        quorums.suffice([zones[position] for position in positions]) is Enough.NO
        for positions in silent
    )
