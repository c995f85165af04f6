"""What a release of a gate that is held would copy: counted from the ledgers' metadata. Pure.

The count is that of ``zonekeeper autorecovery release --dry-run`` (``replication.decisions``). Room
is not judged here: only bookies know it, and the operator asks none. A gate that holds nothing that
is lost has no price.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.operator.people import repair_shown
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.zones.gate import Gate
from zonekeeper.replication.decisions.preflight import CopyWork, Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasePrice:
    """What a release of one gate would copy."""

    #: As the status names it: cluster, or zones/ and the name of the zone.
    gate: str
    reason: str
    #: The bookies that are missing there.
    bookies: tuple[BookieId, ...]
    work: CopyWork


class ReleasePrices:
    """Sums up ledger by ledger, for each gate that is held and has losses."""

    def __init__(self, root: RootFound) -> None:
        topology = Topology(_bookies(root))
        self._counted = [
            (name, gate, lost, Tally(lost, topology)) for name, gate, lost in _held(root)
        ]

    def add(self, ledger: LedgerMetadata) -> None:
        """Count a ledger."""
        for *_, tally in self._counted:
            tally.add(ledger)

    def add_unknown(self) -> None:
        """Count a ledger whose metadata cannot be read."""
        for *_, tally in self._counted:
            tally.unreadable()

    def found(self) -> tuple[ReleasePrice, ...]:
        """Give the price of each release."""
        return tuple(
            ReleasePrice(
                gate=name, reason=gate.reason, bookies=tuple(sorted(lost)), work=tally.work
            )
            for name, gate, lost, tally in self._counted
        )


def _held(root: RootFound) -> Iterator[tuple[str, Gate, frozenset[BookieId]]]:
    missing = root.locations.keys() - root.registered
    if root.gates.cluster is not None and not root.gates.cluster.gate.permits and missing:
        yield repair_shown.CLUSTER, root.gates.cluster.gate, frozenset(missing)
    for zone, record in sorted(root.gates.zones.items()):
        there = {
            one for one in missing if (at := root.locations[one]) is not None and at.zone == zone
        }
        if there and not record.gate.permits:
            yield f"{repair_shown.ZONES}{zone}", record.gate, frozenset(there)


def _bookies(root: RootFound) -> Iterator[Bookie]:
    for bookie, where in root.locations.items():
        registration = Registration.ABSENT
        if bookie in root.registered:
            is_full = bookie in root.read_only
            registration = Registration.READ_ONLY if is_full else Registration.WRITABLE
        yield Bookie(id=bookie, location=where, registration=registration)
