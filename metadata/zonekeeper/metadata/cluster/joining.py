"""Joining a cluster to stay: with a session that lasts as long as the policy says, and no longer.

The losses of a zone must be held before the first of them is published. That depends on
``sessionTimeout``: the registrations of bookies that went down together end within that time of
each other. So it is not a setting of a process. A process that stays reads it from the policy, and
asks the store for it. A server may grant a longer session than requested (ZooKeeper:
``minSessionTimeout``). Then joining fails, and the message says what to change. A shorter session
does no harm.

The policy is read once. If ``sessionTimeout`` is lowered, a running process keeps its longer
session until its next start.
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
    """Open the cluster at an address; the caller must close its store.

    Raises the errors of ``open_store`` and ``open_cluster``, and ``SessionTooLongError``.
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
        # It would do more harm if a damaged record kept bookies from starting.
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
