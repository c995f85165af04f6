"""What people and the auditor set for all of repair: Apache's switch, its delay, its check times.

They are Apache's nodes, shared with its shell: ``autorecovery -disable`` there and here are one.
The delay is a mirror of the policy's for Apache's tools to show; nothing here obeys it.
"""

import enum
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats import underreplication_format
from zonekeeper.metadata.formats.malformed import stored_at
from zonekeeper.metadata.store import update
from zonekeeper.metadata.store.store import Versioned


class PeriodicCheck(enum.Enum):
    """A check that the auditor makes from time to time, by the name of its node."""

    REPLICAS = "replicascheckctime"
    PLACEMENT = "placementpolicycheckctime"
    ALL_LEDGERS = "checkallledgersctime"


async def is_enabled(cluster: Cluster) -> bool:
    """May ledgers be repaired by themselves, as far as the global switch goes?"""
    return not await cluster.store.exists(_switch(cluster), sync=True)


async def set_enabled(cluster: Cluster, *, enabled: bool) -> None:
    """Throw the global switch."""

    def decide(node: Versioned | None) -> update.Decision:
        if enabled:
            return update.RemoveNode()
        return update.Store(b"") if node is None else update.Keep()

    await update.update(cluster.store, _switch(cluster), decide)


@asynccontextmanager
async def watch_enabled(cluster: Cluster) -> AsyncIterator[AsyncIterator[bool]]:
    """Follow the global switch."""
    async with cluster.store.watch(_switch(cluster)) as nodes:
        yield (node is None async for node in nodes)


async def write_delay_s(cluster: Cluster, seconds: int) -> None:
    """Mirror the policy's delay for Apache's tools; equal is left alone, as a write means audit."""
    raw = underreplication_format.render_seconds(seconds)

    def decide(node: Versioned | None) -> update.Decision:
        return update.Keep() if node is not None and node.value == raw else update.Store(raw)

    await update.update(cluster.store, _delay(cluster), decide)


@asynccontextmanager
async def watch_delay(cluster: Cluster) -> AsyncIterator[AsyncIterator[int]]:
    """Give the number of each write to the delay: a foreign one asks for an audit."""
    async with cluster.store.watch(_delay(cluster)) as nodes:
        yield (node.modified_id async for node in nodes if node is not None)


async def read_check_time_ms(cluster: Cluster, check: PeriodicCheck) -> int | None:
    """Say when a periodic check last ran (wall time); None: never."""
    path = _checked(cluster, check)
    node = await cluster.store.get(path)
    with stored_at(path, cluster.store.name):
        return None if node is None else underreplication_format.parse_time(node.value)


async def write_check_time_ms(cluster: Cluster, check: PeriodicCheck, wall_ms: int) -> None:
    """Note that a periodic check ran."""
    raw = underreplication_format.render_time(wall_ms)
    await update.update(cluster.store, _checked(cluster, check), lambda _: update.Store(raw))


def _switch(cluster: Cluster) -> str:
    return cluster.root.below("underreplication/disable")


def _delay(cluster: Cluster) -> str:
    return cluster.root.below("underreplication/lostBookieRecoveryDelay")


def _checked(cluster: Cluster, check: PeriodicCheck) -> str:
    return cluster.root.below(f"underreplication/{check.value}")
