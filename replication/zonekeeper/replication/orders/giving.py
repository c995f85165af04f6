"""Orders about bookies are given and taken back: refused if they make no sense, and else written.

To give an order or to take it back is one transaction, and takes no longer. Autorecovery processes
carry it out (``order_keeper``). Nothing is changed if an order is refused (``RefusedError``):

- an order about a bookie that neither a cookie nor a ledger names;
- to drain or remove a bookie that ledgers name and that is neither registered nor draining already:
  that is a loss, to be recovered;
- to drain or remove a bookie without which no legal ensemble could be built;
- to recover a bookie that is registered.
"""

from contextlib import suppress
from dataclasses import dataclass

from zonekeeper.metadata.bookies import cookie_store, order_records
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.base import misnamed
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.ensembles import candidates, selector
from zonekeeper.placement.ensembles.failures import PlacementError
from zonekeeper.placement.zones import bookie_orders
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.decisions import copy_plan
from zonekeeper.replication.decisions.copy_plan import Cause
from zonekeeper.replication.orders import emptying
from zonekeeper.replication.view import alerts
from zonekeeper.replication.view.alerts import Chronicle
from zonekeeper.replication.view.view import View


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedOrder:
    """What is to become of a bookie, by whose word."""

    kind: OrderKind
    bookie: BookieId
    word: OrderWord


async def check(cluster: Cluster, view: View, chance: Chance, asked: AskedOrder) -> int:
    """Refuse an order that makes no sense; give how many ledgers name the bookie.

    Nothing is changed.
    """
    bookie = asked.bookie
    lost = copy_plan.cause_of(bookie, view.topology) is Cause.LOST
    if asked.kind is OrderKind.RECOVER and not lost:
        raise RefusedError(
            f"{bookie} is registered, so it is not lost: stop it first, or, to move its data away "
            f"while it serves, run `zonekeeper bookies decommission {bookie}`"
        )
    known = bookie in view.topology
    with suppress(UnreadableError):  # a cookie that cannot be read is a cookie
        known = known or await cookie_store.read(cluster, bookie) is not None
    if not known and asked.kind is not OrderKind.RECOVER:
        raise _unknown(cluster, view, bookie)
    left = len(await emptying.naming(cluster, bookie))
    if asked.kind is OrderKind.RECOVER:
        if not known and not left:
            raise _unknown(cluster, view, bookie)
        return left
    record = view.bookie_records.get(bookie)
    if lost and left and (record is None or record.draining is None):
        raise RefusedError(
            f"{bookie} is not registered, and {left} ledgers name it: start it, or, if it is lost "
            f"for good, run `zonekeeper bookies recover {bookie}`"
        )
    try:
        _possible_without(view, bookie, chance)
    except PlacementError as error:
        raise RefusedError(
            f"without {bookie} no new ensemble could be built: {error}; nothing was done"
        ) from error
    return left


async def give(cluster: Cluster, asked: AskedOrder, token: str, told: Chronicle) -> BookieOrder:
    """Write an order that was checked; give the order that stands. The same one may be repeated."""
    made = False

    def decide(state: OrderState) -> OrderChange:
        nonlocal made
        wanted = BookieOrder(
            kind=asked.kind, token=token, given=asked.word, incarnation=state.incarnation
        )
        if state.incarnation is None and asked.kind is not OrderKind.RECOVER:
            raise RefusedError(f"{asked.bookie} has no cookie in {cluster}: it is forgotten by now")
        order = bookie_orders.given(asked.bookie, state.order, wanted)
        made = order.token == token
        return OrderChange(order=order, record=order_records.draining(state.record, order))

    after = await order_records.change(cluster, asked.bookie, decide)
    assert after.order is not None, "an order was given"
    if made:
        kind = "draining" if asked.kind.drains else "recovering"
        await told.write(kind, f"bookie {asked.bookie}", asked.word.reason)
    return after.order


async def take_back(cluster: Cluster, bookie: BookieId, word: OrderWord) -> BookieOrder | None:
    """Take the order about a bookie back; give it as it stands now. None: there is none."""

    def decide(state: OrderState) -> OrderChange:
        order = bookie_orders.taken_back(state.order, word)
        record = state.record
        if order is not None and record is not None:
            record = order_records.draining(record, order)
        return OrderChange(order=order, record=record)

    return (await order_records.change(cluster, bookie, decide)).order


def drawn_token(chance: Chance) -> str:
    """Draw the name of an order."""
    return alerts.drawn_token(chance)


def _unknown(cluster: Cluster, view: View, bookie: BookieId) -> RefusedError:
    """Refuse an order about a bookie that there is not; suggest those that may be meant."""
    meant = misnamed.question(bookie, [one.id for one in view.topology])
    return RefusedError(f"there is no bookie {bookie} in {cluster}{meant}")


def _possible_without(view: View, bookie: BookieId, chance: Chance) -> None:
    """Raise ``PlacementError`` if the other bookies could not make an ensemble."""
    request = candidates.EnsembleRequest(
        topology=view.topology.updated(remove=[bookie]),
        quorums=view.policy.quorums,
        rules=view.policy.placement,
    )
    selector.choose(request, chance)
