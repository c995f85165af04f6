"""Bugs of the zone machines, planted one at a time: a transcript shows each, on either side.

All transcripts pass with the real code. Here the named one must fail, by what it says.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest

from tests.simulation.patching import Patch, patched
from tests.zone_scenarios import players, transcripts
from tests.zone_scenarios.transcripts import Side
from zonekeeper.placement.policy.rules import Policy, RepairRules, Resume, ZoneWatchRules
from zonekeeper.placement.zones import (
    cluster_gate,
    counted_time,
    freeze,
    gate,
    losses,
    observation,
    watch,
    zone_counts,
)
from zonekeeper.placement.zones.cluster_gate import ClusterGate, SuspendedRelease, ZoneIncident
from zonekeeper.placement.zones.counted_time import Moment, Watcher
from zonekeeper.placement.zones.freeze import ClusterView, Switch, SwitchPhase
from zonekeeper.placement.zones.gate import Gate, Judgement, Permission, Threat, Token
from zonekeeper.placement.zones.observation import Observation, ZoneObservation
from zonekeeper.placement.zones.watch import Health, Sighting
from zonekeeper.placement.zones.zone_counts import Count
from zonekeeper.placement.zones.zone_records import Record

_decide, _without_threat = gate.decide, gate._without_threat
_of_others = cluster_gate._of_others
_look, _returning, _observe = counted_time.look, observation._returning, observation.observe


def _no_rule_opens(gate: Gate, moment: Moment, rules: RepairRules) -> bool:
    del gate, moment, rules
    return False


def _opens_in_grace(before: Gate, why: str, moment: Moment, rules: RepairRules) -> Gate:
    return _without_threat(before, why, replace(moment, in_grace=False), rules)


def _opens_by_itself(before: Gate, why: str, moment: Moment, rules: RepairRules) -> Gate:
    return _without_threat(before, why, moment, replace(rules, resume=Resume.AUTOMATIC))


def _doubts_are_nothing(
    before: Gate, judged: Judgement, moment: Moment, rules: RepairRules
) -> Gate:
    doubt = judged.threat is Threat.DOUBT
    return _decide(before, replace(judged, threat=Threat.NONE) if doubt else judged, moment, rules)


def _releases_last(before: Gate, judged: Judgement, moment: Moment, rules: RepairRules) -> Gate:
    released = before.permission is Permission.RELEASED
    return before if released else _decide(before, judged, moment, rules)


def _people_are_forgotten(
    before: Gate, judged: Judgement, moment: Moment, rules: RepairRules
) -> Gate:
    if before.held_by is not None and before.token is None:
        before = gate.first(moment)
    return _decide(before, judged, moment, rules)


def _nobody_turns_the_switch(before: Health, seen: Sighting, moment: Moment) -> Health:
    del seen, moment
    return before


def _no_step_counts(before: Health, zone: object, moment: Moment) -> Moment:
    del before, zone
    return replace(moment, step_ms=0)


def _held_up_the_same(
    seen: ZoneObservation, why: str, rules: ZoneWatchRules, moment: Moment, *, by_high_mark: bool
) -> ZoneObservation:
    back = _returning(seen, why, rules, moment, by_high_mark=by_high_mark)
    return replace(back, hold_up_ms=rules.hold_up_ms)


def _no_debounce(
    before: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    return _observe(before, count, replace(rules, suspect_for_ms=0), moment)


def _stuck_between_the_marks(
    before: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    after = _observe(before, count, rules, moment)
    return replace(after, between_ms=None)


def _up_without_evidence(
    before: ZoneObservation, count: Count, rules: ZoneWatchRules, moment: Moment
) -> ZoneObservation:
    if not count.total and before.state is Observation.DOWN:
        return replace(before, state=Observation.UP)
    return _observe(before, count, rules, moment)


def _one_lost_is_enough(count: Count, rules: ZoneWatchRules) -> bool:
    return count.at_or_under(rules.low_mark)


def _never_suspect(view: ClusterView) -> bool:
    del view
    return False


def _asked_again(switch: Switch, gate: Gate, policy: Policy) -> Switch:
    del policy
    lost = gate.permission is Permission.HELD and gate.real and not gate.over
    return Switch(phase=SwitchPhase.ASKED, token=gate.token) if lost else switch


def _no_grace(
    watcher: Watcher, rules: ZoneWatchRules, *, now_ms: int, wall_ms: int
) -> tuple[Watcher, Moment]:
    after, moment = _look(watcher, rules, now_ms=now_ms, wall_ms=wall_ms)
    return after, replace(moment, in_grace=False)


def _a_day(rules: ZoneWatchRules) -> int:
    del rules
    return 24 * 3_600_000


def _is_counted(count: Count, mark: float) -> bool:
    del count, mark
    return False


def _nothing_is_suspended(before: ClusterGate, incidents: object) -> None:
    del before, incidents


def _always(gate: Gate) -> bool:
    del gate
    return True


def _any_doubt_is_a_loss(
    judged: Judgement, incidents: Mapping[Token, ZoneIncident], suspended: SuspendedRelease
) -> Judgement:
    own = _of_others(judged, incidents, suspended)
    return replace(own, threat=Threat.LOSS) if own.threat is Threat.DOUBT else own


def _same_delays(record: Record, gate: Gate) -> Record:
    return replace(record, gate=gate)


#: By what is wrong: the bug, and a part of the title of the transcript that shows it.
BUGS: Final[Mapping[str, tuple[Patch, str]]] = {
    "a hold outlives its rule": (
        (gate, "_rule_opens", _no_rule_opens),
        "repairAfter releases a zone that stays away",
    ),
    "a watch opens in its grace": (
        (gate, "_without_threat", _opens_in_grace),
        "goes on with the hold-up, and opens after its own grace",
    ),
    "manual resume does not wait": (
        (gate, "_without_threat", _opens_by_itself),
        "under manual resume a person ends the hold",
    ),
    "a doubt holds nothing": (
        (gate, "decide", _doubts_are_nothing),
        "a zone that vanishes is held at once",
    ),
    "a release outlives its incident": (
        (gate, "decide", _releases_last),
        "a release lets go what the person saw",
    ),
    "a person's hold ends by itself": (
        (gate, "decide", _people_are_forgotten),
        "a hold of a person outlives everything",
    ),
    "the switch releases nothing": (
        (watch, "_obeying_the_switch", _nobody_turns_the_switch),
        "turning it on while the zone is gone",
    ),
    "no step counts": (
        (watch, "_own", _no_step_counts),
        "a zone that vanishes is held at once",
    ),
    "delays go on behind a freeze": (
        (watch, "_with_gate", _same_delays),
        "two zones lost freeze the cluster",
    ),
    "the hold-up does not grow": (
        (observation, "_returning", _held_up_the_same),
        "a zone that flaps every two minutes",
    ),
    "a zone is down at once": (
        (observation, "observe", _no_debounce),
        "a zone that is back after 40 s",
    ),
    "between the marks for ever": (
        (observation, "observe", _stuck_between_the_marks),
        "a small zone that is stuck between the marks",
    ),
    "no evidence is good news": (
        (observation, "observe", _up_without_evidence),
        "a zone that is given up while it is held",
    ),
    "one lost bookie is a zone": (
        (observation, "failing", _one_lost_is_enough),
        "the only bookie of a zone",
    ),
    "two zones freeze nothing": (
        (freeze, "ZONES_TO_FREEZE", 4),
        "two zones lost freeze the cluster",
    ),
    "the view is trusted": (
        (ClusterView, "suspect", property(_never_suspect)),
        "all zones lost is also a doubt",
    ),
    "the switch is turned off again": (
        (freeze, "ask", _asked_again),
        "turning it on while the zone is gone",
    ),
    "a first watch knows all at once": (
        (counted_time, "look", _no_grace),
        "at the first start everything is held",
    ),
    "who does not watch is believed": (
        (losses, "longest_step_ms", _a_day),
        "while nobody watches nothing may be published",
    ),
    "a doubt elsewhere takes a release back": (
        (cluster_gate, "_still_suspended", _nothing_is_suspended),
        "a doubt elsewhere holds only while it is a doubt",
    ),
    "a loss elsewhere takes a release back": (
        (cluster_gate, "_still_suspended", _nothing_is_suspended),
        "a real loss elsewhere holds everything",
    ),
    "a doubt elsewhere turns the switch off": (
        (cluster_gate, "_of_others", _any_doubt_is_a_loss),
        "a doubt elsewhere holds only while it is a doubt",
    ),
    "flapping is for ever a doubt": (
        (observation, "SUSPECTS_ARE_REAL", 1_000_000),
        "a zone that never fails for its whole debounce",
    ),
    "doubts begin the delays again": (
        (Gate, "lasting", property(_always)),
        "a doubt about the cluster does not begin the delays again",
    ),
    "a unit that is gone is told to nobody": (
        (zone_counts, "UNIT_MIN", 1_000),
        "a whole unit that is gone, the others well",
    ),
    "sight is never reduced": (
        (Count, "sight_is_reduced", _is_counted),
        "where nearly all of a zone is being emptied",
    ),
    "a shrunk zone is told to nobody": (
        (Count, "shrunk_by", _is_counted),
        "what is written off in a small zone",
    ),
}


@pytest.mark.parametrize(
    "side", [Side.MACHINE, pytest.param(Side.WATCH, marks=pytest.mark.simulation)]
)
@pytest.mark.parametrize("name", BUGS)
def test_a_transcript_shows_the_bug(name: str, side: Side) -> None:
    patch, title = BUGS[name]
    (told,) = (each for each in transcripts.all_of() if title in each.title)
    with patched([patch]), pytest.raises(AssertionError, match=told.place.partition(":")[0]):
        players.play(told, side)
