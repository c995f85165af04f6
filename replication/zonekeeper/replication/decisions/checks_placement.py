"""The placement check: how well do ledgers keep the rules, and which of them could do better now?

A ledger is as good as its worst fragment. A fragment that may still grow is left to its writer. A
fragment without entries holds nothing that could be moved. A ledger under STRICT is worth moving
only if ``adhere`` finds a plan for some fragment with the present bookies: without a plan, its mark
would stand for ever.

Bookies of one unit are alike for this check if they accept ensembles. So a result is remembered for
the members' locations and for which members accept ensembles, as long as bookies and rules stay the
same. The work grows with the distinct spreads, not with the ledgers.
"""

from dataclasses import dataclass
from typing import Final

from zonekeeper.metadata.formats import placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import Fragment, LedgerMetadata
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.ensembles import adhere, adherence
from zonekeeper.placement.ensembles.adherence import Level
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.replication.decisions import copy_plan

#: So many results are remembered at most. A full memory is cleared.
SPREADS_MAX: Final = 100_000

#: Quorums, and by position the member's location and whether it accepts ensembles.
_Spread = tuple[Quorums, tuple[tuple[Location | None, bool], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """How well a ledger, or a fragment, is spread, and whether it could be spread better."""

    level: Level
    #: ``adhere`` found a plan that spreads it better over the present bookies.
    can_be_bettered: bool
    #: For a fragment: ``adhere`` found no plan, and its search was cut short. For a ledger: this is
    #: true of one of its fragments.
    undecided: bool = False


class PlacementCheck:
    """Judges ledgers by one topology and one set of rules."""

    def __init__(self, topology: Topology, rules: PlacementRules, chance: Chance) -> None:
        self.topology: Final = topology
        self.rules: Final = rules
        self._chance = chance
        self._known: dict[_Spread, Finding] = {}

    def judge(self, ledger: LedgerMetadata) -> Finding | None:
        """Judge a ledger; None: it has no fragment that is finished and holds an entry."""
        quorums = placement_stamp.quorums_of(ledger)
        findings = [
            self.of_fragment(quorums, part.fragment)
            for part in copy_plan.finished(ledger)
            if part.entries
        ]
        if not findings:
            return None
        return Finding(
            level=min(each.level for each in findings),
            can_be_bettered=any(each.can_be_bettered for each in findings),
            undecided=any(each.undecided for each in findings),
        )

    def of_fragment(self, quorums: Quorums, fragment: Fragment) -> Finding:
        """Judge one fragment; the caller sees to it that the fragment is finished."""
        members = [self.topology.get(one) for one in fragment.ensemble]
        places = tuple((one.location, one.accepts_ensembles) for one in members if one is not None)
        if len(places) < len(members):
            # A member without a cookie is a loss. The auditor publishes it; moving is no answer.
            return Finding(level=Level.FAIL, can_be_bettered=False)
        spread = (quorums, places)
        known = self._known.get(spread)
        if known is None:
            if len(self._known) == SPREADS_MAX:
                self._known.clear()
            known = self._known[spread] = self._work_out(quorums, fragment)
        return known

    def _work_out(self, quorums: Quorums, fragment: Fragment) -> Finding:
        level = adherence.judge(fragment.ensemble, quorums, self.rules, self.topology).level
        if level is Level.STRICT:
            return Finding(level=level, can_be_bettered=False)
        request = EnsembleRequest(topology=self.topology, quorums=quorums, rules=self.rules)
        plan = adhere.plan(request, fragment.ensemble, self._chance)
        found = bool(plan.replacements)
        return Finding(level=level, can_be_bettered=found, undecided=plan.cut and not found)
