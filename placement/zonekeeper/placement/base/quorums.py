"""Ensemble, write quorum and ack quorum: who is written to, and when that is enough.

Entry ``e`` of a ledger goes to the ``write`` consecutive positions of its ensemble that start at
``e mod ensemble`` and wrap around at its end; that set is the entry's *write set*. There are as
many distinct write sets as positions. An entry is acknowledged once ``ack`` bookies of its write
set, standing in at least ``ack_zones`` zones, have it on disk.

A bookie whose zone is unresolved (None) counts as a bookie. For the zones it proves nothing: it may
stand in a zone that is counted already, or in one that is not. Where the answer hangs on that, it
is *unknown*, and unknown never acknowledges.
"""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from zonekeeper.placement.base.ids import EntryId, ZoneName


class Enough(enum.Enum):
    """Do these bookies make an ack quorum?"""

    YES = "yes"
    #: Not these, but with bookies that have still to answer they would.
    NOT_YET = "not yet"
    #: Enough bookies; whether they stand in enough zones hangs on zones that are unresolved.
    UNKNOWN = "unknown"
    #: Whatever is still to come.
    NO = "no"

    def __bool__(self) -> bool:
        raise TypeError("four answers are not two: compare with `is Enough.YES`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorums:
    """How many bookies a ledger uses, writes each entry to, and waits for."""

    ensemble: int
    write: int
    ack: int
    #: An acknowledgement needs its bookies to stand in this many zones.
    ack_zones: int = 1

    def __str__(self) -> str:
        return f"{self.ensemble}/{self.write}/{self.ack}"

    def write_set(self, entry_id: EntryId) -> tuple[int, ...]:
        """Give the ensemble positions that hold an entry, first choice first."""
        first = entry_id % self.ensemble
        return tuple((first + step) % self.ensemble for step in range(self.write))

    def holds(self, position: int, entry_id: EntryId) -> bool:
        """Is an ensemble position in an entry's write set?"""
        return (position - entry_id) % self.ensemble < self.write

    def suffice(self, zones: Collection[ZoneName | None]) -> Enough:
        """Say whether bookies in these zones, one of each bookie, make an ack quorum.

        Never ``NOT_YET``: nobody else is asked for.
        """
        if len(zones) < self.ack:
            return Enough.NO
        known = set(zones)
        if None not in known:
            return Enough.YES if len(known) >= self.ack_zones else Enough.NO
        known.discard(None)
        # One unresolved bookie alone still stands in one zone, whichever it is.
        if max(len(known), 1) >= self.ack_zones:
            return Enough.YES
        unresolved = sum(zone is None for zone in zones)
        return Enough.UNKNOWN if len(known) + unresolved >= self.ack_zones else Enough.NO

    def acknowledged(
        self,
        entry_id: EntryId,
        *,
        acked: Collection[int],
        pending: Collection[int],
        zones: Sequence[ZoneName | None],
    ) -> Enough:
        """Say whether an entry is acknowledged, can still be, or needs another ensemble.

        ``acked`` are the positions that have it on disk, ``pending`` those that may still say so;
        who is in neither has failed. ``zones`` are those of the ensemble, by position. ``UNKNOWN``:
        all that can be had would do if unresolved zones turn out well, so that waiting does not
        help; resolve them, or change the ensemble as for ``NO``.
        """
        assert all(self.holds(position, entry_id) for position in (*acked, *pending)), (
            f"an answer from outside the write set {self.write_set(entry_id)} of entry {entry_id}"
        )
        now = self.suffice([zones[position] for position in acked])
        if now is Enough.YES:
            return now
        hoped = self.suffice([zones[position] for position in {*acked, *pending}])
        return Enough.NOT_YET if hoped is Enough.YES else hoped
