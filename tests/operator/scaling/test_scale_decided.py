"""What a scale-down decides from one look: what is missing keeps what cannot come back."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pytest

from tests.operator.roll.rolling_world import cluster_of
from tests.operator.scaling import removing_world
from tests.operator.scaling.removing_world import RemovingWorld, built
from zonekeeper.metadata.bookies import order_records
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import Json
from zonekeeper.operator.plan.scaling import leaving, scaling
from zonekeeper.operator.plan.scaling.scale_memory import NotedClaim
from zonekeeper.operator.plan.scaling.scaling import DropClaim, ScaleProgress
from zonekeeper.operator.roll import rolling
from zonekeeper.operator.roots import removals
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.sight.holdings import Holdings
from zonekeeper.operator.sight.observed import Observed, VolumeClaim
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord

GONE = BookieId("log-a-2")
CLAIM = f"data-{GONE}"
WORD = OrderWord(at_ms=1, by="operator/logs/log", reason="fewer")
ORDER = BookieOrder(kind=OrderKind.REMOVE, token="1", given=WORD, incarnation=1)
EMPTIED = replace(ORDER, emptied_ms=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """A look at a cluster that was accepted with two bookies a zone."""

    desired: Desired
    observed: Observed
    root: RootFound

    def decide(self, **changes: object) -> ScaleProgress:
        observed = replace(self.observed, root=self.root)
        observed = replace(observed, **changes)  # type: ignore[arg-type]  # fields by name
        return scaling.decide(self.desired, observed, rolling.decide(self.desired, observed))


def noted(item: Json, *, uid: str = "1") -> Json:
    """Give a resource whose notes have the claim of the bookie."""
    leaves = {"bookie": GONE, "claims": [{"name": CLAIM, "uid": uid}]}
    told = {"phase": "Removing", "target": 2, "leaving": [leaves]}
    return item | {"status": item["status"] | {"scaling": told}}


async def removed() -> Sight:
    """Give a look at which the bookie was removed, and its volume is all that is left."""
    world = RemovingWorld(bookiesPerZone=2, storage={"size": "1Gi", "onScaleDown": "Delete"})
    await world.settle()
    seen, wanted = await world.look()
    assert isinstance(wanted, Desired)
    assert isinstance(seen.root, RootFound)
    claim = VolumeClaim(uid="1", instance=seen.root.instance)
    observed = replace(
        seen,
        resource=noted(seen.resource),
        claims={**seen.claims, CLAIM: claim},
        holdings=Holdings(asked=frozenset({GONE}), empty=frozenset({GONE}), asked_ms=1),
    )
    return Sight(desired=wanted, observed=observed, root=seen.root)


async def test_the_claim_goes_once_nothing_of_the_bookie_is_left_and_it_is_proven_empty() -> None:
    sight = await removed()
    drop = (DropClaim(NotedClaim(name=CLAIM, uid="1")),)
    pod = replace(sight.observed.pods[0], name=GONE)
    other = VolumeClaim(uid="2", instance=sight.root.instance)

    assert sight.decide().moves == drop
    assert sight.decide(pods=(*sight.observed.pods, pod)).moves == ()
    assert sight.decide(holdings=Holdings()).moves == ()
    registered = replace(sight.root, registered=sight.root.registered | {GONE})
    assert sight.decide(root=registered).moves == ()
    assert sight.decide(root=replace(sight.root, orders={GONE: ORDER})).moves == ()
    known = replace(sight.root, locations={**sight.root.locations, GONE: None})
    assert sight.decide(root=known).moves == ()
    assert sight.decide(claims={**sight.observed.claims, CLAIM: other}).moves == ()


@pytest.mark.parametrize(
    ("orders", "empty", "may_stop"),
    [
        ({GONE: EMPTIED}, {GONE}, True),
        ({GONE: EMPTIED}, set(), False),
        ({GONE: ORDER}, {GONE}, False),
        ({GONE: replace(EMPTIED, taken_back=WORD)}, {GONE}, False),
        ({GONE: replace(EMPTIED, kind=OrderKind.DRAIN)}, {GONE}, False),
        ({GONE: "a newer version wrote it"}, {GONE}, False),
        ({}, {GONE}, False),
    ],
)
async def test_a_bookie_stops_once_its_order_says_emptied_and_a_listing_of_ours_says_so_too(
    orders: Mapping[BookieId, BookieOrder | str], empty: set[BookieId], *, may_stop: bool
) -> None:
    sight = await removed()
    root = replace(sight.root, orders=orders, locations={**sight.root.locations, GONE: None})
    observed = replace(sight.observed, root=root, holdings=Holdings(empty=frozenset(empty)))

    assert leaving.may_stop(sight.desired, observed, GONE) is may_stop


async def test_only_claims_with_the_data_of_this_instance_are_noted() -> None:
    sight = await removed()
    root = replace(sight.root, orders={GONE: ORDER}, locations={**sight.root.locations, GONE: None})
    strange = {**sight.observed.claims, CLAIM: VolumeClaim(uid="1", instance="another")}

    (ours,) = sight.decide(root=root).notes.leaving
    (theirs,) = sight.decide(root=root, claims=strange).notes.leaving

    assert [one.name for one in ours.claims] == [CLAIM]
    assert theirs.claims == ()


async def test_an_order_is_taken_back_only_by_its_token() -> None:
    world = await built()
    world.is_repaired = False
    await removing_world.give(world, "log-a-2", by="ann")
    async with cluster_of(world) as cluster:
        for token, is_back in (("another", False), ("77", True)):
            await removals.take_back(cluster, GONE, token, WORD)
            order = await order_records.read(cluster, GONE)
            assert order is not None
            assert (order.taken_back is not None) is is_back


async def test_a_person_who_drains_the_bookie_that_goes_holds_no_order() -> None:
    world = await built()
    await removing_world.give(world, "log-a-2", by="ann", kind=OrderKind.DRAIN)
    await world.settle()

    await world.change(bookiesPerZone=2)
    await world.settle()

    assert await world.cookies() == removing_world.KEPT


async def test_an_order_about_a_bookie_below_another_one_does_not_stop_the_one_above() -> None:
    world = RemovingWorld(bookiesPerZone=4)
    await world.settle()
    await world.write_ledger("log-a-2", "log-b-2", "log-c-2")
    await removing_world.give(world, "log-a-2", by="ann")
    await world.settle()

    await world.change(bookiesPerZone=2)
    await world.settle()

    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    assert await world.cookies() == removing_world.KEPT
