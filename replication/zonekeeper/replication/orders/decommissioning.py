"""Removing a bookie that is registered: empty it, see that it is empty, stop it, forget it.

1. ``drain``: the bookie is marked as draining, so that no new ensemble names it. It is made
   read-only, so that its writers go on with other bookies. Then every ledger gets another member in
   its place; its own copies serve meanwhile. Draining ends when a whole listing names it no more.
2. A person, or the operator, stops the bookie; ``decommission`` waits for that.
3. ``remove``: the bookie must not be registered, and a further whole listing must not name it. Then
   its record is removed, and its cookie last. An order that was cut short before that is given
   again, and goes on where it stopped.

These are refused before anything is done: a bookie without a cookie; a bookie that ledgers name and
that is neither registered nor draining already (that is a loss: ``recovering``); a bookie without
which no legal ensemble could be built.
"""

import logging
from contextlib import suppress

from zonekeeper.metadata.bookies import bookie_records, bookie_watch, cookie_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.ensembles import candidates, selector
from zonekeeper.placement.ensembles.failures import PlacementError
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.orders import emptying
from zonekeeper.replication.orders.emptying import Emptying
from zonekeeper.replication.orders.orders import Order, OrderProgress, Phase
from zonekeeper.replication.repair.repairing import Repairer
from zonekeeper.replication.view.view import View
from zonekeeper.wire.formats import errors

_logger = logging.getLogger(__name__)


async def decommission(repairer: Repairer, order: Order) -> None:
    """Drain a bookie, wait until it is stopped, and remove it."""
    await drain(repairer, order)
    view = repairer.view
    while copy_plan.cause_of(order.bookie, view.topology) is not Cause.LOST:
        order.report(OrderProgress(phase=Phase.STOPPING))
        await view.changed(view.looks)
    await remove(repairer, order)
    order.report(OrderProgress(phase=Phase.DONE))


async def drain(repairer: Repairer, order: Order) -> None:
    """Empty a bookie. It keeps running, draining and read-only."""
    bookie, view = order.bookie, repairer.view
    await check(repairer, bookie)
    await bookie_records.drain(repairer.cluster, bookie, order.mark())
    await order.note(repairer, "draining")
    await _make_read_only(repairer, bookie)
    while copy_plan.cause_of(bookie, view.topology) is None:
        await view.changed(view.looks)

    def still() -> None:
        if copy_plan.cause_of(bookie, view.topology) is None:
            raise RefusedError(f"{bookie} is not draining any more: the order was taken back")

    await Emptying(repairer, order, still).run()
    await order.note(repairer, "drained")


async def check(repairer: Repairer, bookie: BookieId) -> None:
    """Refuse to drain a bookie that cannot be drained. Nothing is changed."""
    view, cluster = repairer.view, repairer.cluster
    await _known(repairer, bookie)
    draining = (record := view.bookie_records.get(bookie)) is not None and record.draining
    if copy_plan.cause_of(bookie, view.topology) is Cause.LOST and not draining:
        left = await emptying.naming(cluster, bookie)
        if left:
            raise RefusedError(
                f"{bookie} is not registered, and {len(left)} ledgers name it: start it, or, if it "
                f"is lost for good, run `zonekeeper bookies recover {bookie}`"
            )
    try:
        _possible_without(view, bookie, repairer.chance)
    except PlacementError as error:
        raise RefusedError(
            f"without {bookie} no new ensemble could be built: {error}; nothing was done"
        ) from error


async def remove(repairer: Repairer, order: Order) -> None:
    """Forget a bookie that is stopped and that no ledger names; its cookie goes last."""
    bookie, cluster = order.bookie, repairer.cluster
    await _stopped(cluster, bookie)
    if left := await emptying.naming(cluster, bookie):
        raise RefusedError(
            f"{len(left)} ledgers name {bookie}, ledger {left[0]} first: drain or recover it before"
        )
    # Reading all ledgers takes long; the bookie may have been started again meanwhile.
    await _stopped(cluster, bookie)
    stored = await cookie_store.read(cluster, bookie)
    await bookie_records.forget(cluster, bookie)
    if stored is not None:
        await cookie_store.delete(cluster, bookie, version=stored.version)
    await order.note(repairer, "removed")


async def _stopped(cluster: Cluster, bookie: BookieId) -> None:
    if bookie in await bookie_watch.registrations(cluster):
        raise RefusedError(f"{bookie} is registered: stop it, then remove it")


async def _known(repairer: Repairer, bookie: BookieId) -> None:
    known = bookie in repairer.view.topology
    with suppress(UnreadableError):  # a cookie that cannot be read is a cookie
        known = known or await cookie_store.read(repairer.cluster, bookie) is not None
    if not known:
        raise emptying.unknown(repairer, bookie)


async def _make_read_only(repairer: Repairer, bookie: BookieId) -> None:
    """Ask a bookie to be read-only. If it does not answer, only its draining mark works."""
    try:
        link = await repairer.client.bookies.pool.link(bookie)
        await link.set_read_only(read_only=True)
    except errors.ProtocolError as error:
        _logger.warning("%s was not made read-only: %s: %s", bookie, type(error).__name__, error)


def _possible_without(view: View, bookie: BookieId, chance: Chance) -> None:
    """Raise ``PlacementError`` if the other bookies could not make an ensemble."""
    request = candidates.EnsembleRequest(
        topology=view.topology.updated(remove=[bookie]),
        quorums=view.policy.quorums,
        rules=view.policy.placement,
    )
    selector.choose(request, chance)
