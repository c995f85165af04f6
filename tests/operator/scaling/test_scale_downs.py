"""Fewer bookies by an edit: emptied one after the other, stopped, forgotten; or taken back."""

from dataclasses import replace

import pytest

from tests.operator.resources import KEY, SPACE
from tests.operator.roll import rolling_world
from tests.operator.roll.rolling_world import cluster_of
from tests.operator.scaling import removing_world
from tests.operator.scaling.removing_world import (
    KEPT,
    GoneWatch,
    RemovingWorld,
    built,
    plan_of,
    scaled,
)
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.formats import ledger_paths
from zonekeeper.metadata.store.store import MetadataStore
from zonekeeper.metadata.stores.memory import MemoryStore
from zonekeeper.operator.cluster.desired import Desired
from zonekeeper.operator.definition import crd
from zonekeeper.operator.kubernetes.api import BOOKIE_CLUSTERS, CLAIMS, LEFT_LABEL, PODS, Json
from zonekeeper.operator.plan.scaling import leaving
from zonekeeper.operator.roots.roots import RootFound
from zonekeeper.operator.run.reconciling import Reconciler
from zonekeeper.placement.base.ids import BookieId

GOING = ["log-a-2", "log-b-2", "log-c-2"]


async def until_emptying(world: RemovingWorld, bookie: str) -> None:
    """Let all work until a bookie has its order."""
    for _ in range(100):
        if bookie in await world.orders():
            return
        await world.turn()
        await world.controllers()
    raise AssertionError(f"{bookie} gets no order: {await world.scaling()}")


@pytest.mark.parametrize("policy", ["Retain", "Delete"])
async def test_bookies_with_data_go_one_after_the_other_and_cookie_and_volume_go_last(
    policy: str,
) -> None:
    world = await built(storage={"size": "1Gi", "onScaleDown": policy})
    before = await rolling_world.uids(world)
    watch = GoneWatch(world)

    await world.change(bookiesPerZone=2)
    await world.settle(after_turn=watch.look)

    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    assert await world.cookies() == KEPT
    assert await world.named() == KEPT
    assert await world.orders() == {}
    last = ["claim"] if policy == "Delete" else []
    assert watch.gone == [(what, one) for one in GOING for what in ("pod", "cookie", *last)]
    after = await rolling_world.uids(world)
    assert after == {name: before[name] for name in KEPT}, "no bookie that stays was restarted"
    assert await world.scaling() == {}
    assert await scaled(world) == ("True", "Scaled")
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    left = {one for one, item in (await world.claims()).items() if LEFT_LABEL in _labels(item)}
    assert left == (set() if policy == "Delete" else {*GOING})
    assert {*await world.claims()} == KEPT | left


def _labels(item: Json) -> Json:
    found: Json = item["metadata"]["labels"]
    return found


async def test_the_highest_ordinal_goes_first_as_a_number_and_the_zones_take_turns() -> None:
    world = RemovingWorld(bookiesPerZone=11)
    await world.settle()
    await world.write_ledger("log-a-10", "log-b-10", "log-c-10")
    await world.write_ledger("log-a-9", "log-b-9", "log-c-9")

    await world.change(bookiesPerZone=9, scaleDown={"paused": True})
    await world.settle()

    order = [f"log-{zone}-{number}" for number in (10, 9) for zone in "abc"]
    assert plan_of(await world.scaling()) == order
    assert await world.orders() == {}


async def test_a_number_that_is_raised_again_takes_the_order_back_and_deletes_nothing() -> None:
    world = await built(storage={"size": "1Gi", "onScaleDown": "Delete"})
    before, claims = await rolling_world.uids(world), {*await world.claims()}
    watch = GoneWatch(world)
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")

    await world.change(bookiesPerZone=3)
    await world.settle(after_turn=watch.look)

    assert watch.gone == []
    assert await world.orders() == {}
    assert (await rolling_world.uids(world), {*await world.claims()}) == (before, claims)
    assert world.refusing == set(), "what the order made read-only is writable again"
    async with cluster_of(world) as cluster:
        record = await bookie_records.read(cluster, BookieId("log-a-2"))
    assert record.draining is None
    assert await world.scaling() == {}


