"""Every way from one permission to the next, and the ways that there must not be."""

from dataclasses import replace

import pytest

from zonekeeper.placement.base.units import HOUR_MS, MINUTE_MS
from zonekeeper.placement.policy.rules import OnZoneLoss, RepairRules, Resume
from zonekeeper.placement.zones import gate as gates
from zonekeeper.placement.zones.counted_time import Moment
from zonekeeper.placement.zones.gate import (
    Gate,
    Judgement,
    Permission,
    Person,
    RefusedError,
    Threat,
    Token,
)

HOLD = RepairRules()
MANUAL = RepairRules(resume=Resume.MANUAL)
AFTER = RepairRules(on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=6 * HOUR_MS)
ANNA = Person(name="anna", reason="it burns")

NONE, DOUBT, LOSS = Threat.NONE, Threat.DOUBT, Threat.LOSS


def after(
    gate: Gate,
    *threats: Threat,
    rules: RepairRules = HOLD,
    step_ms: int = MINUTE_MS,
    in_grace: bool = False,
) -> Gate:
    """Play threats, one an evaluation; each would begin an incident of its own."""
    for number, threat in enumerate(threats):
        moment = Moment(step_ms=step_ms, in_grace=in_grace, wall_ms=0)
        token = Token(f"{gate.token or 'z'}.{number}")
        judged = Judgement(threat=threat, why=f"{threat.name.lower()}", token=token)
        gate = gates.decide(gate, judged, moment, rules)
    return gate


def opened() -> Gate:
    return gates.first(Moment(step_ms=0, in_grace=False, wall_ms=0))


def doubted() -> Gate:
    return after(opened(), DOUBT)


def lost() -> Gate:
    return after(opened(), DOUBT, LOSS)


def released(gate: Gate) -> Gate:
    return gates.release(gate, token=gate.token, person=ANNA, wall_ms=0)


def held(gate: Gate) -> Gate:
    return gates.hold(gate, person=ANNA, wall_ms=0)


# ── into held ──


@pytest.mark.parametrize("threat", [DOUBT, LOSS])
def test_any_threat_holds_at_once(threat: Threat) -> None:
    gate = after(opened(), threat)

    assert gate.permission is Permission.HELD
    assert gate.token is not None
    assert gate.real is (threat is LOSS)


def test_without_a_threat_it_stays_open() -> None:
    assert after(opened(), NONE, NONE) == replace(opened(), reason="none")


# ── out of held ──


@pytest.mark.parametrize("rules", [HOLD, MANUAL, AFTER])
def test_a_doubt_that_came_to_nothing_opens_at_once(rules: RepairRules) -> None:
    gate = after(doubted(), NONE, rules=rules)

    assert gate.permission is Permission.OPEN
    assert gate.token is None


def test_a_zone_that_is_back_opens() -> None:
    gate = after(lost(), NONE)

    assert gate.permission is Permission.OPEN
    assert "was held for 2m" in gate.reason


def test_a_zone_that_is_back_waits_for_a_person_if_the_owner_wants_it() -> None:
    gate = after(lost(), NONE, NONE, NONE, rules=MANUAL)

    assert gate.permission is Permission.HELD
    assert gate.awaits_person
    assert released(gate).permission is Permission.OPEN


def test_a_new_doubt_does_not_end_the_wait_for_a_person() -> None:
    waiting = after(lost(), NONE, rules=MANUAL)
    again = after(waiting, DOUBT, rules=MANUAL)

    assert again.token != waiting.token
    assert again.held_ms == 0
    assert after(again, NONE, rules=MANUAL).permission is Permission.HELD


def test_the_wait_for_a_person_ends_when_the_owner_does_not_want_it_any_more() -> None:
    waiting = after(lost(), NONE, rules=MANUAL)

    assert after(waiting, NONE, rules=HOLD).permission is Permission.OPEN


def test_hold_never_opens_by_itself() -> None:
    gate = after(lost(), *[LOSS] * 1_000, step_ms=HOUR_MS)

    assert gate.permission is Permission.HELD
    assert gate.held_ms > 1_000 * HOUR_MS


def test_repair_after_releases_when_the_held_time_is_reached_and_not_before() -> None:
    almost = after(opened(), LOSS, rules=AFTER)
    almost = after(almost, LOSS, rules=AFTER, step_ms=AFTER.after_ms - 1)
    assert almost.permission is Permission.HELD

    gate = after(almost, LOSS, rules=AFTER, step_ms=1)
    assert gate.permission is Permission.RELEASED
    assert gate.set_by == gates.RULE


def test_repair_after_does_not_act_on_a_doubt() -> None:
    gate = after(doubted(), DOUBT, rules=AFTER, step_ms=AFTER.after_ms)

    assert gate.permission is Permission.HELD


