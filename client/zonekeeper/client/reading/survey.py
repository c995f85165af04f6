"""What the bookies of an ensemble know of a ledger's end, and whether enough of them have spoken.

Each answer is one of: good evidence, "I have nothing of it" (a *no*, and as good as evidence), or
anything else, which is *unknown*: silence, an error, a bookie in limbo, a packet whose digest does
not match. The survey is complete when in every write set fewer than an ack quorum are unknown
(``placement.coverage``). By zones alone nothing is taken as proven: a bookie may have been moved.
"""

from dataclasses import dataclass, field

from zonekeeper.placement.base import coverage
from zonekeeper.placement.base.coverage import Coverage
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import entries


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one bookie's packets show, after their digests were checked."""

    last_add_confirmed: EntryId
    #: The highest entry that it has.
    last_entry: entries.Entry | None


def check(sealer: entries.Sealer, said: service.LacEvidence) -> Evidence:
    """Check a bookie's packets; raises ``EntryError`` for a bad one."""
    confirmed, entry = NO_ENTRY, None
    if said.explicit_lac is not None:
        confirmed = sealer.open_lac(said.explicit_lac)
    if (packet := said.last_entry) is not None:
        # The id is the packet's own word, which its digest covers.
        long_enough = len(packet) >= entries.HEADER_BYTES
        named = entries.header(packet).entry_id if long_enough else EntryId(0)
        entry = sealer.open(packet, named)
        confirmed = max(confirmed, entry.last_add_confirmed)
    return Evidence(confirmed, entry)


@dataclass(slots=True, kw_only=True)
class Survey:
    """The answers of one ensemble, as far as they have come."""

    quorums: Quorums
    zones: tuple[ZoneName | None, ...]
    #: The LAC that follows from the metadata alone.
    last_add_confirmed: EntryId
    answered: set[int] = field(default_factory=set)
    errors: dict[int, Exception] = field(default_factory=dict)
    #: The ledger's length up to those entries of which a packet was seen.
    lengths: dict[EntryId, int] = field(default_factory=dict)

    def heard(self, position: int, evidence: Evidence) -> None:
        """Note good evidence."""
        self.answered.add(position)
        self.last_add_confirmed = max(self.last_add_confirmed, evidence.last_add_confirmed)
        if (entry := evidence.last_entry) is not None:
            self.lengths[entry.entry_id] = entry.length

    def denied(self, position: int) -> None:
        """Note that a bookie is sure to have nothing of the ledger."""
        self.answered.add(position)

    def failed(self, position: int, error: Exception) -> None:
        """Note that nothing is known from a bookie."""
        self.errors[position] = error

    @property
    def pending(self) -> frozenset[int]:
        """Who may still answer."""
        everyone = frozenset(range(self.quorums.ensemble))
        return everyone - self.answered - self.errors.keys()

    @property
    def complete(self) -> bool:
        """Have enough answered?"""
        found = coverage.of_ensemble(
            self.quorums, answered=self.answered, pending=self.pending, zones=self.zones
        )
        return found is Coverage.YES

    @property
    def hopeless(self) -> bool:
        """Has everybody answered, and not enough of them with something that is known?"""
        return not self.pending and not self.complete
