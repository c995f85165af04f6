"""The cluster's gate: a gate whose release belongs to the zones that it was given for.

A release of the cluster *covers* the incidents of the zones that were held with it. An incident of
another zone, one that it does not cover, holds the cluster again, and *suspends* the release::

                      another zone is in doubt, or lost
      released ──────────────────────────────────────────► held, the release is suspended
         ▲                                                    │
         └──── that zone's incident is over, or a person ─────┘
               releases it; a covered zone is not up yet

- The hold is an incident of its own, with a token and a held time of its own. It is a doubt while
  each of the zones that it is for is one: then the switch is not touched, and no page goes out.
- The release that stands again is the suspended one: its token, held time and covered zones are
  those of before. Under ``resume: manual`` a person ends the hold first, if a loss was real.
- A person who releases the hold while it lasts releases everything that is held then. The new
  release covers all those zones, and the suspended one is gone. So it is where ``repairAfter``
  releases the hold.
- A suspended release ends when none of the zones that it covers has that incident any more, or when
  the cluster is calm.

A record of the version before has no suspended release. A watch of that version keeps the field and
does not know it. So the field names the incident that the hold was for: where another incident is
held by then, the suspended release is dropped.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import RepairRules
from zonekeeper.placement.zones import gate as gates
from zonekeeper.placement.zones.counted_time import Moment
from zonekeeper.placement.zones.freeze import named
from zonekeeper.placement.zones.gate import Gate, Judgement, Permission, Person, Threat, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneIncident:
    """An incident of a zone that is not over, whatever the zone's gate permits."""

    zone: ZoneName
    #: The incident was more than a doubt: a loss was seen.
    real: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SuspendedRelease:
    """A release of the cluster, for as long as an incident of another zone holds the cluster."""

    #: The gate as it was when the release was suspended.
    gate: Gate
    #: The zones' incidents that the release covers; sorted.
    covers: tuple[Token, ...]
    #: The cluster's incident that holds meanwhile.
    held_for: Token

    def fault(self) -> str | None:
        """Say what is wrong with it; a stored record may hold any value."""
        released = self.gate.permission is Permission.RELEASED
        return None if released else "only a release can be suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterGate:
    """The cluster's gate, and what its hold or release belongs to."""

    gate: Gate
    #: The zones' incidents that this hold or release covers; sorted.
    covers: tuple[Token, ...] = ()
    suspended: SuspendedRelease | None = None


def decide(
    before: ClusterGate,
    incidents: Mapping[Token, ZoneIncident],
    judged: Judgement,
    moment: Moment,
    rules: RepairRules,
) -> ClusterGate:
    """Give the cluster's gate after one evaluation."""
    suspended = _still_suspended(before, incidents)
    gate = before.gate
    others = incidents.keys() - {*before.covers}
    lasting = gate.permission is Permission.RELEASED and not gate.over
    if lasting and others and judged.threat is not Threat.NONE:
        suspended = SuspendedRelease(gate=gate, covers=before.covers, held_for=judged.token)
        gate = replace(gate, over=True)
    if suspended is None:
        gate = gates.decide(gate, judged, moment, rules)
        return _covering(gate, incidents, before.covers)
    own = _of_others(judged, incidents, suspended)
    gate = gates.decide(gate, own, moment, rules)
    if gate.permission is Permission.OPEN and judged.threat is not Threat.NONE:
        return ClusterGate(gate=suspended.gate, covers=suspended.covers)
    after = _covering(gate, incidents, before.covers)
    if gate.permits:
        return after
    assert gate.token is not None, "a suspended release waits for an incident"
    return replace(after, suspended=replace(suspended, held_for=gate.token))


def release(
    before: ClusterGate, *, token: Token | None, person: Person, wall_ms: int
) -> ClusterGate:
    """Give the cluster's gate after a person's release of the incident with this token."""
    gate = gates.release(before.gate, token=token, person=person, wall_ms=wall_ms)
    suspended = before.suspended
    if gate.permission is Permission.OPEN and suspended is not None:
        again = replace(
            suspended.gate, set_by=gate.set_by, reason=gate.reason, since_wall_ms=wall_ms
        )
        return ClusterGate(gate=again, covers=suspended.covers)
    return ClusterGate(gate=gate, covers=before.covers)


def _still_suspended(
    before: ClusterGate, incidents: Mapping[Token, ZoneIncident]
) -> SuspendedRelease | None:
    """Give the suspended release, if its own incident and one of its zones' incidents go on."""
    suspended = before.suspended
    if suspended is None or before.gate.permits or suspended.held_for != before.gate.token:
        return None
    if suspended.covers and incidents.keys().isdisjoint(suspended.covers):
        return None
    return suspended


def _covering(
    gate: Gate, incidents: Mapping[Token, ZoneIncident], covered: tuple[Token, ...]
) -> ClusterGate:
    """Give the gate with what it covers: a hold covers what there is, a release what it had."""
    held = gate.permission is Permission.HELD
    return ClusterGate(gate=gate, covers=tuple(sorted(incidents)) if held else covered)


def _of_others(
    judged: Judgement, incidents: Mapping[Token, ZoneIncident], suspended: SuspendedRelease
) -> Judgement:
    """Give the judgement of the zones that the suspended release does not cover."""
    others = [one for token, one in incidents.items() if token not in suspended.covers]
    if judged.threat is Threat.NONE or not others:
        return replace(judged, threat=Threat.NONE)
    lost = sorted(one.zone for one in others if one.real)
    zones = lost or sorted(one.zone for one in others)
    why = f"{named(zones)} {'lost' if lost else 'in doubt'} besides what {suspended.gate.set_by}"
    return Judgement(
        threat=Threat.LOSS if lost else Threat.DOUBT,
        why=f"{why} released, which stands again when that is over; {judged.why}",
        token=judged.token,
    )
