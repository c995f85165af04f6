"""A zone that is left out: all its bookies are emptied, and its objects and its record go last."""

from tests.operator.roll import rolling_world
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.scaling import zoned_world
from tests.operator.scaling.removing_world import GoneWatch, RemovingWorld, plan_of, scaled
from tests.operator.scaling.test_scale_gates import write_closed_on
from tests.operator.scaling.zoned_world import DELETE, FOUR, OBJECTS_OF_D, REST, THREE, WHOLE
from zonekeeper.metadata.ledgers import ledger_listing
from zonekeeper.metadata.ledgers.ledgers import StoredLedger
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS
from zonekeeper.operator.plan import preflight, preflight_text
from zonekeeper.operator.roll.last_copies import LedgerCopies

GOING = ["log-d-1", "log-d-0"]


async def until_emptying(world: RemovingWorld, bookie: str) -> None:
    for _ in range(100):
        if bookie in await world.orders():
            return
        await world.turn()
        await world.controllers()
    raise AssertionError(f"{bookie} gets no order: {await world.scaling()}")


async def test_all_bookies_of_the_zone_go_and_then_its_objects_and_last_its_record() -> None:
    world = await zoned_world.four()
    before, watch = await rolling_world.uids(world), GoneWatch(world)
    seen: list[tuple[bool, bool, bool]] = []

    async def look() -> None:
        await watch.look()
        has_cookies = not {*GOING}.isdisjoint(await world.cookies())
        objects = bool(OBJECTS_OF_D & await zoned_world.zone_objects(world))
        seen.append((has_cookies, objects, "d" in await zoned_world.recorded_zones(world)))

    await world.change(zones=THREE)
    await world.settle(after_turn=look)

    assert watch.gone == [(what, one) for one in GOING for what in ("pod", "cookie", "claim")]
    assert await world.cookies() == REST == {*await world.claims()}
    assert await world.named() <= REST
    assert await zoned_world.named_zones(world) == "abc"
    assert not OBJECTS_OF_D & await zoned_world.zone_objects(world)
    assert await zoned_world.recorded_zones(world) == "abc"
    assert all(objects and record for has, objects, record in seen if has)
    assert all(record for _, objects, record in seen if objects)
    assert await rolling_world.uids(world) == {name: before[name] for name in REST}
    assert await world.scaling() == {}
    assert await scaled(world) == ("True", "Scaled")
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    picture = await world.picture()
    await world.turn()
    assert await world.picture() == picture, "at rest there is no write"


async def test_no_bookie_gets_its_order_before_the_policy_has_left_the_zone_out() -> None:
    world = await zoned_world.four()
    await world.change(zones=THREE)
    for _ in range(40):
        await world.turn()
        if await world.orders():
            assert await zoned_world.named_zones(world) == "abc"
            return
        await world.controllers()
    raise AssertionError("no order is given")


async def test_a_zone_that_is_named_again_half_way_is_back_and_nothing_is_deleted() -> None:
    world = await zoned_world.four()
    before, watch = await rolling_world.uids(world), GoneWatch(world)
    world.held_by = "zoneHeld: a drill"
    await world.change(zones=THREE)
    await until_emptying(world, "log-d-1")
    assert plan_of(await world.scaling()) == GOING

    await world.change(zones=FOUR)
    await world.settle(after_turn=watch.look)

    assert watch.gone == []
    assert await world.orders() == {}
    assert await world.cookies() == WHOLE == {*await world.claims()}
    assert await rolling_world.uids(world) == before
    assert await zoned_world.named_zones(world) == "abcd"
    assert world.refusing == set()
    assert await world.scaling() == {}


async def test_named_again_after_one_bookie_went_it_is_made_anew() -> None:
    world = await zoned_world.four()
    await world.change(zones=THREE)
    while "log-d-1" in await world.cookies():
        await world.turn()
        await world.controllers()

    await world.change(zones=FOUR)
    await world.settle()

    assert await world.cookies() == WHOLE
    assert await zoned_world.named_zones(world) == "abcd"
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


