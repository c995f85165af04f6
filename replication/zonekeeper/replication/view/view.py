"""What one process knows of the cluster: policy, bookies, gates and losses, put together.

Auditor, replicators and zone watch of a process share one ``View``. It follows the records in the
store, and takes a look at every change and every ``evaluateEvery``. Between two looks its answers
do not change, with one exception: an answer that is too old begins to hold (``losses``).

Everything unknown holds:

- Before the first complete look (each part read once, and a policy set) there are no answers:
  ``known`` waits for it, and everything else may be asked only after it.
- A record of a zone or of the cluster that cannot be read is left out, and what it is about is
  held. A maintenance record that cannot be read covers every unit that its name may mean.
- If the policy cannot be read, or is gone, the last good one stays in force.
- While the store is out of reach, there are no looks. What was seen before is then of unknown age:
  the evaluation counters must be seen to move again, and no loss grows older.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import Final, TypeVar

from zonekeeper.metadata.bookies import bookie_records, bookie_watch
from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.metadata.cluster import policy_store, repair_controls, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base import locations
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import losses
from zonekeeper.placement.zones.losses import Followed, Held, Pulse, Records
from zonekeeper.placement.zones.maintenance import Maintenance
from zonekeeper.placement.zones.zone_records import ClusterRecord, ZoneRecord
from zonekeeper.replication.view import rereading
from zonekeeper.replication.view.rereading import Reread

State = TypeVar("State")

#: A unit without bookies, and without maintenance: the name of a real unit is never empty.
_NO_UNIT: Final = UpgradeDomain("")

_logger = logging.getLogger(__name__)


class View:
    """What this process knows of the cluster, its records and its losses."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._heard = _Heard()
        self._policy: Policy | None = None
        self._topology = Topology()
        self._bookies: Mapping[BookieId, BookieRecord] = {}
        self._maintenance: Mapping[Location, Maintenance] = {}
        self._unreadable: tuple[str, ...] = ()
        self._followed = Followed()
        #: Every bookie that was registered in some look.
        self._met = set[BookieId]()
        self._moved = asyncio.Event()
        self._next_look = asyncio.Event()
        self._looks = 0

    # ── what is known ──

    @property
    def policy(self) -> Policy:
        """The last policy that could be read."""
        assert self._policy is not None, "asked before `known`"
        return self._policy

    @property
    def topology(self) -> Topology:
        """All bookies, with their locations and registrations."""
        return self._topology

    @property
    def bookie_records(self) -> Mapping[BookieId, BookieRecord]:
        """The bookies' records. A record that cannot be read is left out."""
        return self._bookies

    @property
    def written_off(self) -> frozenset[BookieId]:
        """The bookies that are written off."""
        return frozenset(name for name, one in self._bookies.items() if one.written_off)

    @property
    def forgetful(self) -> Mapping[BookieId, int]:
        """The registered bookies that lost data, and the boot epoch in which each said so."""
        topology = self._topology
        return {
            name: one.lost_data
            for name, one in self._bookies.items()
            if one.lost_data is not None and (known := topology.get(name)) and known.readable
        }

    @property
    def missing(self) -> Mapping[BookieId, Location | None]:
        """Every bookie that has a cookie and is not registered, and its location."""
        return {name: loss.location for name, loss in self._followed.missing.items()}

    @property
    def zones(self) -> Mapping[ZoneName, ZoneRecord]:
        """The zones' records that can be read."""
        return self._followed.records.zones

    @property
    def cluster_record(self) -> ClusterRecord | None:
        """The cluster's record; None: there is none that can be read."""
        return self._followed.records.cluster

    @property
    def maintenance(self) -> Mapping[Location, Maintenance]:
        """The declarations that can be read."""
        return self._maintenance

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The gates' and maintenance records that cannot be read, as ``zones/a``; sorted."""
        return self._unreadable

    @property
    def replication_enabled(self) -> bool:
        """Is the global switch on?"""
        return self._followed.records.replication_enabled

    @property
    def holds_everything(self) -> bool:
        """Is the switch off, or does the cluster's gate hold, or is its record not there?

        Then no copy of any zone may be made again.
        """
        cluster = self.cluster_record
        return not self.replication_enabled or cluster is None or not cluster.gate.permits

    def what_holds(self, where: Location | None, anew: Reread | None = None) -> Held | None:
        """Say what holds the repair of a copy that was lost at ``where``, now; None: nothing.

        ``anew`` are records that were read after the last look, and go before its own.
        """
        return losses.what_holds(where, self._known(anew), self.policy, now_ms=_now_ms())

    def what_holds_zone(self, zone: ZoneName) -> Held | None:
        """Say what holds the repair of losses in a zone; maintenance of its units is left out."""
        return self.what_holds(Location(zone, _NO_UNIT))

    def what_holds_bookie(self, bookie: BookieId) -> Held | None:
        """Say for people what holds the repair of what a bookie held; None: nothing.

        A bookie that is not known, is registered or is written off has nothing to be repaired.
        """
        known = self._topology.get(bookie)
        if known is None:
            return None
        written_off = bookie in self.written_off
        return losses.what_holds_bookie(
            known, self._followed, self.policy, written_off=written_off, now_ms=_now_ms()
        )

    def what_holds_anew(self, bookie: BookieId, anew: Reread | None = None) -> Held | None:
        """Say what holds making a bookie's copies again, now; None: nothing.

        A bookie that went away while this process watched may be the first loss of its zone. So its
        copies are held as long as its publication is. A bookie that was away before was published
        by an auditor that has waited, or is recovered by order of a person.
        """
        if bookie in self._met and bookie in self._followed.missing:
            return self.what_holds_publishing(bookie, anew)
        return self.what_holds(self._topology.location(bookie), anew)

    def what_holds_publishing(self, bookie: BookieId, anew: Reread | None = None) -> Held | None:
        """Say what holds the publication of a missing bookie's ledgers, now; None: nothing."""
        return losses.what_holds_publishing(
            bookie, self._known(anew), self.policy, now_ms=_now_ms()
        )

    def _known(self, anew: Reread | None) -> Followed:
        if anew is None:
            return self._followed
        return losses.at_present(self._followed, anew.over(self._followed.records))

    # ── before a commit ──

    async def reread(self, bookies: Collection[BookieId]) -> Reread:
        """Read the gates of some bookies' zones, behind all writes; without a zone, of all zones.

        Between two looks the watches may be late. What commits asks here first, and commits with
        the checks.
        """
        places = [self._topology.location(bookie) for bookie in bookies]
        zones = {where.zone for where in places if where is not None}
        if not places or None in places:
            zones = {*self.policy.placement.zones, *self.zones}
        return await rereading.read(self._cluster, zones)

    # ── when it changes ──

    @property
    def looks(self) -> int:
        """How many looks there have been."""
        return self._looks

    async def known(self) -> None:
        """Wait for the first complete look."""
        await self.changed(0)

    async def changed(self, seen: int) -> int:
        """Wait until there were more than ``seen`` looks; give how many there are by then."""
        while self._looks <= seen:
            await self._next_look.wait()
        return self._looks

    # ── following ──

    async def follow(self) -> None:
        """Follow all records, until cancelled; raises an error of the store that lasts."""
        cluster, heard = self._cluster, self._heard
        work = (
            self._hear(policy_store.watch(cluster), heard.policy),
            self._hear(bookie_watch.watch(cluster), heard.topology),
            self._hear(bookie_records.watch_all(cluster), heard.bookies),
            self._hear(zone_store.watch_zones(cluster), heard.zones),
            self._hear(zone_store.watch_cluster(cluster), heard.cluster),
            self._hear(zone_store.watch_maintenance(cluster), heard.maintenance),
            self._hear(repair_controls.watch_enabled(cluster), heard.switch),
            self._follow_session(),
        )
        async with alongside(*work):
            while True:
                await self._wait()
                if cluster.store.session.connected:
                    self._look()

    async def _hear(
        self,
        watch: AbstractAsyncContextManager[AsyncIterator[State]],
        take: Callable[[State], None],
    ) -> None:
        async with watch as states:
            async for state in states:
                take(state)
                self._moved.set()

    async def _follow_session(self) -> None:
        async with self._cluster.store.watch_session() as sessions:
            async for session in sessions:
                if not session.connected:
                    self._followed = _out_of_date(self._followed)
                self._moved.set()

    async def _wait(self) -> None:
        """Wait until it is time for a look: something changed, or ``evaluateEvery`` has passed."""
        policy = self._policy
        every_s = None if policy is None else policy.zone_watch.evaluate_every_ms / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout(every_s):
                await self._moved.wait()
        self._moved.clear()

    def _look(self) -> None:
        heard = self._heard
        records = heard.records()
        if records is None or heard.good_policy is None or heard.seen_topology is None:
            return
        self._policy, self._topology = heard.good_policy, heard.seen_topology
        self._bookies = heard.readable_bookies
        self._maintenance = heard.readable_maintenance
        self._unreadable = heard.unreadable()
        missing = {one.id: one.location for one in self._topology if not one.readable}
        self._met.update(one.id for one in self._topology if one.readable)
        self._followed = losses.follow(
            self._followed, missing, records, self._policy.zone_watch, now_ms=_now_ms()
        )
        self._looks += 1
        woken, self._next_look = self._next_look, asyncio.Event()
        woken.set()


