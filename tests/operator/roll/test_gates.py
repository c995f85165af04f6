"""A step waits for named gates, all are told, and for each of them something ends the wait."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from tests.operator.resources import SPACE
from tests.operator.roll import rolling_world
from tests.operator.roll.rolling_world import NEW, OLD, UnitsAway, cluster_of
from tests.operator.roll.test_rolls import built, until_step
from tests.operator.worlds import World
from tests.support.checkout_root import ROOT
from zonekeeper.metadata.bookies import bookie_records
from zonekeeper.metadata.bookies.bookie_records import Mark
from zonekeeper.metadata.cluster import zone_store
from zonekeeper.metadata.ledgers import ledgers, underreplication
from zonekeeper.metadata.ledgers.deletions import Deleter
from zonekeeper.metadata.store.layout import Root
from zonekeeper.operator.kubernetes.api import EVENTS, PODS
from zonekeeper.operator.roll.gates import RollGate
from zonekeeper.operator.run.ledger_reading import ANEW_AFTER_MS
from zonekeeper.placement.base.ids import BookieId, LedgerId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.zones.gate import Person, Token
from zonekeeper.placement.zones.maintenance import Maintenance

_Change = Callable[[World], Awaitable[None]]
_C_1 = BookieId("log-c-1")
_MARK = Mark(at_ms=1, by="ann", reason="a drill")
_FOREIGN = Maintenance(
    unit=Location(ZoneName("b"), UpgradeDomain("ud-0")),
    token=Token("7"),
    declared_by=Person(name="ann", reason="a new disk"),
    lasts_ms=3_600_000,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindrance:
    """What makes a gate wait, and what ends the wait."""

    gate: RollGate
    begin: _Change
    end: _Change
    #: Part of what is said.
    told: str


async def stop_c(world: World) -> None:
    """Stop a bookie of zone c; its pod runs what its StatefulSet says, and is not ready."""
    pod = (await rolling_world.bookies(world))[_C_1]
    world.kubernetes.put(PODS, pod | {"metadata": pod["metadata"] | {"finalizers": ["held"]}})
    world.kubernetes.mark_deleted(PODS, SPACE, _C_1)
    await world.controllers()


async def start_c(world: World) -> None:
    pod = (await rolling_world.bookies(world))[_C_1]
    meta = {**pod["metadata"], "finalizers": []}
    world.kubernetes.put(PODS, pod | {"metadata": meta})
    world.kubernetes.mark_deleted(PODS, SPACE, _C_1)
    await world.controllers()


async def make_read_only(world: World) -> None:
    async with cluster_of(world) as cluster:
        root = Root(cluster.store.root)
        await cluster.store.delete(root.writable(_C_1), version=None)
        await cluster.store.create(root.read_only(_C_1), b"")


async def make_writable(world: World) -> None:
    async with cluster_of(world) as cluster:
        root = Root(cluster.store.root)
        await cluster.store.delete(root.read_only(_C_1), version=None)
        await cluster.store.create(root.writable(_C_1), b"")


async def lose_data(world: World) -> None:
    async with cluster_of(world) as cluster:
        await bookie_records.lost_data(cluster, _C_1, 1)


async def fill_in(world: World) -> None:
    async with cluster_of(world) as cluster:
        await bookie_records.has_all_again(cluster, _C_1, 1)


def drains(mark: Mark | None) -> _Change:
    async def change(world: World) -> None:
        async with cluster_of(world) as cluster:
            await bookie_records.drain(cluster, _C_1, mark)

    return change


async def hold_b(world: World) -> None:
    await world.hold("b")


async def release_b(world: World) -> None:
    await world.release("b")


async def stop_watching(world: World) -> None:
    await world.turn()
    world.is_watched = False
    world.now_ms += 3_600_000
    await world.turn()


async def watch(world: World) -> None:
    world.is_watched = True
    await world.controllers()


async def mark(world: World) -> None:
    async with cluster_of(world) as cluster:
        await underreplication.mark(cluster, LedgerId(7), [_C_1], at_ms=1)


async def unmark(world: World) -> None:
    async with cluster_of(world) as cluster:
        await underreplication.unmark(cluster, LedgerId(7), [_C_1])


async def write_thin(world: World) -> None:
    for number, zone in ((5, "a"), (6, "b")):
        await rolling_world.write_ledger(world, number, f"log-{zone}-0", f"log-{zone}-1", ack=1)


async def delete_thin(world: World) -> None:
    async with cluster_of(world) as cluster:
        for number in (5, 6):
            await ledgers.delete(cluster, LedgerId(number), Deleter(by="shell", at_ms=1))
    world.now_ms += ANEW_AFTER_MS
    for _ in range(2):  # they are read, and then known
        await world.turn()


async def declare(world: World) -> None:
    async with cluster_of(world) as cluster:
        await zone_store.declare(cluster, _FOREIGN)


async def lift(world: World) -> None:
    async with cluster_of(world) as cluster:
        await zone_store.lift(cluster, _FOREIGN)


def cut_off(*, is_cut_off: bool) -> _Change:
    async def change(world: World) -> None:
        world.is_cut_off = is_cut_off
        world.reconciler = world.new_operator()

    return change


def update(**rules: object) -> _Change:
    async def change(world: World) -> None:
        await world.change(update={"bake": "0s", **rules})

    return change


async def rest(world: World) -> None:
    world.now_ms += 24 * 3_600_000


HINDRANCES = (
    Hindrance(gate=RollGate.BOOKIE_MISSING, begin=stop_c, end=start_c, told="log-c-1"),
    Hindrance(
        gate=RollGate.BOOKIE_READ_ONLY, begin=make_read_only, end=make_writable, told="log-c-1"
    ),
    Hindrance(gate=RollGate.BOOKIE_FILLS_IN, begin=lose_data, end=fill_in, told="log-c-1"),
    Hindrance(gate=RollGate.DRAINING, begin=drains(_MARK), end=drains(None), told="log-c-1"),
    Hindrance(gate=RollGate.ZONE_NOT_UP, begin=stop_c, end=start_c, told="zone c is "),
    Hindrance(gate=RollGate.ZONE_HELD, begin=hold_b, end=release_b, told="zone b"),
    Hindrance(gate=RollGate.NOT_EVALUATED, begin=stop_watching, end=watch, told="zones a, b, c"),
    Hindrance(gate=RollGate.UNDER_REPLICATED, begin=mark, end=unmark, told="the first is 7"),
    Hindrance(
        gate=RollGate.LEDGER_AT_RISK, begin=write_thin, end=delete_thin, told="the first is 5"
    ),
    Hindrance(gate=RollGate.IN_MAINTENANCE, begin=declare, end=lift, told="/b/ud-0 by ann"),
    Hindrance(
        gate=RollGate.METADATA_UNREACHABLE,
        begin=cut_off(is_cut_off=True),
        end=cut_off(is_cut_off=False),
        told="nobody answers",
    ),
    Hindrance(
        gate=RollGate.PAUSED, begin=update(paused=True), end=update(), told="spec.update.paused"
    ),
)


async def waits_for(world: World, hindrance: Hindrance) -> None:
    found = {one["gate"]: one for one in (await rolling_world.roll(world))["waitingFor"]}
    assert hindrance.gate in found, found
    said = found[hindrance.gate]
    assert hindrance.told in said["what"]
    assert said["runbook"].startswith("zonekeeper runbook ")
    assert said["since"].startswith("2026-01-0")


@pytest.mark.parametrize("hindrance", HINDRANCES, ids=lambda one: str(one.gate))
async def test_no_step_begins_while_a_gate_does_not_hold_and_its_end_lets_the_roll_go_on(
    hindrance: Hindrance,
) -> None:
    world = await built()
    before = await rolling_world.uids(world)
    await hindrance.begin(world)

    await world.change(image=NEW)
    await world.settle()

    await waits_for(world, hindrance)
    touched = {n for n, uid in (await rolling_world.uids(world)).items() if before[n] != uid}
    assert touched == set()
    own = [one for one in await rolling_world.declared(world) if one != _FOREIGN]
    assert own == []

    await hindrance.end(world)
    watched = UnitsAway(world)
    await world.settle(after_turn=watched.look)

    assert set((await rolling_world.images(world)).values()) == {NEW}
    assert await rolling_world.declared(world) == []
    assert (await rolling_world.roll(world))["phase"] == "Settled"


@pytest.mark.parametrize("hindrance", HINDRANCES, ids=lambda one: str(one.gate))
async def test_what_comes_in_the_midst_of_a_roll_lets_the_step_end_and_no_other_begin(
    hindrance: Hindrance,
) -> None:
    world = await built()
    await world.change(image=NEW)
    await until_step(world)
    await world.controllers()
    await hindrance.begin(world)

    await world.settle()

    await waits_for(world, hindrance)
    await hindrance.end(world)
    await world.settle()
    assert set((await rolling_world.images(world)).values()) == {NEW}
    assert await rolling_world.declared(world) == []


async def test_every_gate_is_told_at_once_with_its_own_since() -> None:
    world = await built(update={"bake": "0s", "paused": True})
    await declare(world)
    await lose_data(world)
    await world.change(image=NEW)
    await world.settle()
    await mark(world)
    world.now_ms += 5_000
    await world.settle()

    found = {one["gate"]: one["since"] for one in (await rolling_world.roll(world))["waitingFor"]}
    assert found.keys() == {"paused", "inMaintenance", "bookieFillsIn", "underReplicated"}
    assert found["underReplicated"] > found["bookieFillsIn"]
    told = [item["reason"] for item in await world.kubernetes.list(EVENTS, SPACE)]
    assert {gate: told.count(gate) for gate in found} == dict.fromkeys(found, 1)


def test_each_gate_is_waited_for_in_these_tests_and_has_a_page_and_a_line_in_the_docs() -> None:
    elsewhere = {RollGate.BAKING, RollGate.IMAGE_NOT_VETTED}  # the latter: ``test_vetting``
    assert {one.gate for one in HINDRANCES} | elsewhere == {*RollGate}
    text = (ROOT / "docs" / "operator.md").read_text()
    for gate in RollGate:
        page = f"shell/zonekeeper/shell/runbooks/{gate}.md"
        assert (ROOT / page).read_text().startswith(f"# `{gate}`")
        assert f"| [`{gate}`](../{page}) |" in text
        assert gate.runbook == f"zonekeeper runbook {gate}"


async def test_ledgers_with_enough_copies_elsewhere_hold_no_step() -> None:
    world = await built()
    await rolling_world.write_ledger(world, 5, "log-a-0", "log-b-0", "log-c-0", ack=2)
    await world.change(image=NEW)
    await world.settle()
    assert set((await rolling_world.images(world)).values()) == {NEW}


async def test_an_override_lets_one_step_pass_once_and_is_told() -> None:
    world = await built()
    await rolling_world.write_ledger(world, 5, "log-a-0", "log-b-0", ack=1)
    await world.change(image=NEW)
    await world.settle()
    assert await rolling_world.gates(world) == ["ledgerAtRisk"]

    await rolling_world.annotate(world, override="ledgerAtRisk")
    await world.settle()

    found = await rolling_world.images(world)
    assert [name for name, image in found.items() if image == NEW] == ["log-a-0", "log-a-1"]
    assert await rolling_world.gates(world) == ["ledgerAtRisk"]
    told = [
        item["message"]
        for item in await world.kubernetes.list(EVENTS, SPACE)
        if item["reason"] == "Overridden"
    ]
    assert len(told) == 1
    assert "log-a-0" in told[0]

    await rolling_world.annotate(world, override=None)
    await world.settle()
    await rolling_world.annotate(world, override="ledgerAtRisk")
    await world.settle()
    assert set((await rolling_world.images(world)).values()) == {NEW}


async def test_an_override_passes_no_other_gate() -> None:
    world = await built()
    await rolling_world.write_ledger(world, 5, "log-a-0", "log-b-0", ack=1)
    await declare(world)
    await rolling_world.annotate(world, override="ledgerAtRisk")
    await world.change(image=NEW)

    await world.settle()

    assert set((await rolling_world.images(world)).values()) == {OLD}
    assert await rolling_world.gates(world) == ["inMaintenance", "ledgerAtRisk"]
