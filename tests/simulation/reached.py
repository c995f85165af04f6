"""Counts the rare histories that a run is for, so that it is known whether they happened.

These are two recoveries of one ledger at a time, and ensembles that a recovery has to change while
it writes back.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.surroundings import Surroundings
from zonekeeper.client.sessions import recovery
from zonekeeper.client.sessions.recovery import Recovery
from zonekeeper.client.writing import writer_events as ev
from zonekeeper.metadata.formats.ledger_metadata import LedgerMetadata
from zonekeeper.placement.base.ids import LedgerId

OVERLAPPING: Final = "recoveries beside another of the same ledger"
CHANGED: Final = "ensembles changed in recoveries"


def listening(around: Surroundings) -> Sequence[Patch]:
    """Give what lets a world hear of its recoveries, those of planted bugs, too."""
    run, change = Recovery.run, recovery._InMemory.change
    under_way: Counter[LedgerId] = Counter()

    async def run_and_tell(self: Recovery) -> LedgerMetadata:
        around.did(OVERLAPPING, bool(under_way[self.ledger_id]))
        under_way[self.ledger_id] += 1
        try:
            return await run(self)
        finally:
            under_way[self.ledger_id] -= 1

    async def change_and_tell(
        self: recovery._InMemory, wanted: ev.ChangeEnsemble
    ) -> ev.ChangeEvent:
        changed = await change(self, wanted)
        around.did(CHANGED, isinstance(changed, ev.Changed))
        return changed

    return [(Recovery, "run", run_and_tell), (recovery._InMemory, "change", change_and_tell)]