async def test_a_bookie_that_was_stopped_and_not_forgotten_comes_back_with_its_volume() -> None:
    world = await built(storage={"size": "1Gi", "onScaleDown": "Delete"})
    world.sessions_linger = True  # so it is not forgotten yet
    claims = {name: item["metadata"]["uid"] for name, item in (await world.claims()).items()}
    await world.change(bookiesPerZone=2)
    while (await world.replicas())["a"] == 3:
        await world.turn()
        await world.controllers()

    await world.change(bookiesPerZone=3)
    world.sessions_linger = False
    await world.settle()

    assert await world.replicas() == {"a": 3, "b": 3, "c": 3}
    found = {name: item["metadata"]["uid"] for name, item in (await world.claims()).items()}
    assert found == claims
    assert (await world.conditions())["Ready"] == ("True", "AllReady")
    assert await world.orders() == {}


async def test_raised_just_after_the_bookie_was_forgotten_its_old_volume_goes_first() -> None:
    world = await built(storage={"size": "1Gi", "onScaleDown": "Delete"})
    before = (await world.claims())["log-a-2"]["metadata"]["uid"]
    await world.change(bookiesPerZone=2)
    while "log-a-2" in await world.cookies():
        await world.turn()
        await world.controllers()

    await world.change(bookiesPerZone=3)
    await world.settle()

    assert (await world.claims())["log-a-2"]["metadata"]["uid"] != before
    assert (await world.conditions())["Ready"] == ("True", "AllReady")


async def test_on_a_volume_that_was_left_no_other_bookie_is_started_and_the_way_is_told() -> None:
    world = await built()
    await world.change(bookiesPerZone=2)
    await world.settle()

    await world.change(bookiesPerZone=3)
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    said = await world.message("Legal")
    assert "delete the claims data-log-a-2, or set it to 2" in said
    assert await world.replicas() == {"a": 2, "b": 2, "c": 2}
    for name in GOING:
        world.kubernetes.mark_deleted(CLAIMS, SPACE, f"data-{name}")
    await world.settle()
    assert await world.replicas() == {"a": 3, "b": 3, "c": 3}


async def test_a_victim_that_dies_while_it_is_emptied_is_removed_all_the_same() -> None:
    world = await built()
    watch = GoneWatch(world)
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")
    world.broken.add("zonekeeper:0.1.0")  # its pod never becomes ready again
    world.kubernetes.mark_deleted(PODS, SPACE, "log-a-2")
    await world.controllers()
    world.broken.clear()
    assert "log-a-2" not in world.registered

    await world.settle(after_turn=watch.look)

    assert await world.cookies() == KEPT
    assert [one for what, one in watch.gone if what == "pod"] == GOING


async def test_a_pause_holds_the_next_order_and_not_the_one_that_stands() -> None:
    world = await built()
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")

    await world.change(scaleDown={"paused": True})
    await world.settle()

    assert await world.replicas() == {"a": 2, "b": 3, "c": 3}
    assert await world.orders() == {}
    assert await scaled(world) == ("False", "RemovalWaits")
    assert "spec.scaleDown.paused is true" in await world.message("Scaled")
    assert plan_of(await world.scaling()) == GOING[1:]

    await world.change(scaleDown={"paused": False})
    await world.settle()
    assert await world.cookies() == KEPT


async def test_while_the_operator_is_paused_no_order_is_given_or_taken_back() -> None:
    world = await built()
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")
    await world.change(bookiesPerZone=3, paused=True)
    await world.settle()
    assert (await world.orders())["log-a-2"].taken_back is None

    await world.change(bookiesPerZone=3, paused=False)
    await world.settle()
    assert await world.orders() == {}


async def test_an_order_that_a_person_took_back_is_given_again_while_the_resource_asks() -> None:
    world = await built()
    world.is_repaired = False
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")
    token = (await world.orders())["log-a-2"].token
    await removing_world.take_back(world, "log-a-2", by="ann")
    await world.settle()
    assert (await world.orders())["log-a-2"].token != token


async def test_the_order_of_a_person_about_a_bookie_that_is_asked_for_is_left_alone() -> None:
    world = await built()
    await removing_world.give(world, "log-a-1", by="ann")
    world.is_repaired = False
    await world.settle()

    assert (await world.orders())["log-a-1"].taken_back is None
    await world.change(bookiesPerZone=2)
    await world.settle()
    assert {*await world.orders()} == {"log-a-1"}
    assert "draining: log-a-1" in await world.message("Scaled")


