"""What a person does to the gate: release, hold, and the switch for all automatic replication.

Each act changes a record by compare-and-set. ``placement`` decides it on what stands in the record
at that moment, and the timeline tells it. A release names the incident that the person saw; if
another incident is held by then, the release is refused. If an answer is lost, the act is not done
twice: when the record already carries the person's words, the act has been done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from zonekeeper.metadata.cluster import repair_controls, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import watch
from zonekeeper.placement.zones.gate import Gate, Person, RefusedError, Token
from zonekeeper.placement.zones.zone_effects import (
    AlertCleared,
    AlertRaised,
    Effect,
    Noted,
    Reminder,
)
from zonekeeper.placement.zones.zone_records import ClusterRecord, Record, ZoneRecord
from zonekeeper.replication.view import alerts
from zonekeeper.replication.view.alerts import Chronicle

_R = TypeVar("_R", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRequest:
    """What a person asks of a gate: that of a zone, or (None) that of the cluster."""

    zone: ZoneName | None
    person: Person
    #: The wall time that the record shows to people. Nothing is decided by it.
    wall_ms: int


async def release(
    cluster: Cluster, request: GateRequest, token: Token | None, policy: Policy, told: Chronicle
) -> Record:
    """Release the incident with this token; give the record after that.

    Raises ``RefusedError`` if nothing is held, or another incident is.
    """

    def change(record: _R) -> tuple[_R, tuple[Effect, ...]]:
        return watch.release(
            record, token=token, person=request.person, policy=policy, wall_ms=request.wall_ms
        )

    if request.zone is None:
        return await _change_cluster(cluster, change, told)
    return await _change_zone(cluster, request.zone, change, told)


async def hold(cluster: Cluster, request: GateRequest, policy: Policy, told: Chronicle) -> Record:
    """Hold a zone's losses, or everything, until a release; raises ``RefusedError``."""

    def change(record: _R) -> tuple[_R, tuple[Effect, ...]]:
        return watch.hold(record, person=request.person, policy=policy, wall_ms=request.wall_ms)

    if request.zone is None:
        return await _change_cluster(cluster, change, told)
    return await _change_zone(cluster, request.zone, change, told)


async def switch(cluster: Cluster, person: Person, told: Chronicle, *, enabled: bool) -> bool:
    """Turn all automatic replication on or off; False: it was so already.

    To turn it on is to release the incident for which the zone watch turned it off: the zone watch
    sees the switch, and releases the held zones.
    """
    if fault := person.fault():
        raise RefusedError(fault)
    if await repair_controls.is_enabled(cluster) is enabled:
        return False
    await repair_controls.set_enabled(cluster, enabled=enabled)
    kind = "switched on" if enabled else "switched off"
    await told.write(kind, "automatic replication", str(person))
    return True


async def _change_zone(
    cluster: Cluster,
    zone: ZoneName,
    change: Callable[[ZoneRecord], tuple[ZoneRecord, tuple[Effect, ...]]],
    told: Chronicle,
) -> ZoneRecord:
    once: _Once[ZoneRecord] = _Once(change, f"zone {zone}")
    after = await zone_store.change_zone(cluster, zone, once.decide)
    assert after is not None, "a record that is not there is refused"
    await _tell(once.effects, told)
    return after


async def _change_cluster(
    cluster: Cluster,
    change: Callable[[ClusterRecord], tuple[ClusterRecord, tuple[Effect, ...]]],
    told: Chronicle,
) -> ClusterRecord:
    once: _Once[ClusterRecord] = _Once(change, "the cluster")
    after = await zone_store.change_cluster(cluster, once.decide)
    assert after is not None, "a record that is not there is refused"
    await _tell(once.effects, told)
    return after


class _Once(Generic[_R]):
    """A change that is made once. A record that has the words of this change is left as it is."""

    def __init__(self, change: Callable[[_R], tuple[_R, tuple[Effect, ...]]], what: str) -> None:
        self._change = change
        self._what = what
        self._gate: Gate | None = None
        self.effects: tuple[Effect, ...] = ()

    def decide(self, standing: _R | None) -> _R:
        if standing is None:
            raise RefusedError(
                f"there is no record of {self._what}: no zone watch has evaluated it yet, "
                "so its losses are held"
            )
        if self._gate is not None and _said(standing.gate) == _said(self._gate):
            return standing
        after, self.effects = self._change(standing)
        self._gate = after.gate
        return after


def _said(gate: Gate) -> tuple[object, ...]:
    """Give the fields of a gate that tell one person's act. An evaluation leaves them alone."""
    return gate.permission, gate.set_by, gate.reason, gate.since_wall_ms


async def _tell(effects: tuple[Effect, ...], told: Chronicle) -> None:
    for effect in effects:
        if isinstance(effect, AlertRaised | AlertCleared | Reminder | Noted):
            await alerts.tell(told, effect)
