"""Carries out in the metadata store what a person has ordered on the resource.

Each act may be repeated, and ends in the same state. What stands is checked once more at the moment
of the act: the incident of a release by compare-and-set, the kind of a standing order in the
transaction that takes it back. A ``RefusedError`` says that nothing was done.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from zonekeeper.metadata.bookies import bookie_watch, cookie_store, order_records
from zonekeeper.metadata.bookies.order_records import OrderChange, OrderState
from zonekeeper.metadata.cluster import elections, policy_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.operator.roots.resource_orders import AskedFor, ResourceOrder
from zonekeeper.placement.base.chance import Chance
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Bookie, Registration, Topology
from zonekeeper.placement.ensembles import candidates, selector
from zonekeeper.placement.ensembles.failures import PlacementError
from zonekeeper.placement.policy.rules import Policy
from zonekeeper.placement.zones import bookie_orders
from zonekeeper.placement.zones.bookie_orders import OrderKind, OrderWord
from zonekeeper.placement.zones.gate import RefusedError
from zonekeeper.replication.gate import permitting
from zonekeeper.replication.gate.permitting import GateRequest
from zonekeeper.replication.orders import giving
from zonekeeper.replication.view.alerts import Chronicle


@dataclass(frozen=True, slots=True, kw_only=True)
class Obeying:
    """What carrying out an order needs."""

    cluster: Cluster
    told: Chronicle
    chance: Chance
    wall_ms: Callable[[], int]


async def obey(order: ResourceOrder, around: Obeying) -> None:
    """Carry out an order; raises ``RefusedError`` if it makes no sense by now."""
    cluster = around.cluster
    match order.asked:
        case AskedFor.ENABLE | AskedFor.DISABLE:
            enabled = order.asked is AskedFor.ENABLE
            await permitting.switch(cluster, order.person, around.told, enabled=enabled)
        case AskedFor.HOLD:
            policy = await _policy(cluster)
            await permitting.hold(cluster, _request(order, around), policy, around.told)
        case AskedFor.RELEASE:
            policy = await _policy(cluster)
            request = _request(order, around)
            await permitting.release(cluster, request, order.incident, policy, around.told)
        case AskedFor.DRAIN:
            await _drain(order, around)
        case AskedFor.TAKE_BACK:
            await _take_back(order, around)
        case AskedFor.DRILL | AskedFor.END_DRILL:
            raise RefusedError("a drill is no act in the metadata store; nothing was done")
        case _:
            assert_never(order.asked)


def _request(order: ResourceOrder, around: Obeying) -> GateRequest:
    return GateRequest(zone=order.zone, person=order.person, wall_ms=around.wall_ms())


def _word(order: ResourceOrder, around: Obeying) -> OrderWord:
    return OrderWord(at_ms=around.wall_ms(), by=order.person.name, reason=order.person.reason)


async def _policy(cluster: Cluster) -> Policy:
    policy = await policy_store.read(cluster)
    if policy is None:
        raise RefusedError(f"{cluster} has no policy any more; nothing was done")
    return policy


async def _drain(order: ResourceOrder, around: Obeying) -> None:
    """Give the order to empty a bookie that serves, if the others can do without it."""
    bookie, cluster = order.bookie, around.cluster
    assert bookie is not None, "the format was checked"
    votes = await cluster.store.children(elections.auditor_votes(cluster), sync=True)
    if not elections.in_order(votes or ()):
        raise RefusedError(
            f"no autorecovery process is running in {cluster}, so {bookie} would not be emptied: "
            "set spec.autoReplication.perZone to 1 or more; nothing was done"
        )
    registered = await bookie_watch.registrations(cluster)
    if bookie not in registered:
        raise RefusedError(f"{bookie} is not registered any more; nothing was done")
    policy, others = await _policy(cluster), dict(registered)
    del others[bookie]
    request = candidates.EnsembleRequest(
        topology=await _topology(cluster, others), quorums=policy.quorums, rules=policy.placement
    )
    try:
        selector.choose(request, around.chance)
    except PlacementError as error:
        raise RefusedError(
            f"without {bookie} no new ensemble could be built: {error}; nothing was done"
        ) from error
    asked = giving.AskedOrder(kind=OrderKind.DRAIN, bookie=bookie, word=_word(order, around))
    await giving.give(cluster, asked, order.token, around.told)


async def _topology(cluster: Cluster, registered: dict[BookieId, Registration]) -> Topology:
    """Give the bookies that are registered; one that is being emptied gets no new data."""
    draining = {
        bookie
        for bookie, one in (await order_records.read_all(cluster)).items()
        if isinstance(one, UnreadableError) or one.kind.drains
    }
    found = []
    for bookie, how in registered.items():
        try:
            stored = await cookie_store.read(cluster, bookie)
        except UnreadableError:
            stored = None
        where = None if stored is None else stored.cookie.location
        found.append(
            Bookie(id=bookie, location=where, registration=how, draining=bookie in draining)
        )
    return Topology(found)


async def _take_back(order: ResourceOrder, around: Obeying) -> None:
    bookie, word = order.bookie, _word(order, around)
    assert bookie is not None, "the format was checked"

    def decide(state: OrderState) -> OrderChange:
        if state.order is not None and state.order.kind is not OrderKind.DRAIN:
            raise RefusedError(
                f"another order about {bookie} was given meanwhile, to {state.order.kind} it; "
                "nothing was done"
            )
        taken = bookie_orders.taken_back(state.order, word)
        record = state.record
        if taken is not None and record is not None:
            record = order_records.draining(record, taken)
        return OrderChange(order=taken, record=record)

    await order_records.change(around.cluster, bookie, decide)