async def test_an_order_that_a_person_gave_about_the_victim_is_followed() -> None:
    world = await built()
    await removing_world.give(world, "log-c-2", by="ann")
    watch = GoneWatch(world)

    await world.change(bookiesPerZone=2)
    await world.settle(after_turn=watch.look)

    assert await world.cookies() == KEPT
    assert [one for what, one in watch.gone if what == "pod"] == ["log-c-2", "log-a-2", "log-b-2"]


async def test_what_the_order_waits_for_is_told_with_its_reason() -> None:
    world = await built()
    world.held_by = "zoneHeld: a drill"
    await world.change(bookiesPerZone=2)
    await world.settle()

    assert await scaled(world) == ("False", "RemovalStuck")
    said = await world.message("Scaled")
    assert said.startswith("log-a-2: waiting for the gate: zoneHeld: a drill")
    assert await world.replicas() == {"a": 3, "b": 3, "c": 3}
    assert (await world.scaling())["phase"] == "Stuck"
    world.held_by = ""
    await world.settle()
    assert await world.cookies() == KEPT


async def test_without_a_process_that_takes_the_order_up_that_is_told() -> None:
    world = await built()
    world.is_repaired = False
    await world.change(bookiesPerZone=2)
    await world.settle()

    assert await scaled(world) == ("False", "Removing")
    assert "no autorecovery process has taken up the order" in await world.message("Scaled")
    assert {*await world.orders()} == {"log-a-2"}


async def test_a_ledger_that_cannot_be_read_keeps_the_bookie_and_is_told() -> None:
    world = await built()
    ledger = await world.write_ledger("log-a-0", "log-b-0", "log-c-0")
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")
    async with cluster_of(world) as cluster:
        path = f"{cluster.root.path}{ledger_paths.path(ledger)}"
        found = await cluster.store.get(path, sync=True)
        assert found is not None
        await cluster.store.put(path, b"torn", version=found.version)
    await world.settle()

    assert await scaled(world) == ("False", "RemovalStuck")
    assert "ledgers cannot be read, and may name log-a-2" in await world.message("Scaled")
    assert await world.replicas() == {"a": 3, "b": 3, "c": 3}


async def test_a_roll_that_is_under_way_goes_first_and_one_that_comes_waits() -> None:
    world = await built(image="zonekeeper:1")
    await world.change(image="zonekeeper:2")
    while not (await rolling_world.roll(world)).get("step"):
        await world.turn()
        await world.controllers()
    await world.change(bookiesPerZone=2)
    away: list[int] = []

    async def look() -> None:
        is_rolling = (await rolling_world.roll(world)).get("step") is not None
        away.append(is_rolling + bool(await world.draining()))
        if await world.draining() and not away.count(-1):
            away.append(-1)
            await world.change(image="zonekeeper:3")

    await world.settle(after_turn=look)

    assert max(away) == 1
    assert -1 in away
    assert await world.cookies() == KEPT
    assert {*(await rolling_world.images(world)).values()} == {"zonekeeper:3"}


async def test_a_bookie_that_is_not_asked_for_makes_up_for_none_that_is() -> None:
    world = await built()
    world.is_repaired = False
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")
    world.broken.add("zonekeeper:0.1.0")
    world.kubernetes.mark_deleted(PODS, SPACE, "log-a-0")
    await world.controllers()
    await world.turn()

    zones = {one["name"]: one["ready"] for one in (await world.get())["status"]["zones"]}
    assert zones == {"a": 1, "b": 2, "c": 2}


async def test_the_scale_of_the_resource_is_what_a_zone_runs() -> None:
    (version,) = crd.definition()["spec"]["versions"]
    paths = version["subresources"]["scale"]
    world = await built()

    assert paths == {
        "specReplicasPath": ".spec.bookiesPerZone",
        "statusReplicasPath": ".status.bookiesPerZone",
    }
    assert (await world.get())["status"]["bookiesPerZone"] == 3


