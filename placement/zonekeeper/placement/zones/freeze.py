"""The freeze: is the cluster as a whole still healthy enough to repair anything?

The cluster has the same two machines as a zone: an observation (here) and a gate (``gate``).

A *freeze* has one of two grounds: at least two zones are suspect or down, or fewer than
``clusterMinAvailable`` of all bookies are available. In either case there is no room for repair, or
this watch's view is wrong. Everything is held. The freeze is a doubt until it has lasted
``suspectFor``, and it ends when its grounds end. A returning zone counts towards the two only for a
freeze that has already begun, so that a flapping zone does not make the freeze flap. If every zone
is failing, the watch also doubts its own view, and an alert says so.

With ``repair.scope: cluster`` one zone that is down or returning is enough, and the freeze is no
doubt first: the zone was one already.

A release of the cluster covers the zones' incidents that it was given for (``cluster_gate``).

Each time that a hold of the cluster ends which was more than a doubt, ``delays_epoch`` is
increased. Every loss is then seen anew, and its delay begins again (``losses``). After a mere doubt
the delays go on: doubts that come and go must not keep any loss from its repair. The epoch is a
field of the record because the processes that count these delays are other processes.

**The switch** (Apache's ``underreplication/disable``) is used only where nothing but a person ends
a hold of the cluster: scope cluster, ``resume: manual``, ``onZoneLoss: hold``. The watch asks once
an incident for the switch to be off. It repeats the request until it has seen the switch off, or
until the incident is no longer held. If a person then turns the switch on again, with any tool,
that is the person's release. Under any other rules the watch itself would have to turn the switch
on, and could not tell its own change from a person's. There the record alone holds everything.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, assert_never

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import OnZoneLoss, Policy, RepairScope, Resume
from zonekeeper.placement.zones.counted_time import Moment, spelled
from zonekeeper.placement.zones.gate import Gate, Permission, Token
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_counts import Count

#: A freeze begins when at least this many zones fail together.
ZONES_TO_FREEZE: Final = 2

#: A reason names at most this many zones: a reason is a text in a record, and has a limit.
ZONES_NAMED_MAX: Final = 8

_FAILING: Final = (Observation.SUSPECT, Observation.DOWN)
_LOST: Final = (Observation.DOWN, Observation.RETURNING)


class ClusterObservation(enum.StrEnum):
    """The state of the cluster as a whole, as far as it is known."""

    #: No watch has watched the cluster through a start grace yet.
    UNKNOWN = "unknown"
    CALM = "calm"
    SUSPECT = "suspect"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObserved:
    """The state of the observation: what was seen, why, and for how long."""

    state: ClusterObservation
    #: Why the cluster is in the state, with the numbers of the last evaluation.
    reason: str
    since_wall_ms: int
    for_ms: int = 0
    #: Every zone is failing.
    view_suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The zones after their own evaluation, and all bookies."""

    #: Zones in which at least one bookie is counted; the others are no evidence.
    zones: Mapping[ZoneName, Observation]
    everywhere: Count

    def standing(self, states: tuple[Observation, ...]) -> list[ZoneName]:
        """Give the zones in one of these states, sorted."""
        return sorted(zone for zone, state in self.zones.items() if state in states)

    @property
    def suspect(self) -> bool:
        """Are all zones failing at the same time?"""
        return bool(self.zones) and len(self.standing(_FAILING)) == len(self.zones)


class SwitchPhase(enum.StrEnum):
    """The steps of the watch with the switch."""

    UNUSED = "unused"
    ASKED = "asked"
    OFF = "off"
    #: A person turned it on again.
    ENABLED = "enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The switch for automatic replication, and the last incident for which it was to be off."""

    phase: SwitchPhase = SwitchPhase.UNUSED
    token: Token | None = None

    def fault(self) -> str | None:
        """Say what is wrong with it; a stored record may hold any value."""
        if self.phase is not SwitchPhase.UNUSED and self.token is None:
            return "a switch that was used needs the token of the incident"
        return None


def first(moment: Moment) -> ClusterObserved:
    """Give the state of a cluster before its first evaluation."""
    return ClusterObserved(
        state=ClusterObservation.UNKNOWN,
        reason="no zone watch has evaluated it before",
        since_wall_ms=moment.wall_ms,
    )


