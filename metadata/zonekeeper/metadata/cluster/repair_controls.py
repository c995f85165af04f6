"""Settings for all repair: Apache's switch, its delay, and the times of its checks.

These are Apache's nodes, shared with its shell: ``autorecovery -disable`` there and our command
change the same node. The delay is a copy of the policy's, for Apache's tools to show; no process of
ours obeys it.
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
    """A periodic check of the auditor, by the name of its node."""

    REPLICAS = "replicascheckctime"
    PLACEMENT = "placementpolicycheckctime"
    ALL_LEDGERS = "checkallledgersctime"


async def is_enabled(cluster: Cluster) -> bool:
    """Does the global switch permit automatic repair?"""
    return not await cluster.store.exists(_switch(cluster), sync=True)


async def set_enabled(cluster: Cluster, *, enabled: bool) -> None:
    """Set the global switch."""

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
    """Copy the policy's delay for Apache's tools; an equal value is not written again.

    Each write asks the auditor for an audit.
    """
    raw = underreplication_format.render_seconds(seconds)

    def decide(node: Versioned | None) -> update.Decision:
        return update.Keep() if node is not None and node.value == raw else update.Store(raw)

    await update.update(cluster.store, _delay(cluster), decide)


@asynccontextmanager
async def watch_delay(cluster: Cluster) -> AsyncIterator[AsyncIterator[int]]:
    """Give the number of each write to the delay; a foreign write asks for an audit."""
    async with cluster.store.watch(_delay(cluster)) as nodes:
        yield (node.modified_id async for node in nodes if node is not None)


async def read_check_time_ms(cluster: Cluster, check: PeriodicCheck) -> int | None:
    """Give the wall time at which a periodic check last ran; None if it never ran."""
    path = _checked(cluster, check)
    node = await cluster.store.get(path)
    with stored_at(path, cluster.store.name):
        return None if node is None else underreplication_format.parse_time(node.value)


async def write_check_time_ms(cluster: Cluster, check: PeriodicCheck, wall_ms: int) -> None:
    """Note the time at which a periodic check ran."""
    raw = underreplication_format.render_time(wall_ms)
    await update.update(cluster.store, _checked(cluster, check), lambda _: update.Store(raw))


def _switch(cluster: Cluster) -> str:
    return cluster.root.below("underreplication/disable")


def _delay(cluster: Cluster) -> str:
    return cluster.root.below("underreplication/lostBookieRecoveryDelay")


def _checked(cluster: Cluster, check: PeriodicCheck) -> str:
    return cluster.root.below(f"underreplication/{check.value}")
