"""A client's view of the bookies: which are registered, which are suspect, and the link to each.

Topology, policy and the state of zones are watched in the metadata store. Failures and the number
of outstanding requests are noted by the client itself, over all of its ledgers. New ensembles are
chosen here, and nowhere else in the client.

A bookie that failed a ledger becomes suspect: new ensembles avoid it for a while. If the bookie
answered badly or too late, that is the policy's quarantine. If the bookie was only not reached, it
is the session timeout, because its registration can outlive it for so long. A suspect bookie is
still chosen where no legal ensemble exists without it.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from zonekeeper.client.base.counters import ClientCounters
from zonekeeper.client.base.errors import ClusterNotReady
from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.metadata.bookies import bookie_watch
from zonekeeper.metadata.cluster import policy_store, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Registration, Topology
from zonekeeper.placement.ensembles import candidates, selector
from zonekeeper.placement.ensembles.read_order import Replica
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import zone_counts
from zonekeeper.placement.zones.observation import Observation
from zonekeeper.placement.zones.zone_records import ZoneRecord
from zonekeeper.wire.formats import errors

_UNREACHED: Final = (
    errors.ConnectionLost,
    errors.NotConnected,
    errors.NotOpened,
    errors.ShuttingDown,
)
_DOWN: Final = frozenset({Observation.SUSPECT, Observation.DOWN})

_logger = logging.getLogger(__name__)


class Bookies:
    """One client's view of its cluster's bookies."""

    def __init__(
        self,
        cluster: Cluster,
        pool: LinkPool,
        *,
        own_zone: ZoneName | None,
        chance: Chance,
        counters: ClientCounters,
    ) -> None:
        self.cluster = cluster
        self.pool = pool
        self.own_zone = own_zone
        self.counters = counters
        self._chance = chance
        self._loop = asyncio.get_running_loop()
        self._topology: Topology | None = None
        self._policy: Policy | None = None
        self._policy_seen = False
        self._zones_down: frozenset[ZoneName] = frozenset()
        #: For each suspect bookie: the time (``now_ms``) until which it is avoided.
        self._suspects: dict[BookieId, int] = {}
        #: The last failure of each bookie that was ever a suspect.
        self._why_suspect: dict[BookieId, str] = {}
        self._replicas: dict[BookieId, Replica] = {}
        self._ready = asyncio.Event()
        #: Called after each change of the topology. A dict, because a set has no fixed order.
        self._listeners: dict[Callable[[], None], None] = {}

    # ── what is watched ──

    async def follow(self) -> None:
        """Watch topology, policy and zones until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_topology())
            group.create_task(self._follow_policy())
            group.create_task(self._follow_zones())

    async def known(self, timeout_ms: int) -> None:
        """Wait until the bookies and the policy record were read once; raises ClusterNotReady."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._ready.wait()
        except TimeoutError as late:
            raise ClusterNotReady(
                f"{self.cluster}: bookies and policy were not read in {timeout_ms} ms; "
                "check that the metadata store can be reached"
            ) from late

    @property
    def topology(self) -> Topology:
        """All bookies that the metadata store shows."""
        assert self._topology is not None, "wait until it is known"
        return self._topology

    @property
    def policy(self) -> Policy:
        """The last policy that could be read; raises ClusterNotReady if there was none yet."""
        self.check()
        assert self._policy is not None
        return self._policy

    def check(self) -> None:
        """Raise ClusterNotReady as long as no policy could be read."""
        if self._policy is None:
            raise ClusterNotReady(
                f"{self.cluster} has no policy that can be read: set one with `zonekeeper policy "
                "set`, or apply its BookieCluster resource"
            )

    def listen(self, listener: Callable[[], None]) -> None:
        """Have a function called after each change of the topology."""
        self._listeners[listener] = None

    def forget(self, listener: Callable[[], None]) -> None:
        """Undo ``listen``."""
        self._listeners.pop(listener, None)

    async def _follow_topology(self) -> None:
        async with bookie_watch.watch(self.cluster) as snapshots:
            async for topology in snapshots:
                self._topology = topology
                self._look_ready()
                for listener in list(self._listeners):
                    listener()

    async def _follow_policy(self) -> None:
        async with policy_store.watch(self.cluster) as records:
            async for record in records:
                if isinstance(record, Policy):
                    self._policy = record
                elif self._policy is not None:
                    why = record or "it was removed"
                    _logger.warning("%s: the last good policy holds: %s", self.cluster, why)
                self._policy_seen = True
                self._look_ready()

    async def _follow_zones(self) -> None:
        async with zone_store.watch_zones(self.cluster) as states:
            async for records in states:
                self._zones_down = _down(records)

    def _look_ready(self) -> None:
        if self._topology is not None and self._policy_seen:
            self._ready.set()

    # ── ensembles ──

    def zone(self, bookie_id: BookieId) -> ZoneName | None:
        """Give a bookie's zone; None: unresolved."""
        location = self.topology.location(bookie_id)
        return None if location is None else location.zone

    def zones(self, ensemble: Sequence[BookieId]) -> tuple[ZoneName | None, ...]:
        """Give the zones of an ensemble's members; None: unresolved."""
        return tuple(self.zone(bookie_id) for bookie_id in ensemble)

    def said_of_zones(self) -> str:
        """Say which zones are down, and how many of their bookies are available, as known here.

        A bookie counts as away if it is not registered, or if this client avoids it as suspect. Its
        registration can outlive it for a while. A zone is down if none of its bookies is available,
        or if the zone watch says so.
        """
        avoided = self.suspects
        known = (
            dataclasses.replace(each, registration=Registration.ABSENT)
            if each.id in avoided
            else each
            for each in self.topology
        )
        counts = zone_counts.measure(known, written_off=frozenset(), in_maintenance=frozenset())
        down = [
            f"{zone} ({count})"
            for zone, count in counts.zones.items()
            if zone in self._zones_down or (count.total and not count.available)
        ]
        if not down:
            return "no zone is known to be down"
        return f"down as far as is known: zone{'s' * (len(down) > 1)} {', '.join(down)}"

    def choose(self, quorums: Quorums) -> tuple[BookieId, ...]:
        """Choose an ensemble; raises ``PlacementError``."""
        return selector.choose(self._request(quorums), self._chance).ensemble

    def replace(
        self, quorums: Quorums, ensemble: Sequence[BookieId], positions: Collection[int]
    ) -> tuple[BookieId, ...]:
        """Choose newcomers for all these positions at once; raises ``PlacementError``."""
        request = self._request(quorums)
        return selector.replace(request, ensemble, positions, self._chance).ensemble

    def suspect(self, bookie_id: BookieId, error: errors.ProtocolError) -> None:
        """Avoid a bookie that failed for a while."""
        policy, now_ms = self.policy, self.now_ms()
        for_ms = (
            policy.zone_watch.session_timeout_ms
            if isinstance(error, _UNREACHED)
            else policy.placement.quarantine_ms
        )
        until_ms = self._suspects.get(bookie_id, 0)
        self._suspects[bookie_id] = max(now_ms + for_ms, until_ms)
        self._why_suspect[bookie_id] = str(error)
        if until_ms <= now_ms:  # else it is avoided already: each ledger that it fails comes here
            _logger.warning(
                "%s is avoided for %d ms: %s", bookie_id, for_ms, error, extra={"bookie": bookie_id}
            )

    def why_suspect(self, bookie_id: BookieId) -> str | None:
        """Give the last failure of a bookie that is or was avoided."""
        return self._why_suspect.get(bookie_id)

    @property
    def suspects(self) -> frozenset[BookieId]:
        """The bookies that new ensembles avoid now."""
        now_ms = self.now_ms()
        self._suspects = {who: until for who, until in self._suspects.items() if until > now_ms}
        return frozenset(self._suspects)

    def _request(self, quorums: Quorums) -> candidates.EnsembleRequest:
        return candidates.EnsembleRequest(
            topology=self.topology,
            quorums=quorums,
            rules=self.policy.placement,
            avoid=candidates.Avoid(quarantined=self.suspects, zones=self._zones_down),
        )

    def count_written(self, bookie_id: BookieId, size_bytes: int) -> None:
        """Count a frame that was sent to a bookie."""
        self.counters.frames_sent += 1
        if self._is_local(bookie_id):
            self.counters.bytes_written_local += size_bytes
        else:
            self.counters.bytes_written_remote += size_bytes

    def count_read(self, bookie_id: BookieId, size_bytes: int) -> None:
        """Count bytes of entries that a bookie has sent."""
        if self._is_local(bookie_id):
            self.counters.bytes_read_local += size_bytes
        else:
            self.counters.bytes_read_remote += size_bytes

    def _is_local(self, bookie_id: BookieId) -> bool:
        """Is the bookie known to stand in the client's zone?"""
        return self.own_zone is not None and self.zone(bookie_id) == self.own_zone

    # ── reading ──

    def replica(self, bookie_id: BookieId) -> Replica:
        """Give the facts about a bookie that decide its place in a read order."""
        bookie = self.topology.get(bookie_id)
        seen = self._replicas.get(bookie_id, _UNKNOWN)
        registration = Registration.ABSENT if bookie is None else bookie.registration
        return dataclasses.replace(seen, zone=self.zone(bookie_id), registration=registration)

    def note(self, bookie_id: BookieId, change: Callable[[Replica], Replica]) -> None:
        """Change what is noted about a bookie."""
        self._replicas[bookie_id] = change(self._replicas.get(bookie_id, _UNKNOWN))

    def now_ms(self) -> int:
        """Give the loop's time in whole milliseconds."""
        return int(self._loop.time() * 1_000)


_UNKNOWN: Final = Replica(zone=None)


def _down(records: Mapping[str, ZoneRecord | UnreadableError]) -> frozenset[ZoneName]:
    """Give the zones that new ensembles avoid; an unreadable record makes no zone avoided."""
    return frozenset(
        record.zone
        for record in records.values()
        if isinstance(record, ZoneRecord) and record.observed.state in _DOWN
    )
