"""Ensemble, write quorum and ack quorum: where an entry is written, and when that is enough.

Entry ``e`` of a ledger goes to ``write`` consecutive positions of its ensemble. They start at
``e mod ensemble`` and wrap around at its end. This set is the entry's *write set*. There are as
many distinct write sets as positions. (With E = Qw they have the same members.) An entry is
acknowledged once ``ack`` bookies of its write set have it on disk, and those bookies stand in at
least ``ack_zones`` zones.

A bookie whose zone is unresolved (None) counts as a bookie. It proves nothing about zones: it may
stand in a zone that is counted already, or in one that is not. If the answer depends on that, the
answer is *unknown*, and unknown never acknowledges.
"""

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from zonekeeper.placement.base.ids import EntryId, ZoneName


class Enough(enum.Enum):
    """Do these bookies make an ack quorum?"""

    YES = "yes"
    #: Not yet, but together with bookies that have still to answer they would.
    NOT_YET = "not yet"
    #: There are enough bookies, but it depends on unresolved zones whether there are enough zones.
    UNKNOWN = "unknown"
    #: No, whatever answers are still to come.
    NO = "no"

    def __bool__(self) -> bool:
        raise TypeError("four answers are not two: compare with `is Enough.YES`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quorums:
    """The numbers of bookies of a ledger, of an entry, and of an acknowledgement."""

    ensemble: int
    write: int
    ack: int
    #: The bookies of an acknowledgement must stand in at least this many zones.
    ack_zones: int = 1

    def __str__(self) -> str:
        return f"{self.ensemble}/{self.write}/{self.ack}"

    def write_set(self, entry_id: EntryId) -> tuple[int, ...]:
        """Give the ensemble positions that hold an entry, the first choice first."""
        first = entry_id % self.ensemble
        return tuple((first + step) % self.ensemble for step in range(self.write))

    def holds(self, position: int, entry_id: EntryId) -> bool:
        """Is an ensemble position in the write set of an entry?"""
        return (position - entry_id) % self.ensemble < self.write

    def suffice(self, zones: Collection[ZoneName | None]) -> Enough:
        """Say whether some bookies make an ack quorum; ``zones`` has the zone of each of them.

        The answer is never ``NOT_YET``: no other bookies are asked.
        """
        if len(zones) < self.ack:
            return Enough.NO
        known = set(zones)
        if None not in known:
            return Enough.YES if len(known) >= self.ack_zones else Enough.NO
        known.discard(None)
        # An unresolved bookie stands in one zone, whichever zone that is.
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

        ``acked`` are the positions that have the entry on disk. ``pending`` are those that may
        still answer. A position in neither set has failed. ``zones`` are those of the ensemble, by
        position. ``UNKNOWN`` means: even all pending answers would suffice only if the unresolved
        zones turn out well. So waiting does not help. Resolve the zones, or change the ensemble as
        for ``NO``.
        """
        assert all(self.holds(position, entry_id) for position in (*acked, *pending)), (
            f"an answer from outside the write set {self.write_set(entry_id)} of entry {entry_id}"
        )
        now = self.suffice([zones[position] for position in acked])
        if now is Enough.YES:
            return now
        hoped = self.suffice([zones[position] for position in {*acked, *pending}])
        return Enough.NOT_YET if hoped is Enough.YES else hoped
