"""Bugs of processes that go on by what was so a moment ago: a start, a gate, a mark, metadata.

A directed test shows each; where the numbers of seeds allow it, the simulator finds it, too.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.client.sessions import newcomers
from zonekeeper.client.sessions.owner import Owner
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.registration import Registrar
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.metadata.store.store import Check, Versioned, Write
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view.rereading import Reread


def _earlier_starts_go_on() -> Sequence[Patch]:
    async def unguarded(self: Registrar, writes: list[Write], *, refuse: bool) -> list[Write]:
        del self, refuse
        return writes

    def is_former(self: Registrar, node: Versioned, path: str) -> bool:
        del self, node, path
        return True

    return [(Registrar, "_guarded", unguarded), (Registrar, "_is_former", is_former)]


def _swaps_check_no_gate() -> Sequence[Patch]:
    def none(self: Reread) -> tuple[Check, ...]:
        del self
        return ()

    return [(Reread, "checks", property(none))]


def _marks_are_finished_in_any_start() -> Sequence[Patch]:
    async def none(*asked: object) -> None:
        del asked

    def nobody(self: Repairer, *asked: object) -> list[object]:
        del self, asked
        return []

    return [(bookie_records, "check", none), (Repairer, "_moved_since", nobody)]


def _older_metadata_is_believed() -> Sequence[Patch]:
    def believe(self: Owner, ledger: LedgerMetadata) -> None:
        del self, ledger

    return [(Owner, "_check_last", believe)]


def _closings_check_no_newcomer() -> Sequence[Patch]:
    async def none(*asked: object) -> list[Check]:
        del asked
        return []

    return [(newcomers, "checks", none)]


STANDING_MUTANTS: Final[Mapping[int, Mutant]] = {
    47: Mutant(
        number=47,
        what="the process of an earlier start goes on and acknowledges",
        patches=_earlier_starts_go_on,
    ),
    48: Mutant(
        number=48,
        what="a swap is committed behind a hold",
        patches=_swaps_check_no_gate,
    ),
    49: Mutant(
        number=49,
        what="a mark is finished in whatever start its bookies are",
        patches=_marks_are_finished_in_any_start,
    ),
    50: Mutant(
        number=50,
        what="a writer changes a ledger that was set back",
        patches=_older_metadata_is_believed,
    ),
    51: Mutant(
        number=51,
        what="a recovery closes over newcomers in whatever start they are",
        patches=_closings_check_no_newcomer,
    ),
}