def observe(
    before: ClusterObserved, view: ClusterView, policy: Policy, moment: Moment
) -> ClusterObserved:
    """Give the state after one evaluation."""
    seen = replace(before, for_ms=before.for_ms + moment.step_ms, view_suspect=view.suspect)
    if before.state is ClusterObservation.UNKNOWN and moment.in_grace:
        why = f"{view.everywhere}, and no start grace of a zone watch is over yet"
        return replace(seen, reason=why)
    if policy.repair.scope is RepairScope.CLUSTER and (lost := view.standing(_LOST)):
        why = f"{named(lost)} down, and repair.scope is cluster"
        return _entered(seen, ClusterObservation.FROZEN, why, moment)
    grounds = _grounds(before, view, policy)
    if grounds is None:
        why = f"{view.everywhere}"
        return _entered(seen, ClusterObservation.CALM, why, moment)
    match before.state:
        case ClusterObservation.UNKNOWN | ClusterObservation.CALM:
            return _entered(seen, ClusterObservation.SUSPECT, grounds, moment)
        case ClusterObservation.SUSPECT if seen.for_ms >= policy.zone_watch.suspect_for_ms:
            why = f"{grounds}, for {spelled(seen.for_ms)}"
            return _entered(seen, ClusterObservation.FROZEN, why, moment)
        case ClusterObservation.SUSPECT | ClusterObservation.FROZEN:
            return replace(seen, reason=f"{grounds}, {before.state} for {spelled(seen.for_ms)}")
        case _:
            assert_never(before.state)


def follow(switch: Switch, *, enabled: bool) -> Switch:
    """Give the switch after a look at it; ``OFF`` becomes ``ENABLED`` if a person turned it on."""
    match switch.phase:
        case SwitchPhase.ASKED if not enabled:
            return replace(switch, phase=SwitchPhase.OFF)
        case SwitchPhase.OFF if enabled:
            return replace(switch, phase=SwitchPhase.ENABLED)
        case SwitchPhase.UNUSED | SwitchPhase.ASKED | SwitchPhase.OFF | SwitchPhase.ENABLED:
            return switch
        case _:
            assert_never(switch.phase)


def ask(switch: Switch, gate: Gate, policy: Policy) -> Switch:
    """Give the switch after the gate's decision; it is asked for once an incident."""
    only_a_person = (
        policy.repair.scope is RepairScope.CLUSTER
        and policy.repair.resume is Resume.MANUAL
        and policy.repair.on_zone_loss is OnZoneLoss.HOLD
    )
    lost = gate.permission is Permission.HELD and gate.real and not gate.over
    if only_a_person and lost and gate.token != switch.token:
        return Switch(phase=SwitchPhase.ASKED, token=gate.token)
    return switch


def still_asked(switch: Switch, gate: Gate) -> bool:
    """Is the switch still to be turned off? No, once its incident is not held any more.

    The phase stays ``ASKED`` then. So if the switch is turned off late, by a request that was still
    under way, the watch recognises that as its own act.
    """
    return switch.phase is SwitchPhase.ASKED and not gate.permits and gate.token == switch.token


def _grounds(before: ClusterObserved, view: ClusterView, policy: Policy) -> str | None:
    """Give the grounds for a freeze in words; None if there are none."""
    frozen = before.state in (ClusterObservation.SUSPECT, ClusterObservation.FROZEN)
    failing = view.standing((*_FAILING, Observation.RETURNING) if frozen else _FAILING)
    grounds = []
    if len(failing) >= ZONES_TO_FREEZE:
        grounds.append(f"{named(failing)} failing or down together")
    least, total = policy.zone_watch.cluster_min_available, view.everywhere.total
    if total and not view.everywhere.at_or_over(least):
        grounds.append(f"{view.everywhere} in all, under clusterMinAvailable {least:g}")
    return " and ".join(grounds) or None


def named(zones: list[ZoneName]) -> str:
    """Name zones in a reason; of many zones the first ones."""
    first_ones = ", ".join(zones[:ZONES_NAMED_MAX])
    more = len(zones) - ZONES_NAMED_MAX
    rest = f" and {more} more" * (more > 0)
    return f"{'zone' if len(zones) == 1 else 'zones'} {first_ones}{rest}"


def _entered(
    seen: ClusterObserved, state: ClusterObservation, why: str, moment: Moment
) -> ClusterObserved:
    """Enter a state, or stay in it; the reason is of now either way."""
    if state is seen.state:
        return replace(seen, reason=why)
    return ClusterObserved(
        state=state,
        reason=why,
        since_wall_ms=moment.wall_ms,
        view_suspect=seen.view_suspect,
    )