async def test_a_number_between_goes_on_with_what_was_accepted_and_a_lower_one_is_judged() -> None:
    world = RemovingWorld(bookiesPerZone=4)
    await world.settle()
    for number in range(4):
        await world.write_ledger(*(f"log-{zone}-{number}" for zone in "abc"))
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-3")

    await world.change(bookiesPerZone=3)
    await world.settle()
    assert await world.replicas() == {"a": 3, "b": 3, "c": 3}
    await world.change(bookiesPerZone=1)
    await world.settle()
    assert (await world.conditions())["Legal"] == ("False", "Blocked")
    assert await world.replicas() == {"a": 3, "b": 3, "c": 3}


async def test_an_illegal_edit_does_not_stop_what_was_accepted() -> None:
    world = await built()
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")

    await world.change(policy={"quorums": {"ack": 4}})
    await world.settle()

    assert (await world.conditions())["Legal"] == ("False", "Refused")
    assert await world.cookies() == KEPT


async def test_notes_that_are_lost_delete_no_volume() -> None:
    world = await built(storage={"size": "1Gi", "onScaleDown": "Delete"})
    await world.change(bookiesPerZone=2)
    while "log-a-2" in await world.cookies():
        await world.turn()
        await world.controllers()
    found = await world.get()
    del found["status"]["scaling"]["leaving"]
    world.kubernetes.put(BOOKIE_CLUSTERS, found)
    await world.settle()

    assert {*await world.claims()} == KEPT | {"log-a-2"}


class TornStore(MemoryStore):
    """A store in which a bookie is forgotten just before the cookies are read, or just after."""

    def __init__(self, world: RemovingWorld, root: str, *, is_before: bool) -> None:
        super().__init__(world.server, root=root)
        self._world = world
        self._is_before = is_before

    async def children(self, path: str, *, sync: bool = False) -> tuple[str, ...] | None:
        is_meant = path.endswith("/cookies")
        if is_meant and self._is_before:
            await self._forget()
        found = await super().children(path, sync=sync)
        if is_meant and not self._is_before:
            await self._forget()
        return found

    async def _forget(self) -> None:
        self._world.is_repaired = True
        await self._world.carry_out()
        self._world.is_repaired = False


@pytest.mark.parametrize("is_before", [True, False])
async def test_a_bookie_that_is_forgotten_in_the_midst_of_a_look_keeps_its_note(
    *, is_before: bool
) -> None:
    world = await built(storage={"size": "1Gi", "onScaleDown": "Delete"})
    await world.change(bookiesPerZone=2)
    while (await world.replicas())["a"] == 3:
        await world.controllers()
        await world.turn()
    world.is_repaired = False
    await world.controllers()  # the bookie is registered no more, and is not forgotten
    assert "log-a-2" in await world.cookies()

    async def torn(address: str) -> MetadataStore:
        return TornStore(world, world.root_of(address), is_before=is_before)

    await world.reconciler.close()
    world.reconciler = Reconciler(replace(world.surroundings(), opener=torn), KEY)
    while "log-a-2" in await world.cookies():
        await world.turn()
    assert [one["bookie"] for one in (await world.scaling())["leaving"]] == ["log-a-2"]
    world.is_repaired = True
    await world.reconciler.close()
    world.reconciler = world.new_operator()
    await world.settle()

    assert {*await world.claims()} == KEPT


async def test_a_claim_that_was_made_anew_is_not_the_one_that_was_noted() -> None:
    world = await built(storage={"size": "1Gi", "onScaleDown": "Delete"})
    world.is_repaired = False
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")
    await world.turn()
    world.is_repaired = True
    while "log-a-2" in await world.cookies():
        await world.turn()
        await world.controllers()
    (old,) = [one for name, one in (await world.claims()).items() if name == "log-a-2"]
    world.kubernetes.mark_deleted(CLAIMS, SPACE, "data-log-a-2")
    again = {**old, "metadata": {**old["metadata"], "uid": "another"}}
    world.kubernetes.put(CLAIMS, again)
    await world.settle()

    assert (await world.claims())["log-a-2"]["metadata"]["uid"] == "another"


async def test_each_listing_is_asked_for_once_and_not_while_a_bookie_is_emptied() -> None:
    world = await built()
    world.held_by = "zoneHeld: a drill"
    await world.change(bookiesPerZone=2)
    await until_emptying(world, "log-a-2")
    await world.turn()
    seen, wanted = await world.look()
    assert isinstance(wanted, Desired)
    assert isinstance(seen.root, RootFound)

    assert leaving.to_be_listed(wanted, seen, seen.root) == frozenset()
