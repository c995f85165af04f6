"""S122. A release of the cluster is of the zones that it was given for, until they are up."""

from collections.abc import Mapping

import pytest

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.base.units import HOUR_MS, MINUTE_MS
from zonekeeper.placement.policy.rules import OnZoneLoss, RepairRules, Resume
from zonekeeper.placement.zones import cluster_gate
from zonekeeper.placement.zones import gate as gates
from zonekeeper.placement.zones.cluster_gate import ClusterGate, SuspendedRelease, ZoneIncident
from zonekeeper.placement.zones.counted_time import Moment
from zonekeeper.placement.zones.gate import Judgement, Permission, Person, Threat, Token

AUTOMATIC = RepairRules()
MANUAL = RepairRules(resume=Resume.MANUAL)
AFTER = RepairRules(on_zone_loss=OnZoneLoss.REPAIR_AFTER, after_ms=HOUR_MS)
ANNA = Person(name="anna", reason="a is gone for good")
BOB = Person(name="bob", reason="b is gone as well")
LOST, DOUBT, CALM = Threat.LOSS, Threat.DOUBT, Threat.NONE

Incidents = Mapping[Token, ZoneIncident]


def incidents(**zones: bool) -> dict[Token, ZoneIncident]:
    """Zones with an incident; True: a loss was seen. Name ``a_2`` is the second of zone a."""
    return {
        Token(name): ZoneIncident(zone=ZoneName(name[0]), real=real) for name, real in zones.items()
    }


A_LOST = incidents(a=True)
B_DOUBTED = incidents(a=True, b=False)
B_LOST = incidents(a=True, b=True)


class Story:
    """A cluster's gate, evaluation by evaluation."""

    def __init__(self, rules: RepairRules) -> None:
        self.rules = rules
        self.number = 0
        moment = Moment(step_ms=0, in_grace=False, wall_ms=0)
        self.now = ClusterGate(gate=gates.first(moment))

    def see(
        self,
        found: Incidents,
        threat: Threat = LOST,
        *,
        step_ms: int = MINUTE_MS,
        in_grace: bool = False,
    ) -> Permission:
        self.number += 1
        judged = Judgement(threat=threat, why="the cluster is so", token=Token(f"c-{self.number}"))
        moment = Moment(step_ms=step_ms, in_grace=in_grace, wall_ms=0)
        self.now = cluster_gate.decide(self.now, found, judged, moment, self.rules)
        return self.now.gate.permission

    def release(self, person: Person = ANNA) -> Permission:
        token = self.now.gate.token
        self.now = cluster_gate.release(self.now, token=token, person=person, wall_ms=0)
        return self.now.gate.permission


def released(rules: RepairRules = AUTOMATIC) -> Story:
    """Give a cluster that lost zone a, and was released."""
    story = Story(rules)
    assert story.see(A_LOST) is Permission.HELD
    assert story.see(A_LOST) is Permission.HELD
    assert story.release() is Permission.RELEASED
    return story


@pytest.mark.parametrize("rules", [AUTOMATIC, MANUAL, AFTER])
def test_a_doubt_elsewhere_leaves_the_release_exactly_as_it_was(rules: RepairRules) -> None:
    story = released(rules)
    before = story.now

    assert story.see(B_DOUBTED) is Permission.HELD
    assert story.now.gate.token != before.gate.token
    assert not story.now.gate.lasting
    assert "zone b in doubt besides what anna released" in story.now.gate.reason
    assert story.see(B_DOUBTED) is Permission.HELD
    assert story.see(A_LOST) is Permission.RELEASED
    assert story.now == before


def test_a_hold_for_another_zone_counts_its_own_time() -> None:
    story = released()
    held_ms = story.now.gate.held_ms

    story.see(B_LOST)
    assert story.now.gate.held_ms == 0
    story.see(B_LOST)
    assert story.now.gate.held_ms == MINUTE_MS
    story.see(A_LOST)
    assert story.now.gate.held_ms == held_ms


def test_a_real_loss_elsewhere_waits_for_a_person_under_manual_resume() -> None:
    story = released(MANUAL)
    story.see(B_DOUBTED)
    story.see(B_LOST)
    assert story.now.gate.real

    assert story.see(A_LOST) is Permission.HELD
    assert story.now.gate.awaits_person
    assert story.release(BOB) is Permission.RELEASED
    assert story.now.covers == ("a",)
    assert story.now.gate.set_by == "bob"
    assert story.see(A_LOST) is Permission.RELEASED
    assert story.see({}, CALM) is Permission.OPEN


