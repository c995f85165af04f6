"""What a client counts: for people, for tests, and for the bill of what crosses zones."""

from collections import Counter
from dataclasses import dataclass, field

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.ensembles.read_order import Reason


@dataclass(slots=True)
class ClientCounters:
    """Ever growing numbers of one client."""

    entries_confirmed: int = 0
    entries_read: int = 0
    frames_sent: int = 0
    #: Bytes of frames sent to bookies of the own zone, and of others or of unknown ones.
    bytes_written_local: int = 0
    bytes_written_remote: int = 0
    #: Bytes of packets that bookies of the own zone, and others, have sent.
    bytes_read_local: int = 0
    bytes_read_remote: int = 0
    reads_local: int = 0
    #: Requests sent first to another zone, by why.
    reads_remote: Counter[Reason] = field(default_factory=Counter)
    #: Requests sent because another one was slow.
    reads_hedged: int = 0
    ensemble_changes: int = 0
    #: Copies of entries whose digest did not match, by bookie: they need repair.
    bad_copies: Counter[BookieId] = field(default_factory=Counter)
    links_moved: int = 0

    @property
    def reads_spilled(self) -> int:
        """Requests sent first to another zone, though a replica stands in the own one."""
        remote = self.reads_remote
        return remote.total() - remote[Reason.OWN_ZONE_UNKNOWN] - remote[Reason.NO_LOCAL_REPLICA]

    @property
    def spill_ratio(self) -> float:
        """Their share of the requests that could have stayed in the own zone; 0 of none."""
        spilled = self.reads_spilled
        return spilled / (spilled + self.reads_local) if spilled else 0.0
