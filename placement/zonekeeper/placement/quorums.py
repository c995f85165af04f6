"""Ensemble, write quorum and ack quorum, and which bookies an entry is written to.

Entry ``e`` of a ledger goes to the ``write`` consecutive positions of its ensemble that start at
``e mod ensemble`` and wrap around at its end; that set is the entry's *write set*. There are as
many distinct write sets as positions. An entry is acknowledged once ``ack`` bookies of its write
set, standing in at least ``ack_zones`` zones, have it on disk.
"""

from dataclasses import dataclass

from zonekeeper.placement.ids import EntryId


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