async def test_without_room_in_the_zones_that_stay_the_zone_stays_named_and_numbers_are_told() -> (
    None
):
    world = await zoned_world.four()
    for number in range(2):
        for zone in "abc":
            await write_closed_on(world, 900, f"log-{zone}-{number}")
        await write_closed_on(world, 100, f"log-d-{number}")
    await world.change(zones=THREE)
    await world.settle()

    assert await world.orders() == {}
    assert await zoned_world.named_zones(world) == "abcd"
    assert await scaled(world) == ("False", "RemovalWaits")
    said, free = await world.message("Scaled"), 2 * ((124 << 20) - (1 << 30) // 10)
    assert f"no room: zone d holds {200 << 20} bytes of closed ledgers" in said
    assert f"{3 * free} bytes free (a: {free}, b: {free}, c: {free})" in said


async def test_too_few_zones_for_the_policy_are_refused_with_numbers() -> None:
    world = RemovingWorld(bookiesPerZone=2)
    await world.settle()
    await world.write_ledger("log-a-0", "log-b-0", "log-c-0")

    await world.change(zones=[{"name": "a"}, {"name": "b"}])
    await world.settle()

    assert (await world.conditions())["Legal"][0] == "False"
    assert "placement.minZones" in await world.message("Legal")
    assert await world.orders() == {}
    assert await zoned_world.named_zones(world) == "abc"


async def test_zones_without_which_a_ledger_could_not_be_created_are_refused_with_numbers() -> None:
    world = await zoned_world.four(policy={"quorums": {"ensemble": 6}})

    await world.change(zones=THREE)
    await world.settle()

    said = await world.message("Legal")
    assert (await world.conditions())["Legal"] == ("False", "Blocked"), said
    assert "spec.zones: without d there are 3 zones (a, b, c), and while " in said
    assert await zoned_world.named_zones(world) == "abcd"
    assert await world.orders() == {}


async def test_a_pause_holds_the_whole_zone() -> None:
    world = await zoned_world.four()
    await world.change(zones=THREE, scaleDown={"paused": True})
    await world.settle()

    assert await world.orders() == {}
    assert await zoned_world.named_zones(world) == "abcd"
    assert "spec.scaleDown.paused is true: zone d stays named" in await world.message("Scaled")
    await world.change(scaleDown={"paused": False})
    await world.settle()
    assert await world.cookies() == REST


async def test_an_operator_that_lost_its_notes_deletes_nothing_of_the_zone() -> None:
    world = await zoned_world.four()
    await world.change(zones=THREE)
    await until_emptying(world, "log-d-1")
    world.is_repaired = False
    found = await world.get()
    del found["status"]["scaling"]
    world.kubernetes.put(BOOKIE_CLUSTERS, found)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert await zoned_world.zone_objects(world) >= OBJECTS_OF_D
    assert {*await world.claims()} == WHOLE


async def copies(world: RemovingWorld) -> LedgerCopies:
    found = LedgerCopies()
    async with cluster_of(world) as cluster:
        async for one in ledger_listing.all_of(cluster):
            assert isinstance(one, StoredLedger)
            found.add(one.id, one.metadata)
    return found


async def test_the_preflight_has_one_price_for_the_zone() -> None:
    world = await zoned_world.four(scaleDown={"paused": True})
    for number in range(2):
        await write_closed_on(world, 3, f"log-d-{number}")
    await world.change(zones=THREE)
    seen, wanted = await world.look()
    assert isinstance(wanted, Desired)

    found = preflight.of(wanted, seen, await copies(world))

    assert [one.bookie for one in found.removals] == GOING
    assert (found.zones, found.moved_bytes) == (("d",), 6 << 20)
    removed = {one.name for one in found.changes if one.what == "removed"}
    assert removed == OBJECTS_OF_D
    told = "\n".join(preflight_text.lines(found))
    assert f"in all, {6 << 20} bytes are copied; zone d leaves, and the others take it" in told
    assert preflight_text.plain(found)["movedBytes"] == 6 << 20


async def test_volumes_of_a_zone_that_leaves_are_left_where_the_resource_says_so() -> None:
    world = await zoned_world.four(storage={**DELETE, "onScaleDown": "Retain"})
    await world.change(zones=THREE)
    await world.settle()

    assert await world.cookies() == REST
    assert {*await world.claims()} == WHOLE
    assert await zoned_world.recorded_zones(world) == "abc"


async def test_the_zone_is_noted_until_its_record_is_gone_too() -> None:
    world = await zoned_world.four()
    await world.change(zones=THREE)
    for _ in range(200):
        if not OBJECTS_OF_D & await zoned_world.zone_objects(world):
            break
        await world.turn()
        await world.controllers()

    assert await zoned_world.recorded_zones(world) == "abcd"
    assert (await world.plan()).status["scaling"]["zones"] == ["d"]
