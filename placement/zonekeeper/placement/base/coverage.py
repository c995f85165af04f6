"""Have enough bookies answered that nobody can have acknowledged, or will, behind their back?

Recovery fences bookies and asks what they have. It may go on once every possible ack quorum has an
answering member, in **each** write set of the ensemble: then the old writer gets no further entry
acknowledged without meeting a fence, and each entry that it did get acknowledged is known to one
who answered. Counting answers over the whole ensemble does not show that: with E > Qw, the silent
bookies may be neighbours. The same rule on one write set says that an entry was never acknowledged,
when the answers are explicit denials.

Only an answer counts: to a fencing request once the fence is on disk, to a read with good data or
an explicit "no such entry" or "no such ledger". A timeout, an error, a bad digest and a bookie that
cannot tell are silence.

The rule that decides is Apache BookKeeper's: in each write set fewer than ``ack`` are silent. Where
``ack_zones`` is more than one, fewer answers can be proof, because silent bookies of one zone make
no ack quorum however many they are. That holds only if the writer was bound by this very
``ack_zones`` and saw these very zones, which counting cannot show; so it is an answer of its own,
and never ``YES``. An unresolved zone may be any zone, so it never helps.
"""

import enum
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from zonekeeper.placement.base.ids import EntryId, ZoneName
from zonekeeper.placement.base.quorums import Enough, Quorums


class Coverage(enum.Enum):
    """Does every possible ack quorum have a member that answered?"""

    #: By their number alone: in each write set fewer than ``ack`` are silent.
    YES = "yes"
    #: Those that have still to answer can make it so.
    NOT_YET = "not yet"
    #: By number the silent could be an ack quorum; they stand in too few zones to be one. Proof
    #: only for who knows that the ledger's writer kept to this ``ack_zones`` and these zones.
    BY_ZONES = "by zones"
    #: The silent could be an ack quorum, whatever is still to come.
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
    """Judge answers of an ensemble over all of its write sets: may recovery go on?

    Positions are those of the ensemble; who is in neither set will not answer any more.
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
    """Judge explicit denials of one entry: was it never acknowledged?

    ``denied`` are the positions that said that they do not have it. A position that has it is in
    neither set, and its entry is to be recovered whatever the others say.
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