def test_held_time_of_one_incident_is_not_counted_for_the_next() -> None:
    first = after(lost(), LOSS, rules=AFTER, step_ms=AFTER.after_ms - HOUR_MS)
    again = after(first, NONE, LOSS, LOSS, rules=AFTER, step_ms=2 * HOUR_MS)

    assert again.permission is Permission.HELD
    assert again.held_ms == 2 * HOUR_MS


# ── a person ──


def test_a_release_lasts_until_the_threat_is_over() -> None:
    gate = after(released(lost()), LOSS, LOSS, DOUBT, LOSS)

    assert gate.permission is Permission.RELEASED
    assert after(gate, NONE).permission is Permission.OPEN


@pytest.mark.parametrize("in_grace", [False, True])
def test_a_release_does_not_reach_the_next_incident(in_grace: bool) -> None:
    gate = after(released(lost()), NONE, DOUBT, in_grace=in_grace)

    assert gate.permission is Permission.HELD
    assert gate.token != lost().token


def test_a_release_of_a_doubt_stays_when_the_doubt_becomes_real() -> None:
    assert after(released(doubted()), LOSS).permission is Permission.RELEASED


def test_a_release_is_of_what_was_seen() -> None:
    with pytest.raises(RefusedError, match=r"not of z\.old but of"):
        gates.release(lost(), token=Token("z.old"), person=ANNA, wall_ms=0)
    with pytest.raises(RefusedError, match="not of no incident"):
        gates.release(lost(), token=None, person=ANNA, wall_ms=0)


@pytest.mark.parametrize("gate", [opened(), released(lost())])
def test_what_is_not_held_cannot_be_released(gate: Gate) -> None:
    with pytest.raises(RefusedError, match="nothing is held"):
        released(gate)


@pytest.mark.parametrize("before", [opened(), doubted(), lost(), released(lost())])
@pytest.mark.parametrize("rules", [HOLD, MANUAL, AFTER])
def test_a_persons_hold_ends_by_a_release_and_nothing_else(
    before: Gate, rules: RepairRules
) -> None:
    gate = after(held(before), LOSS, LOSS, NONE, DOUBT, NONE, rules=rules, step_ms=24 * HOUR_MS)

    assert gate.permission is Permission.HELD
    assert gate.reason == "held by anna: it burns"
    assert released(gate).permission is Permission.OPEN


def test_a_persons_hold_that_is_released_during_an_outage_is_a_release_of_it() -> None:
    gate = released(after(held(opened()), LOSS))

    assert gate.permission is Permission.RELEASED
    assert gate.held_by is None


@pytest.mark.parametrize("text", ["", " ", "a\nb", "x" * 600])
def test_a_hold_or_release_needs_a_name_and_a_reason_of_one_line(text: str) -> None:
    nameless, unreasoned = Person(name=text, reason="why"), Person(name="anna", reason=text)

    with pytest.raises(RefusedError, match="the name must be one line"):
        gates.hold(opened(), person=nameless, wall_ms=0)
    with pytest.raises(RefusedError, match="the reason must be one line"):
        gates.release(lost(), token=lost().token, person=unreasoned, wall_ms=0)


# ── a new watch ──


@pytest.mark.parametrize("threats", [[NONE], [LOSS, NONE], [NONE] * 9])
def test_in_the_start_grace_held_stays_held(threats: list[Threat]) -> None:
    gate = after(lost(), *threats, in_grace=True)

    assert gate.permission is Permission.HELD
    assert after(gate, NONE).permission is Permission.OPEN


def test_in_the_start_grace_released_stays_released_and_open_stays_open() -> None:
    gate = after(released(lost()), LOSS, NONE, NONE, in_grace=True)

    assert gate.permission is Permission.RELEASED
    assert after(gate, NONE).permission is Permission.OPEN
    assert after(opened(), NONE, in_grace=True).permission is Permission.OPEN


def test_in_the_start_grace_a_threat_holds() -> None:
    assert after(opened(), DOUBT, in_grace=True).permission is Permission.HELD


def test_in_the_start_grace_the_rule_waits() -> None:
    due = after(lost(), LOSS, rules=AFTER, step_ms=AFTER.after_ms, in_grace=True)

    assert due.permission is Permission.HELD
    assert after(due, LOSS, rules=AFTER).permission is Permission.RELEASED


# ── values that the machine never makes ──


@pytest.mark.parametrize(
    "gate",
    [
        replace(opened(), real=True),
        replace(opened(), over=True),
        replace(opened(), held_by=ANNA),
        replace(opened(), permission=Permission.RELEASED),
        replace(opened(), permission=Permission.HELD),
        replace(lost(), permission=Permission.OPEN),
        replace(released(lost()), awaits_person=True),
    ],
)
def test_a_gate_that_breaks_a_rule_says_which(gate: Gate) -> None:
    assert gate.fault() is not None


@pytest.mark.parametrize("gate", [opened(), doubted(), lost(), released(lost()), held(opened())])
def test_the_machines_own_gates_break_none(gate: Gate) -> None:
    assert gate.fault() is None
