"""A comparison with a cluster that runs: what the cluster does by itself is no difference."""

import random
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace

import pytest

from tests.placement.zone_world import (
    ANNA,
    HOUR,
    MINUTE,
    A,
    B,
    World,
    members,
    policy,
    settled,
)
from zonekeeper.metadata.bookies import looks
from zonekeeper.metadata.cluster import elections, repair_controls, zone_store
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.cluster.repair_controls import PeriodicCheck
from zonekeeper.metadata.formats import records
from zonekeeper.metadata.ledgers import presences, underreplication
from zonekeeper.metadata.saving import export_diff, exporting, idle_changes
from zonekeeper.metadata.saving.export_diff import Difference, Side
from zonekeeper.metadata.saving.export_format import ExportNode
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.placement.policy.rules import RepairRules, RepairScope, Resume
from zonekeeper.placement.zones import zone_record_data
from zonekeeper.placement.zones.gate import Gate, Permission, Token
from zonekeeper.placement.zones.zone_records import Record
from zonekeeper.replication.audit import check_progress
from zonekeeper.replication.audit.check_progress import CheckProgress, Progressing

INSTANCE = "d58c3de9-d9c6-429e-be20-474dcad4d089"


def stored(record: Record) -> bytes:
    return records.render(zone_record_data.plain(record), INSTANCE)


def parts(world: World) -> dict[str, bytes]:
    """Give the records of a world as an export has them."""
    zones = {f".zonekeeper/zones/{name}": stored(one) for name, one in world.health.zones.items()}
    return {".zonekeeper/cluster": stored(world.cluster), **zones}


def shown(before: dict[str, bytes], after: dict[str, bytes]) -> list[str]:
    """Give the paths of the differences that are shown."""
    assert before.keys() == after.keys()
    return [
        suffix
        for suffix, first in before.items()
        if not idle_changes.only_idle(
            Difference(side=Side.BOTH, suffix=suffix, first=first, second=after[suffix])
        )
    ]


def calm() -> World:
    return settled()


def down() -> World:
    world = settled()
    world.lose(members(A))
    world.wait(10 * MINUTE)
    return world


def held_by_a_person() -> World:
    world = calm()
    world.hold(B)
    return world


def frozen_and_released() -> World:
    by_the_switch = RepairRules(scope=RepairScope.CLUSTER, resume=Resume.MANUAL)
    world = settled(policy(repair=by_the_switch), repair_ms=100 * HOUR)
    world.lose(members(A))
    world.wait(10 * MINUTE)
    world.release(None)
    return world


def in_maintenance() -> World:
    world = calm()
    world.declare(A, 1, HOUR)
    world.wait(MINUTE)
    return world


def between_the_marks() -> World:
    world = down()
    world.come(members(A, *range(7)))
    return world


def back_after_an_outage() -> World:
    world = down()
    world.come(members(A))
    world.wait(HOUR)
    return world


@pytest.mark.parametrize(
    "begin",
    [
        calm,
        down,
        held_by_a_person,
        frozen_and_released,
        in_maintenance,
        between_the_marks,
        back_after_an_outage,
    ],
)
def test_s173_evaluations_alone_are_no_difference(begin: Callable[[], World]) -> None:
    world = begin()
    world.wait(MINUTE)
    before = parts(world)

    world.wait(5 * MINUTE)

    after = parts(world)
    assert before != after
    assert shown(before, after) == []


@pytest.mark.parametrize(
    ("event", "suffixes"),
    [
        (lambda world: world.lose(members(A, 1)), {".zonekeeper/zones/a", ".zonekeeper/cluster"}),
        (lambda world: world.hold(B), {".zonekeeper/zones/b"}),
        (lambda world: world.hold(None), {".zonekeeper/cluster"}),
    ],
)
def test_what_happens_to_a_zone_is_a_difference(
    event: Callable[[World], None], suffixes: set[str]
) -> None:
    world = calm()
    before = parts(world)

    event(world)

    assert set(shown(before, parts(world))) == suffixes


@pytest.mark.parametrize(
    "change",
    [
        lambda gate: replace(gate, permission=Permission.RELEASED),
        lambda gate: replace(gate, set_by="anna"),
        lambda gate: replace(gate, since_wall_ms=7),
        lambda gate: replace(gate, token=Token("a-7")),
        lambda gate: replace(gate, real=True),
        lambda gate: replace(gate, over=True),
        lambda gate: replace(gate, awaits_person=True),
        lambda gate: replace(gate, held_by=ANNA),
    ],
    ids=range(8),
)
def test_every_change_of_a_gate_alone_is_a_difference(change: Callable[[Gate], Gate]) -> None:
    world = calm()
    before, zone, cluster = parts(world), world.zone(A), world.cluster
    after = {
        ".zonekeeper/zones/a": stored(replace(zone, gate=change(zone.gate))),
        ".zonekeeper/cluster": stored(replace(cluster, gate=change(cluster.gate))),
    }

    assert set(shown(before, {**before, **after})) == after.keys()


