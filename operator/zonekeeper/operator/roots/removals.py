"""Orders to remove or recover bookies, as the operator reads, gives and takes them back.

The operator gives an order in the name by which it owns the policy, so an operator that has just
started knows which orders are the resource's. Autorecovery carries them out.
"""

from collections.abc import Mapping

from zonekeeper.metadata.bookies import order_records
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones import bookie_orders
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord
from zonekeeper.replication.orders import giving
from zonekeeper.replication.orders.giving import AskedOrder
from zonekeeper.replication.view.alerts import Chronicle


async def standing(cluster: Cluster) -> Mapping[BookieId, BookieOrder | str]:
    """Read every order; a text says why this version cannot read its record."""
    found = await order_records.read_all(cluster)
    return {name: one if isinstance(one, BookieOrder) else str(one) for name, one in found.items()}


async def give(
    cluster: Cluster,
    bookie: BookieId,
    word: OrderWord,
    *,
    chance: Chance,
    told: Chronicle,
    kind: OrderKind = OrderKind.REMOVE,
) -> None:
    """Give an order about a bookie; the same order twice is one order."""
    asked = AskedOrder(kind=kind, bookie=bookie, word=word)
    await giving.give(cluster, asked, giving.drawn_token(chance), told)


async def is_emptied(cluster: Cluster, bookie: BookieId, token: str) -> bool:
    """Does this very order stand, and does it say that the bookie is emptied?"""
    order = (await order_records.read_state(cluster, bookie)).order
    return (
        order is not None
        and order.token == token
        and order.taken_back is None
        and order.emptied_ms is not None
    )


async def take_back(cluster: Cluster, bookie: BookieId, token: str, word: OrderWord) -> None:
    """Take this very order back."""

    def decide(state: OrderState) -> OrderChange:
        if state.order is None or state.order.token != token:
            return OrderChange(order=state.order, record=state.record)
        order = bookie_orders.taken_back(state.order, word)
        assert order is not None, "it stands"
        return OrderChange(order=order, record=order_records.draining(state.record, order))

    await order_records.change(cluster, bookie, decide)
