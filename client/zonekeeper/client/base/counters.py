"""The counters of a client: for people, for tests, and for the cost of traffic between zones."""

from collections import Counter
from dataclasses import dataclass, field

from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.ensembles.read_order import Reason


@dataclass(slots=True)
class ClientCounters:
    """Counters of one client; a counter never falls."""

    entries_confirmed: int = 0
    entries_read: int = 0
    frames_sent: int = 0
    #: Bytes of frames sent to bookies of the client's zone.
    bytes_written_local: int = 0
    #: Bytes of frames sent to all other bookies, also where a zone is unknown.
    bytes_written_remote: int = 0
    #: Bytes of packets received from bookies of the client's zone.
    bytes_read_local: int = 0
    #: Bytes of packets received from all other bookies.
    bytes_read_remote: int = 0
    #: Reads whose first request went to the client's zone.
    reads_local: int = 0
    #: Reads whose first request went to another zone, by reason.
    reads_remote: Counter[Reason] = field(default_factory=Counter)
    #: Requests sent because an earlier request was slow.
    reads_hedged: int = 0
    ensemble_changes: int = 0
    #: Copies of entries whose digest did not match, by bookie. Such a copy needs repair.
    bad_copies: Counter[BookieId] = field(default_factory=Counter)
    links_moved: int = 0
    #: How often the socket lane of a bookie was found to be out of reach while gRPC was not.
    lanes_blocked: Counter[BookieId] = field(default_factory=Counter)

    @property
    def reads_spilled(self) -> int:
        """Reads sent first to another zone although a replica stands in the client's zone."""
        remote = self.reads_remote
        return remote.total() - remote[Reason.OWN_ZONE_UNKNOWN] - remote[Reason.NO_LOCAL_REPLICA]

    @property
    def spill_ratio(self) -> float:
        """``reads_spilled / (reads_spilled + reads_local)``; 0 if nothing was spilled."""
        spilled = self.reads_spilled
        return spilled / (spilled + self.reads_local) if spilled else 0.0