def test_a_release_while_the_other_zone_is_lost_covers_both() -> None:
    story = released()
    story.see(B_LOST)

    assert story.release(BOB) is Permission.RELEASED
    assert story.now.suspended is None
    assert story.see(B_LOST) is Permission.RELEASED
    assert story.see(incidents(b=True)) is Permission.RELEASED
    assert story.see(incidents(a_2=False, b=True)) is Permission.HELD


def test_the_owners_rule_releases_both_after_the_second_ones_time() -> None:
    story = released(AFTER)
    story.see(B_LOST)

    assert story.see(B_LOST, step_ms=HOUR_MS - 1) is Permission.HELD
    failing_now = incidents(a=True, b=True, c=False)
    assert story.see(failing_now, step_ms=1) is Permission.RELEASED
    assert story.now.suspended is None
    assert story.now.covers == ("a", "b")
    assert story.see(failing_now) is Permission.HELD


def test_a_doubt_about_everything_is_no_ground_for_the_rule() -> None:
    story = released(AFTER)
    story.see(B_DOUBTED)

    assert story.see(B_DOUBTED, step_ms=2 * HOUR_MS) is Permission.HELD


def test_the_release_ends_with_the_zones_that_it_was_given_for() -> None:
    story = released()
    story.see(B_LOST)

    assert story.see(incidents(b=True)) is Permission.HELD
    assert story.now.suspended is None
    assert story.see(incidents(a_2=True)) is Permission.HELD


def test_a_third_zone_goes_on_with_the_hold() -> None:
    story = released()
    story.see(B_LOST)
    token = story.now.gate.token

    assert story.see(incidents(a=True, c=False)) is Permission.HELD
    assert story.now.gate.token == token
    assert story.see(A_LOST) is Permission.RELEASED


def test_it_ends_with_the_freeze() -> None:
    story = released()
    story.see(B_LOST)

    assert story.see({}, CALM) is Permission.OPEN
    assert story.now.suspended is None


def test_a_persons_hold_outlives_the_other_zone_and_their_release_gives_the_first_back() -> None:
    story = released()
    story.see(B_DOUBTED)
    story.now = ClusterGate(
        gate=gates.hold(story.now.gate, person=BOB, wall_ms=0),
        covers=story.now.covers,
        suspended=story.now.suspended,
    )

    assert story.see(A_LOST) is Permission.HELD
    assert story.see(A_LOST) is Permission.HELD
    assert story.release(BOB) is Permission.RELEASED
    assert story.now.covers == ("a",)


def test_a_new_watch_gives_nothing_back_in_its_grace() -> None:
    story = released()
    story.see(B_DOUBTED)

    assert story.see(A_LOST, in_grace=True) is Permission.HELD
    assert story.see(B_DOUBTED, in_grace=True) is Permission.HELD
    assert story.see(A_LOST, in_grace=True) is Permission.HELD
    assert story.see(A_LOST) is Permission.RELEASED


def test_a_release_of_a_freeze_without_failing_zones_stands_again_too() -> None:
    story = Story(AUTOMATIC)
    story.see({})
    story.release()

    assert story.see(incidents(b=False)) is Permission.HELD
    assert story.see({}) is Permission.RELEASED


def test_what_a_watch_of_the_version_before_left_behind_is_dropped() -> None:
    story = released()
    story.see(B_DOUBTED)
    suspended = story.now.suspended
    assert suspended is not None
    opened = gates.first(Moment(step_ms=0, in_grace=False, wall_ms=0))
    story.now = ClusterGate(gate=opened, covers=story.now.covers, suspended=suspended)

    assert story.see(B_LOST) is Permission.HELD
    assert story.now.suspended is None
    assert story.see(A_LOST) is Permission.HELD


def test_a_suspended_release_is_of_the_hold_that_suspended_it() -> None:
    story = released()
    story.see(B_DOUBTED)
    suspended = story.now.suspended
    another = Story(AUTOMATIC)
    another.see(incidents(a=True))
    another.see(incidents(a=True))
    story.now = ClusterGate(gate=another.now.gate, covers=another.now.covers, suspended=suspended)
    assert suspended is not None
    assert suspended.held_for != another.now.gate.token

    assert story.see(A_LOST) is Permission.HELD
    assert story.now.suspended is None


def test_only_a_release_can_be_suspended() -> None:
    held = Story(AUTOMATIC)
    held.see(A_LOST)

    wrong = SuspendedRelease(gate=held.now.gate, covers=(), held_for=Token("c-1"))
    assert wrong.fault() == "only a release can be suspended"
