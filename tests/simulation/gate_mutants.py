"""Bugs of auto-replication, planted to see whether zone outages show them; only here.

They are numbered on from those of writers and bookies. Each has a directed test in
``tests/replication`` or ``tests/zone_scenarios``, too; the simulator finds them without being told
where to look.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tests.simulation.patching import Patch
from tests.simulation.planting import Mutant
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.placement.zones import gate
from zonekeeper.placement.zones.counted_time import Moment
from zonekeeper.placement.zones.gate import Gate, Judgement, Permission, Threat
from zonekeeper.replication.decisions.copy_plan import Cause, Finished
from zonekeeper.replication.repair.copying import Copier, GoOn
from zonekeeper.replication.repair.delivery import Delivery
from zonekeeper.replication.repair.ledger_repair import LedgerRepair
from zonekeeper.replication.repair.repair_metrics import RepairStoppedError, RepairTrouble
from zonekeeper.replication.view.rereading import Reread
from zonekeeper.replication.view.view import View


def _holds_outlive_their_rule() -> list[Patch]:
    original = gate.decide

    def decide(before: Gate, judged: Judgement, moment: Moment, rules: RepairRules) -> Gate:
        if before.permission is Permission.HELD and judged.threat is Threat.NONE:
            judged = replace(judged, threat=Threat.DOUBT)
        return original(before, judged, moment, rules)

    return [(gate, "decide", decide)]


def _restarts_open_the_gate() -> list[Patch]:
    original = gate.decide

    def decide(before: Gate, judged: Judgement, moment: Moment, rules: RepairRules) -> Gate:
        if moment.in_grace and moment.step_ms == 0:
            before = gate.first(moment)
            judged = replace(judged, threat=Threat.NONE)
        return original(before, judged, moment, rules)

    return [(gate, "decide", decide)]


def _swaps_before_the_copy() -> list[Patch]:
    async def copy(
        self: Copier,
        part: Finished,
        after: tuple[BookieId, ...],
        leaving: Mapping[int, Cause],
        go_on: GoOn,
    ) -> list[Delivery]:
        del self, part, after, leaving
        go_on()
        return []

    return [(Copier, "copy", copy)]


def _work_in_flight_goes_on() -> list[Patch]:
    original = LedgerRepair._go_on

    def go_on_once(
        self: LedgerRepair, ensemble: tuple[BookieId, ...], leaving: Mapping[int, Cause]
    ) -> GoOn:
        asks, asked = original(self, ensemble, leaving), list[bool]()

        def go_on(anew: Reread | None = None) -> None:
            del anew
            if not asked:
                asks()
                asked.append(True)

        return go_on

    return [(LedgerRepair, "_go_on", go_on_once)]


def _holds_nothing() -> list[Patch]:
    def what_holds(self: View, where: object, anew: object = None) -> None:
        del self, where, anew

    return [(View, "what_holds", what_holds), (View, "what_holds_anew", what_holds)]


def _presence_is_not_asked() -> list[Patch]:
    def go_on_unless_held(
        self: LedgerRepair, ensemble: tuple[BookieId, ...], leaving: Mapping[int, Cause]
    ) -> GoOn:
        view = self._view

        def go_on(anew: Reread | None = None) -> None:
            for position in leaving:
                if view.what_holds_anew(ensemble[position], anew) is not None:
                    raise RepairStoppedError(RepairTrouble.HELD, ensemble[position])

        return go_on

    return [(LedgerRepair, "_go_on", go_on_unless_held)]


GATE_MUTANTS: Final[Mapping[int, Mutant]] = {
    number: Mutant(
        number=number, what=what, profile="zone-gate", within_seeds=within, patches=patches
    )
    for number, what, within, patches in (
        (21, "a hold outlives its rule", 18, _holds_outlive_their_rule),
        (22, "a new zone watch opens the gate", 90, _restarts_open_the_gate),
        (23, "the swap comes before the copy", 45, _swaps_before_the_copy),
        (24, "work in flight is not stopped", 450, _work_in_flight_goes_on),
        (25, "replicators do not ask the gate", 450, _holds_nothing),
        (26, "a bookie that came back is replaced all the same", 900, _presence_is_not_asked),
    )
}
