"""A survey: what the bookies of an ensemble know of a ledger's end, and whether enough answered.

There are three kinds of answers. Good evidence counts. "I have nothing of the ledger" is a *no*,
and counts as much as evidence. Everything else is *unknown*: silence, an error, a bookie in limbo,
a packet whose digest does not match. The survey is complete when in every write set fewer than an
ack quorum of bookies are unknown (``placement.base.coverage``). Zones alone prove nothing here: a
bookie may have been moved to another zone since.
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
    """The content of one bookie's packets, after their digests were checked."""

    last_add_confirmed: EntryId
    #: The highest entry that the bookie has.
    last_entry: entries.Entry | None


def check(sealer: entries.Sealer, said: service.LacEvidence) -> Evidence:
    """Check a bookie's packets; raises ``EntryError`` for a bad one."""
    confirmed, entry = NO_ENTRY, None
    if said.explicit_lac is not None:
        confirmed = sealer.open_lac(said.explicit_lac)
    if (packet := said.last_entry) is not None:
        # The packet itself names its id; the digest covers that, so ``open`` checks it.
        long_enough = len(packet) >= entries.HEADER_BYTES
        named = entries.header(packet).entry_id if long_enough else EntryId(0)
        entry = sealer.open(packet, named)
        confirmed = max(confirmed, entry.last_add_confirmed)
    return Evidence(confirmed, entry)


@dataclass(slots=True, kw_only=True)
class Survey:
    """The answers of one ensemble so far."""

    quorums: Quorums
    zones: tuple[ZoneName | None, ...]
    #: The highest LAC known. It starts as the caller's LAC, and never falls.
    last_add_confirmed: EntryId
    #: Positions that gave good evidence or denied the ledger.
    answered: set[int] = field(default_factory=set)
    #: Positions that are unknown, and why.
    errors: dict[int, Exception] = field(default_factory=dict)
    #: The ledger's length up to an entry, for each entry whose packet was seen.
    lengths: dict[EntryId, int] = field(default_factory=dict)

    def heard(self, position: int, evidence: Evidence) -> None:
        """Note good evidence."""
        self.answered.add(position)
        self.last_add_confirmed = max(self.last_add_confirmed, evidence.last_add_confirmed)
        if (entry := evidence.last_entry) is not None:
            self.lengths[entry.entry_id] = entry.length

    def denied(self, position: int) -> None:
        """Note that a bookie is sure that it has nothing of the ledger."""
        self.answered.add(position)

    def failed(self, position: int, error: Exception) -> None:
        """Note that a bookie's answer is unknown."""
        self.errors[position] = error

    @property
    def pending(self) -> frozenset[int]:
        """The positions that may still answer."""
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
        """Has no position an answer pending, although the survey is not complete?"""
        return not self.pending and not self.complete
