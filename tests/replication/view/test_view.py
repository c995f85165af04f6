"""One process's view: complete before it answers, and everything unknown holds."""

import asyncio
import dataclasses

import pytest

from tests.replication.gate_world import MINUTE, SECOND, A, B, GateWorld, members, played
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster import policy_store, repair_controls
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.placement.base.ids import UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.topology import Registration
from zonekeeper.placement.zones.losses import HeldBy
from zonekeeper.replication.view import view as views
from zonekeeper.replication.view.view import View


def by(world: GateWorld, where: Location | None) -> HeldBy | None:
    held = world.observer.what_holds(where)
    return None if held is None else held.by


UNIT = Location(A, UpgradeDomain("ud-0"))


@played(watched=False)
async def test_before_the_first_complete_look_nobody_is_answered(world: GateWorld) -> None:
    store = world.open()
    await policy_store.read(world.cluster)
    path = world.cluster.root.beside("policy")
    policy = await world.put(path, None)
    view = View(Cluster(store, world.cluster.root, world.cluster.instance))
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(view.follow())
        await world.wait(10 * MINUTE)
        assert view.looks == 0
        await world.put(path, policy)
        await view.known()
        assert len(view.topology) == 12
        following.cancel()


@played()
async def test_what_is_well_holds_nothing_and_a_reader_is_woken_by_every_look(
    world: GateWorld,
) -> None:
    assert by(world, UNIT) is None
    assert by(world, None) is None
    assert world.observer.what_holds_zone(A) is None
    looks = world.observer.looks
    waiting = world.tasks.create_task(world.observer.changed(looks))
    await world.lose(members(A, 0))
    assert await waiting > looks
    assert dict(world.observer.missing) == {"a-0": UNIT}
    bookie = world.observer.topology.get(members(A, 0)[0])
    assert bookie is not None
    assert bookie.registration is Registration.ABSENT


@played()
async def test_the_switch_and_a_missing_record_hold(world: GateWorld) -> None:
    await repair_controls.set_enabled(world.cluster, enabled=False)
    await world.wait(SECOND)
    assert by(world, UNIT) is HeldBy.REPLICATION_DISABLED
    await repair_controls.set_enabled(world.cluster, enabled=True)
    await world.watches[0].kill()
    await world.put(world.cluster.root.gate(A), None)
    await world.wait(SECOND)
    assert by(world, UNIT) is HeldBy.NO_RECORD
    assert by(world, Location(B, UpgradeDomain("ud-0"))) is None
    assert by(world, None) is HeldBy.NO_RECORD


@played()
async def test_a_record_under_another_zones_name_counts_as_unreadable(world: GateWorld) -> None:
    await world.watches[0].kill()
    other = await world.cluster.store.get(world.cluster.root.gate(B))
    assert other is not None
    await world.put(world.cluster.root.gate(A), other.value)
    await world.wait(SECOND)
    assert by(world, UNIT) is HeldBy.NO_RECORD
    assert world.observer.unreadable == ("zones/a",)


@played()
async def test_maintenance_that_cannot_be_read_covers_every_unit_it_may_mean(
    world: GateWorld,
) -> None:
    await world.put(world.cluster.root.beside("maintenance/a.ud-0"), b"{")
    await world.wait(SECOND)
    assert by(world, UNIT) is HeldBy.IN_MAINTENANCE
    assert by(world, Location(A, UpgradeDomain("ud-1"))) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a.ud-0", {("a", "ud-0")}),
        ("eu.west.ud-0", {("eu", "west.ud-0"), ("eu.west", "ud-0")}),
        ("a", set()),
        ("a.", set()),
    ],
)
def test_a_name_may_mean_more_than_one_unit(name: str, expected: set[tuple[str, str]]) -> None:
    units = {Location(ZoneName(zone), UpgradeDomain(domain)) for zone, domain in expected}
    assert views.units_named(name) == units


@played()
async def test_the_last_good_policy_stays_in_force(world: GateWorld) -> None:
    before = world.observer.policy
    path = world.cluster.root.beside("policy")
    good = await world.put(path, b"{")
    await world.wait(MINUTE)
    assert world.observer.policy == before
    await world.put(path, None)
    await world.wait(MINUTE)
    assert world.observer.policy == before
    await world.put(path, good)
    repair = dataclasses.replace(before.repair, respread=False)
    wanted = dataclasses.replace(before, repair=repair)
    await policy_store.write(world.cluster, wanted, replaces=1)
    await world.wait(SECOND)
    assert not world.observer.policy.repair.respread


@played(watched=False)
async def test_who_is_written_off_is_known(world: GateWorld) -> None:
    (bookie,) = members(A, 0)
    mark = Mark(at_ms=1, by="auditor", reason="repaired")
    await bookie_records.write_off(world.cluster, bookie, mark)
    await world.wait(SECOND)
    assert world.observer.written_off == {bookie}


@played()
async def test_while_the_store_is_out_of_reach_nothing_is_permitted(world: GateWorld) -> None:
    world.observer_store.cut()
    await world.wait(SECOND)
    assert by(world, UNIT) is HeldBy.NOT_WATCHED
    world.observer_store.mend()
    await world.wait(0)
    assert by(world, UNIT) is HeldBy.NOT_WATCHED
    await world.wait(MINUTE)
    assert by(world, UNIT) is None
