"""A cluster in a SQLite file for the commands: bookies by name, and the records of a zone watch.

No bookie answers, so everything that only bookies know is unknown.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click
from click.testing import CliRunner, Result

from zonekeeper.metadata.bookies import cookie_store
from zonekeeper.metadata.cluster import cluster as clusters
from zonekeeper.metadata.cluster import policy_store, timeline, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import cookies
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.placement.base import units
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.policy.rules import PlacementRules, Policy
from zonekeeper.placement.zones import watch
from zonekeeper.placement.zones.watch import Health, Sighting

T = TypeVar("T")

INSTANCE = "6f2ee3ee-52a8-4b5c-8f0e-4a3c8d5f0c11"
ZONES = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
POLICY = Policy(placement=PlacementRules(zones=ZONES))
WALL_MS = 1_700_000_000_000


class LiveWorld:
    """The cluster, and the commands on it."""

    def __init__(self, folder: Path) -> None:
        self.address = f"sqlite://{folder / 'meta.db'}"

    def call(self, command: click.Command, *words: str) -> Result:
        # Into a pipe a row is a line, unless COLUMNS says how wide it is.
        return CliRunner(env={"COLUMNS": None}).invoke(
            command, [*words, "--metadata", self.address], catch_exceptions=False
        )

    def data(self, command: click.Command, *words: str) -> dict[str, object]:
        """Call for data; it must succeed."""
        result = self.call(command, *words, "--output", "json")
        assert result.exit_code == 0, result.output
        found: dict[str, object] = json.loads(result.stdout)
        return found

    def on(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """Do something to the cluster itself."""

        async def done() -> T:
            store = await open_store(self.address)
            try:
                return await work(await clusters.open_cluster(store))
            finally:
                await store.close()

        return asyncio.run(done())

    def build(self, *, lost: str | None = None, watched: bool = True) -> None:
        """Make three zones of two bookies; one zone may be down, as a watch has seen it."""

        async def made() -> None:
            store = await open_store(self.address)
            try:
                cluster = await clusters.initialise(store, INSTANCE)
                await policy_store.write(cluster, POLICY, replaces=0)
                for bookie in _bookies(lost):
                    await _add(cluster, bookie)
                if watched:
                    await _watch(cluster, Topology(_bookies(lost)))
            finally:
                await store.close()

        asyncio.run(made())

    def name_zones(self, *names: str) -> None:
        """Put a policy in force that names these zones only."""
        rules = PlacementRules(zones=tuple(map(ZoneName, names)), desired_zones=len(names))
        policy = Policy(placement=rules)
        self.on(lambda cluster: policy_store.write(cluster, policy, replaces=1))

    def told(self) -> list[tuple[str, str, str]]:
        """Give the timeline, the newest first: what, to what, by whom."""
        events = self.on(timeline.newest)
        return [(event.kind, event.subject, event.by) for event in events]


def _bookies(lost: str | None) -> list[Bookie]:
    return [
        Bookie(
            id=BookieId(f"bk-{zone}-{number}"),
            location=Location(zone, UpgradeDomain(f"ud-{number}")),
            registration=Registration.ABSENT if zone == lost else Registration.WRITABLE,
        )
        for zone in ZONES
        for number in range(2)
    ]


async def _add(cluster: Cluster, bookie: Bookie) -> None:
    cookie = cookies.Cookie(
        bookie=bookie.id,
        journal_dirs=("/d",),
        ledger_dirs=("/d",),
        instance=cluster.instance,
        location=bookie.location,
    )
    await cookie_store.create(cluster, cookie)
    if bookie.readable:
        await cluster.store.create(cluster.root.writable(bookie.id))


async def _watch(cluster: Cluster, bookies: Topology) -> None:
    """Write what a watch that has been there for an hour has written."""
    health, everybody = Health(), Topology(b for b in _bookies(None))
    for now_ms in range(0, units.HOUR_MS, units.MINUTE_MS):
        seen = everybody if now_ms < units.HOUR_MS // 2 else bookies
        health, _ = watch.evaluate(
            health, Sighting(bookies=seen), POLICY, now_ms=now_ms, wall_ms=WALL_MS
        )
    for zone, record in health.zones.items():
        await zone_store.change_zone(cluster, zone, _always(record))
    await zone_store.change_cluster(cluster, _always(health.cluster))


def _always(value: T) -> Callable[[object], T]:
    return lambda _: value
