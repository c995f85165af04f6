"""Is the cluster still to be trusted? The zones' two machines once more, for all of it together.

A *freeze* begins where two zones are suspect or down, or fewer than ``clusterMinAvailable`` of all
bookies are there: then either there is no room for repair, or this view is wrong. Everything is
held. It is a doubt until it has lasted ``suspectFor``, and ends with its grounds; a zone on its way
back still counts for a freeze that is there, so a zone that flaps does not flap it. If every zone
is failing, the watch suspects its own view as well, and says so.

With ``repair.scope: cluster`` one zone down is ground enough.

A release of the cluster covers the zones' incidents that it was given for. A zone that fails later
is new: it begins a new incident of the cluster, held again.

Whenever the cluster stops being held, ``delays_epoch`` moves: every loss is then seen anew, and its
delay begins again (``losses``). It is data, since those who wait are other processes.

**The switch** (Apache's ``underreplication/disable``) is used where only a person ends a hold of
the cluster: scope cluster, ``resume: manual``, ``onZoneLoss: hold``. It is asked for once an
incident, until it is seen off or the incident is not held any more; turning it on again, with
whatever tool, is a person's release. Under any other rules the watch would have to turn it on
itself, and could not tell its own from a person's; there, this record alone holds everything.
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

#: This many zones that fail together are more than a zone's failure.
ZONES_TO_FREEZE: Final = 2

#: A reason names so many zones at most: it is part of a record, whose texts have a limit.
ZONES_NAMED_MAX: Final = 8

_FAILING: Final = (Observation.SUSPECT, Observation.DOWN)
_LOST: Final = (Observation.DOWN, Observation.RETURNING)


class ClusterObservation(enum.StrEnum):
    """What is known of the cluster as a whole."""

    #: No watch has watched it through a start grace yet.
    UNKNOWN = "unknown"
    CALM = "calm"
    SUSPECT = "suspect"
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterObserved:
    """The observation's state: what was seen, why, and for how long."""

    state: ClusterObservation
    reason: str
    since_wall_ms: int
    for_ms: int = 0
    #: Every zone is failing.
    view_suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The zones after their own evaluation, and all bookies."""

    #: Zones in which something is counted; the others are no evidence.
    zones: Mapping[ZoneName, Observation]
    everywhere: Count

    def standing(self, states: tuple[Observation, ...]) -> list[ZoneName]:
        """Give the zones in one of these states, sorted."""
        return sorted(zone for zone, state in self.zones.items() if state in states)

    @property
    def suspect(self) -> bool:
        """Are all zones failing at once?"""
        return bool(self.zones) and len(self.standing(_FAILING)) == len(self.zones)


class SwitchPhase(enum.StrEnum):
    """How far the switch is, as the watch used it."""

    UNUSED = "unused"
    ASKED = "asked"
    OFF = "off"
    #: A person turned it on again.
    ENABLED = "enabled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """The switch for automatic replication, and the incident that it was last asked for."""

    phase: SwitchPhase = SwitchPhase.UNUSED
    token: Token | None = None

    def fault(self) -> str | None:
        """Say what is wrong with it; a record may hold anything."""
        if self.phase is not SwitchPhase.UNUSED and self.token is None:
            return "a switch that was used needs the token of the incident"
        return None


def first(moment: Moment) -> ClusterObserved:
    """Give the state of a cluster that nobody has watched."""
    return ClusterObserved(
        state=ClusterObservation.UNKNOWN,
        reason="nobody has watched it before",
        since_wall_ms=moment.wall_ms,
    )


def observe(
    before: ClusterObserved, view: ClusterView, policy: Policy, moment: Moment
) -> ClusterObserved:
    """Give the state after one evaluation."""
    seen = replace(before, for_ms=before.for_ms + moment.step_ms, view_suspect=view.suspect)
    if before.state is ClusterObservation.UNKNOWN and moment.in_grace:
        return seen
    if policy.repair.scope is RepairScope.CLUSTER and (lost := view.standing(_LOST)):
        why = f"{_zones(lost)} down, and repair.scope is cluster"
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
            return seen
        case _:
            assert_never(before.state)


def follow(switch: Switch, *, enabled: bool) -> Switch:
    """Give the switch after a look at it; ``ENABLED`` is new where a person turned it on."""
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
    """Give the switch after the gate's decision: asked for, once an incident."""
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
    """Is it still to be turned off? Not where the incident it was asked for is not held any more.

    It stays ``ASKED`` then: a request that was only late is still recognised as the watch's own.
    """
    return switch.phase is SwitchPhase.ASKED and not gate.permits and gate.token == switch.token


def _grounds(before: ClusterObserved, view: ClusterView, policy: Policy) -> str | None:
    """Say what there is for a freeze; None: nothing."""
    frozen = before.state in (ClusterObservation.SUSPECT, ClusterObservation.FROZEN)
    failing = view.standing((*_FAILING, Observation.RETURNING) if frozen else _FAILING)
    grounds = []
    if len(failing) >= ZONES_TO_FREEZE:
        grounds.append(f"{_zones(failing)} failing or down together")
    least, total = policy.zone_watch.cluster_min_available, view.everywhere.total
    if total and not view.everywhere.at_or_over(least):
        grounds.append(f"{view.everywhere} in all, under clusterMinAvailable {least:g}")
    return " and ".join(grounds) or None


def _zones(zones: list[ZoneName]) -> str:
    named = ", ".join(zones[:ZONES_NAMED_MAX])
    more = len(zones) - ZONES_NAMED_MAX
    return f"{'zone' if len(zones) == 1 else 'zones'} {named}{f' and {more} more' * (more > 0)}"


def _entered(
    seen: ClusterObserved, state: ClusterObservation, why: str, moment: Moment
) -> ClusterObserved:
    """Enter a state, or stay in it."""
    if state is seen.state:
        return seen
    return ClusterObserved(
        state=state,
        reason=why,
        since_wall_ms=moment.wall_ms,
        view_suspect=seen.view_suspect,
    )