@pytest.mark.parametrize(
    "suffix",
    [*idle_changes.DIRECTORIES, ".zonekeeper/standby", ".zonekeeper/standby/0f/orders/1c/2/eu-1"],
)
def test_a_directory_with_a_value_is_a_difference(suffix: str) -> None:
    empty = Difference(side=Side.SECOND, suffix=suffix, first=None, second=b"")
    assert idle_changes.only_idle(empty)
    assert not idle_changes.only_idle(replace(empty, second=b"x"))


def test_every_field_that_is_left_out_is_one_of_the_records() -> None:
    """Else a field that is renamed would be compared, and an idle cluster would differ."""
    world = down()
    zone = zone_record_data.plain(world.zone(A))
    cluster = zone_record_data.plain(world.cluster)
    suspended = {"gate": zone["gate"]}
    for names, record in (
        (idle_changes.ZONE_FIELDS, zone),
        (idle_changes.CLUSTER_FIELDS, {**cluster, "suspended": suspended}),
    ):
        for name in names:
            inside: object = record
            for part in name.split("."):
                assert isinstance(inside, dict)
                assert part in inside, name
                inside = inside[part]


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", None])
def test_a_record_that_cannot_be_read_is_always_a_difference(damaged: bytes | None) -> None:
    good = stored(calm().zone(A))
    for pair in ((good, damaged), (damaged, good)):
        difference = Difference(
            side=Side.BOTH, suffix=".zonekeeper/zones/a", first=pair[0], second=pair[1]
        )
        assert not idle_changes.only_idle(difference)


@pytest.mark.parametrize(
    "suffix",
    [
        "/underreplication/disable",
        "/00/0000/L0001",
        "/cookies/a",
        ".zonekeeper/policy",
        "/available/a",
    ],
)
def test_an_order_or_a_ledger_is_always_a_difference(suffix: str) -> None:
    for first, second in ((None, b""), (b"", None), (b"1", b"2")):
        assert not idle_changes.only_idle(
            Difference(side=Side.BOTH, suffix=suffix, first=first, second=second)
        )


async def differences(
    before: Sequence[ExportNode], cluster: Cluster
) -> tuple[list[str], list[str]]:
    """Give the differences that are shown, and those that are left out."""

    async def old() -> AsyncIterator[ExportNode]:
        for node in before:
            yield node

    every = [one async for one in export_diff.differences(old(), exporting.nodes(cluster))]
    idle = [one.suffix for one in every if idle_changes.only_idle(one)]
    return [one.suffix for one in every if one.suffix not in idle], idle


async def test_s173_what_processes_leave_in_an_idle_root_is_no_difference(
    cluster: Cluster, other: Cluster
) -> None:
    session = other.store.session.id
    assert session is not None
    world = calm()
    await zone_store.change_zone(cluster, A, lambda _: world.zone(A))
    await zone_store.change_cluster(cluster, lambda _: world.cluster)
    before = [node async for node in exporting.nodes(cluster)]
    await presences.show(other, presences.draw(random.Random(1)), session)
    await looks.write(other, BookieId("bk"), session)
    for check in PeriodicCheck:
        await repair_controls.write_check_time_ms(cluster, check, 7)
    for check_kept in Progressing:
        progress = CheckProgress(next_ledger=LedgerId(7), began_ms=1)
        await check_progress.write(cluster, check_kept, progress)
    for votes in (elections.auditor_votes(cluster), elections.zone_watch_votes(cluster)):
        await cluster.store.create(f"{votes}/V_", ephemeral=True, make_parents=True)
    world.wait(MINUTE)
    await zone_store.change_zone(cluster, A, lambda _: world.zone(A))
    await zone_store.change_cluster(cluster, lambda _: world.cluster)

    found, idle = await differences(before, cluster)

    assert found == []
    assert {".zonekeeper/writers", ".zonekeeper/looks/bk", ".zonekeeper/zones/a"} <= set(idle)


async def test_a_mark_and_the_switch_of_repair_are_differences(cluster: Cluster) -> None:
    before = [node async for node in exporting.nodes(cluster)]
    await repair_controls.set_enabled(cluster, enabled=False)
    await underreplication.mark(cluster, LedgerId(7), [BookieId("bk-a-0")], at_ms=5)

    found, _ = await differences(before, cluster)

    assert "/underreplication/disable" in found
    assert any(suffix.startswith("/underreplication/ledgers/") for suffix in found)
