"""All records of the gates that a follower hears of, and the rules that hold from one to the next.

A follower may miss records in between, and no rule minds: each one is about what must never be, or
about numbers that never go back.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from itertools import pairwise
from typing import Final, TypeVar

from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import ZoneName
from zonekeeper.placement.zones.gate import WATCH, Permission
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord

_State = TypeVar("_State")

#: A zone that is one of these has nothing to hold.
_CALM: Final = (Observation.UP, Observation.DEGRADED)


class Gates:
    """The records, oldest first."""

    def __init__(self) -> None:
        self.zones: dict[ZoneName, list[ZoneRecord]] = {}
        self.cluster: list[ClusterRecord] = []
        self._moved = asyncio.Event()

    async def follow(self, cluster: Cluster) -> None:
        """Hear of records until cancelled."""
        await together(
            [
                self._hear(zone_store.watch_zones(cluster), self._hear_zones),
                self._hear(zone_store.watch_cluster(cluster), self._hear_cluster),
            ]
        )

    async def moved(self, at_most_s: float) -> None:
        """Wait until there is a new record, or for so long."""
        moved = self._moved
        try:
            async with asyncio.timeout(at_most_s):
                await moved.wait()
        except TimeoutError:
            pass

    def zone(self, zone: ZoneName) -> ZoneRecord:
        """Give a zone's newest record."""
        return self.zones[zone][-1]

    def states(self, zone: ZoneName) -> list[Observation]:
        """Give the states of a zone, one after the other."""
        seen = [record.observed.state for record in self.zones[zone]]
        return seen[:1] + [after for before, after in pairwise(seen) if before is not after]

    def told(self, zone: ZoneName) -> str:
        """Tell what became of a zone, with the time and the reason of each state."""
        records = self.turns(zone)
        return "; ".join(
            f"{one.observed.since_wall_ms} {one.observed.state} ({one.observed.reason}), "
            f"{one.gate.permission}"
            for one in records
        )

    def turns(self, zone: ZoneName) -> list[ZoneRecord]:
        """Give the records of a zone with which its state or its permission became another."""
        found = self.zones[zone][:1]
        for one in self.zones[zone]:
            last = found[-1]
            if (last.observed.state, last.gate.permission) != (
                one.observed.state,
                one.gate.permission,
            ):
                found.append(one)
        return found

    def check(self) -> None:
        """Hold all records to the rules."""
        for records in self.zones.values():
            for one in records:
                _check_zone(one)
            for before, after in pairwise(records):
                _check_step(before, after)
        for earlier, later in pairwise(self.cluster):
            _check_step(earlier, later)

    async def _hear(
        self,
        watch: AbstractAsyncContextManager[AsyncIterator[_State]],
        take: Callable[[_State], None],
    ) -> None:
        async with watch as states:
            async for state in states:
                take(state)
                moved, self._moved = self._moved, asyncio.Event()
                moved.set()

    def _hear_zones(self, seen: object) -> None:
        assert isinstance(seen, dict)
        for name, record in seen.items():
            assert isinstance(record, ZoneRecord), f"zone {name}: {record}"
            records = self.zones.setdefault(record.zone, [])
            if record not in records[-1:]:
                records.append(record)

    def _hear_cluster(self, seen: object) -> None:
        if seen is not None:
            assert isinstance(seen, ClusterRecord), f"the cluster: {seen}"
            self.cluster.append(seen)


def _check_zone(record: ZoneRecord) -> None:
    gate, state = record.gate, record.observed.state
    if gate.permission is Permission.OPEN:
        assert state in _CALM, f"zone {record.zone} is open and {state}: {gate}"
    if gate.permission is Permission.RELEASED:
        assert gate.set_by != WATCH, f"zone {record.zone}: the watch released it: {gate}"


def _check_step(before: ZoneRecord | ClusterRecord, after: ZoneRecord | ClusterRecord) -> None:
    assert after.evaluation >= before.evaluation, f"evaluations went back: {before} {after}"
    if before.gate.token is not None and before.gate.token == after.gate.token:
        assert after.gate.held_ms >= before.gate.held_ms, f"held time went back: {before} {after}"
        assert after.gate.real >= before.gate.real, f"a real loss was forgotten: {before} {after}"
