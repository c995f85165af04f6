"""What people are shown of repair: the switch, the gates that hold, the orders about bookies. Pure.

An order to release names an incident. So the status shows each incident that is held, and nobody
needs the metadata store for it. A part that was not read is left out: it is unknown.

A list without items is left out, too. The API server drops a list that an apply empties, so an
empty list would never stand as it was written.
"""

from collections.abc import Iterator
from typing import Final

from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.placement.zones.bookie_orders import BookieOrder
from zonekeeper.placement.zones.gate import Gate

#: So many orders about bookies are shown.
ORDERS_MAX: Final = 50
CLUSTER: Final = "cluster"
#: Before the name of a zone; no zone is named like the cluster's gate then.
ZONES: Final = "zones/"


def status(ours: RootFound | None) -> Json:
    """Give ``repair`` and ``bookieOrders`` of the status; ``ours``: this resource's root."""
    if ours is None:
        return {}
    repair: Json = {"enabled": ours.gates.replication_enabled}
    if held := list(_held(ours)):
        repair["held"] = held
    orders = [_order(bookie, one) for bookie, one in sorted(ours.orders.items())[:ORDERS_MAX]]
    return {"repair": repair, **({"bookieOrders": orders} if orders else {})}


def held(status: Json) -> list[Json] | None:
    """Give the gates that a status shows as held; None: it does not show them."""
    repair = status.get("repair")
    return None if not isinstance(repair, dict) else list(repair.get("held") or ())


def _held(ours: RootFound) -> Iterator[Json]:
    if ours.gates.cluster is not None:
        yield from _gate(CLUSTER, ours.gates.cluster.gate)
    for zone, record in sorted(ours.gates.zones.items()):
        yield from _gate(f"{ZONES}{zone}", record.gate)


def _gate(name: str, gate: Gate) -> Iterator[Json]:
    if gate.permits:
        return
    told: Json = {"gate": name, "reason": gate.reason, "sinceMs": gate.since_wall_ms}
    if gate.token is not None:
        told["incident"] = gate.token
    if gate.held_by is not None:
        told["heldBy"] = str(gate.held_by)
    yield told


def _order(bookie: str, order: BookieOrder | str) -> Json:
    if isinstance(order, str):
        return {"bookie": bookie, "kind": "unreadable", "why": order}
    told: Json = {"bookie": bookie, "kind": str(order.kind), "by": order.given.by}
    if order.taken_back is not None:
        told["takenBackBy"] = order.taken_back.by
    if (one := order.progress) is not None:
        told["phase"] = str(one.phase)
        told |= {"ledgersLeft": one.ledgers_left, "bytesLeft": one.bytes_left}
        if one.why:
            told["why"] = one.why
    return told
