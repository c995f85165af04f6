"""Joining a cluster for good: in a session as long as its policy says, and no longer.

That a zone's losses are held before the first of them is published rests on ``sessionTimeout``:
bookies that went down together are gone from the registrations within that time of each other. So
it is no setting of a process. Whoever stays reads it from the policy, and asks the store for it. A
server may grant more than it is asked for (ZooKeeper: ``minSessionTimeout``). Then nobody joins,
and the message says what to change. Less is harmless.

The policy is read once. A process that was there before ``sessionTimeout`` was lowered keeps its
longer session until its next start.
"""

import logging

from zonekeeper.metadata.cluster import policy_store
from zonekeeper.metadata.cluster.cluster import Cluster, open_cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.metadata.stores.opening import open_store
from zonekeeper.metadata.stores.timeouts import Timeouts
from zonekeeper.placement.base import units
from zonekeeper.placement.base.troubles import Refusal
from zonekeeper.placement.policy.rules import ZoneWatchRules

_logger = logging.getLogger(__name__)


class SessionTooLongError(Refusal):
    """The store grants only sessions that outlive what the policy says."""


async def join(address: str) -> Cluster:
    """Open the cluster at an address; whoever asked for it closes its store.

    Raises what ``open_store`` and ``open_cluster`` raise, and ``SessionTooLongError``.
    """
    usual_ms = ZoneWatchRules().session_timeout_ms
    cluster = await _open(address, usual_ms)
    try:
        wanted_ms = await _session_ms(cluster)
        if wanted_ms != usual_ms:
            await cluster.store.close()
            cluster = await _open(address, wanted_ms)
        _check(cluster, wanted_ms)
    except BaseException:
        await cluster.store.close()
        raise
    return cluster


async def _open(address: str, session_ms: int) -> Cluster:
    store = await open_store(address, Timeouts(session_ms=session_ms), must_exist=True)
    try:
        return await open_cluster(store)
    except BaseException:
        await store.close()
        raise


async def _session_ms(cluster: Cluster) -> int:
    try:
        policy = await policy_store.read(cluster)
    except UnreadableError as error:
        # A bookie that does not start, for a record that somebody spoiled, would harm more.
        _logger.warning("sessions are as long as by default, since it cannot be read: %s", error)
        policy = None
    rules = ZoneWatchRules() if policy is None else policy.zone_watch
    return rules.session_timeout_ms


def _check(cluster: Cluster, wanted_ms: int) -> None:
    granted_ms = cluster.store.session_timeout_ms
    if granted_ms > wanted_ms:
        wanted, granted = units.duration_text(wanted_ms), units.duration_text(granted_ms)
        raise SessionTooLongError(
            f"{cluster.store.name} grants no session under {granted}, and the policy's "
            f"zoneWatch.sessionTimeout is {wanted}: raise the policy's to {granted} or more, or "
            "lower minSessionTimeout of ZooKeeper"
        )