class _Heard:
    """What each watch of the store gave last; None: it gave nothing yet."""

    def __init__(self) -> None:
        self.good_policy: Policy | None = None
        self.seen_topology: Topology | None = None
        self.readable_bookies: Mapping[BookieId, BookieRecord] = {}
        self.readable_maintenance: Mapping[Location, Maintenance] = {}
        self._covered: frozenset[Location] | None = None
        self._bookies_told = False
        self._zones: Mapping[ZoneName, ZoneRecord] | None = None
        self._cluster: ClusterRecord | None = None
        self._cluster_told = False
        self._enabled: bool | None = None
        self._unreadable: dict[str, list[str]] = {}

    def policy(self, seen: Policy | UnreadableError | None) -> None:
        if isinstance(seen, Policy):
            self.good_policy = seen
        elif self.good_policy is None:
            _logger.warning("no policy that can be read: nothing is decided until there is one")

    def topology(self, seen: Topology) -> None:
        self.seen_topology = seen

    def bookies(self, seen: Mapping[str, BookieRecord | UnreadableError]) -> None:
        self._bookies_told = True
        self.readable_bookies = {
            BookieId(name): one for name, one in seen.items() if isinstance(one, BookieRecord)
        }

    def zones(self, seen: Mapping[str, ZoneRecord | UnreadableError]) -> None:
        good = {
            name: one
            for name, one in seen.items()
            if isinstance(one, ZoneRecord) and one.zone == name
        }
        self._zones = {one.zone: one for one in good.values()}
        self._unreadable["zones"] = [f"zones/{name}" for name in seen if name not in good]

    def cluster(self, seen: ClusterRecord | UnreadableError | None) -> None:
        self._cluster_told = True
        self._cluster = seen if isinstance(seen, ClusterRecord) else None
        self._unreadable["cluster"] = ["cluster"] if isinstance(seen, UnreadableError) else []

    def maintenance(self, seen: Mapping[str, Maintenance | UnreadableError]) -> None:
        readable = [one for one in seen.values() if isinstance(one, Maintenance)]
        doubtful = [name for name, one in seen.items() if isinstance(one, UnreadableError)]
        self.readable_maintenance = {one.unit: one for one in readable}
        self._covered = frozenset(self.readable_maintenance).union(*map(units_named, doubtful))
        self._unreadable["maintenance"] = [f"maintenance/{name}" for name in doubtful]

    def switch(self, seen: bool) -> None:
        self._enabled = seen

    def unreadable(self) -> tuple[str, ...]:
        return tuple(sorted(name for names in self._unreadable.values() for name in names))

    def records(self) -> Records | None:
        """Give the gates' records; None: some watch gave nothing yet."""
        if (
            self._zones is None
            or self._covered is None
            or self._enabled is None
            or not self._cluster_told
            or not self._bookies_told
        ):
            return None
        return Records(
            zones=self._zones,
            cluster=self._cluster,
            maintenance=self._covered,
            replication_enabled=self._enabled,
        )


def units_named(name: str) -> frozenset[Location]:
    """Give every unit that ``<zone>.<upgradeDomain>`` may name: both parts may contain dots."""
    parts = name.split(".")
    splits = [(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, len(parts))]
    found = (locations.parse(f"/{zone}/{domain}") for zone, domain in splits)
    return frozenset(unit for unit in found if unit is not None)


def _out_of_date(followed: Followed) -> Followed:
    """Give what is still known after the store was out of reach.

    The time of the last look is forgotten, so that no loss grows older by the time since. The times
    at which the evaluation counters moved are forgotten: they must be seen to move again.
    """
    pulses = {key: Pulse(evaluation=one.evaluation) for key, one in followed.pulses.items()}
    return replace(followed, last_ms=None, pulses=pulses)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
