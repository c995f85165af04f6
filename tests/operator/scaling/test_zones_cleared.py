"""What keeps the objects of a zone that leaves, and then its record: each thing that is left."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.operator.resources import NAME
from tests.operator.roll import rolling_world
from tests.operator.scaling import zoned_world
from tests.operator.scaling.removing_world import RemovingWorld
from tests.operator.scaling.zoned_world import OBJECTS_OF_D, THREE
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import DEPLOYMENTS, STATEFUL_SETS, Json
from zonekeeper.operator.plan import planning
from zonekeeper.operator.plan.keeping import taken_back
from zonekeeper.operator.plan.plans import RemoveZoneRecord
from zonekeeper.operator.plan.scaling import leaving, scale_gates, scaling
from zonekeeper.operator.roll import rolling
from zonekeeper.operator.roots.roots import RootChangedError, RootFound, Roots
from zonekeeper.operator.sight.ledger_sight import FragmentKinds, LedgerSight
from zonekeeper.operator.sight.observed import Observed
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.bookie_orders import BookieOrder, OrderKind, OrderWord

D, LAST = ZoneName("d"), BookieId(f"{NAME}-d-0")
ORDER = BookieOrder(
    kind=OrderKind.REMOVE,
    token="t",
    given=OrderWord(at_ms=1, by="ann", reason="a bad disk"),
    incarnation=None,
)


async def cleared() -> tuple[RemovingWorld, Desired, Observed]:
    """Give what is seen once nothing is left of the bookies of zone d."""
    world = await zoned_world.four()
    await world.change(zones=THREE)
    for _ in range(200):
        seen, wanted = await world.look()
        assert isinstance(wanted, Desired)
        if leaving.zones_going(wanted, seen) and leaving.is_cleared(wanted, seen, D):
            assert await zoned_world.zone_objects(world) >= OBJECTS_OF_D
            return world, wanted, seen
        await world.turn()
        await world.controllers()
    raise AssertionError("it is never cleared")


def _root(seen: Observed) -> RootFound:
    assert isinstance(seen.root, RootFound)
    return seen.root


def _a_pod(seen: Observed) -> Observed:
    return replace(seen, pods=(*seen.pods, replace(seen.pods[0], name=LAST, zone=D)))


def _a_cookie(seen: Observed) -> Observed:
    at = Location(D, UpgradeDomain("0"))
    root = _root(seen)
    return replace(seen, root=replace(root, locations={**root.locations, LAST: at}))


def _a_registration(seen: Observed) -> Observed:
    return replace(seen, root=replace(_root(seen), registered=_root(seen).registered | {LAST}))


def _an_order(seen: Observed) -> Observed:
    return replace(seen, root=replace(_root(seen), orders={LAST: ORDER}))


def _a_noted_claim(seen: Observed) -> Observed:
    noted = {"bookie": LAST, "claims": [{"name": f"data-{LAST}", "uid": "uid-1"}]}
    status: Json = seen.status | {"scaling": {"zones": ["d"], "leaving": [noted]}}
    return replace(seen, resource=seen.resource | {"status": status})


def _a_replica(seen: Observed) -> Observed:
    found = seen.owned[STATEFUL_SETS.plural, f"{NAME}-d"]
    one = found | {"spec": found["spec"] | {"replicas": 1}}
    return replace(seen, owned={**seen.owned, (STATEFUL_SETS.plural, f"{NAME}-d"): one})


@pytest.mark.parametrize(
    "left", [_a_pod, _a_cookie, _a_registration, _an_order, _a_noted_claim, _a_replica]
)
async def test_whatever_is_left_of_a_bookie_keeps_the_objects_and_the_record(
    left: Callable[[Observed], Observed],
) -> None:
    _, wanted, seen = await cleared()
    assert {one.name for one in taken_back.removals(planning.case_of(wanted, seen))} == OBJECTS_OF_D

    seen = left(seen)

    case = planning.case_of(wanted, seen)
    assert not leaving.is_cleared(wanted, seen, D)
    assert {one.name for one in taken_back.removals(case)}.isdisjoint(OBJECTS_OF_D)
    acts = getattr(taken_back.stage(case), "actions", ())
    assert not [one for one in acts if isinstance(one, RemoveZoneRecord)]


@pytest.mark.parametrize("kind", [STATEFUL_SETS, DEPLOYMENTS])
async def test_a_zone_is_noted_as_long_as_one_of_its_objects_or_its_record_is_there(
    kind: object,
) -> None:
    _, wanted, seen = await cleared()
    root = _root(seen)
    assert root.work is not None
    stays = {
        key: one
        for key, one in seen.owned.items()
        if key[1] not in OBJECTS_OF_D or key[0] == getattr(kind, "plural", "")
    }
    bare = replace(root, work=replace(root.work, zone_records=frozenset()))
    one_left = replace(seen, owned=stays, root=bare)
    none_left = replace(
        one_left, owned={key: one for key, one in stays.items() if key[1] not in OBJECTS_OF_D}
    )
    unread = replace(none_left, root=replace(bare, work=None))

    def noted(now: Observed) -> tuple[ZoneName, ...]:
        return scaling.decide(wanted, now, rolling.decide(wanted, now)).notes.zones

    assert noted(one_left) == (D,)
    assert noted(replace(none_left, root=root)) == (D,), "its record is there"
    assert noted(unread) == (D,)
    assert noted(none_left) == ()


async def test_the_record_of_a_zone_that_the_policy_names_is_not_removed() -> None:
    """The operator's look may be old: the zone was named again since."""
    world = await zoned_world.four()
    root = Roots(world.open_for_operator)
    async with rolling_world.cluster_of(world) as cluster:
        policy = await policy_store.read(cluster)
    assert policy is not None
    assert policy.instance
    try:
        with pytest.raises(RootChangedError, match="names zone d"):
            await root.remove_zone(await world.address(), D, instance=policy.instance)
    finally:
        await root.close()
    assert await zoned_world.recorded_zones(world) == "abcd"


async def test_bookies_that_take_no_writes_have_no_room_for_a_zone_that_leaves() -> None:
    world = await zoned_world.four()
    await world.change(zones=THREE)
    seen, wanted = await world.look()
    assert isinstance(wanted, Desired)
    kinds = FragmentKinds()
    kinds.held_bytes[LAST] = 1
    seen = replace(seen, ledgers=LedgerSight(basis=None, kinds=kinds))
    assert list(scale_gates.zone_room(wanted, seen, D)) == []

    full = replace(seen, root=replace(_root(seen), read_only=_root(seen).registered))

    (told,) = scale_gates.zone_room(wanted, full, D)
    assert "zone d holds 1 bytes" in told
    assert "have 0 bytes free (a: 0, b: 0, c: 0)" in told
