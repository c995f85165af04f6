"""Headroom, watched: what bookies say, summed up by zone, and what is not known."""

import logging
from dataclasses import replace

import pytest

from tests.client import lab
from tests.client.lab import Lab
from tests.replication.decisions.test_checks_placement import topology
from zonekeeper.metadata.cluster import policy_store
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.placement.promises import headroom
from zonekeeper.placement.promises.headroom import Room, Usage
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.room import RoomWatch
from zonekeeper.replication.gate import releasing
from zonekeeper.replication.view import usage
from zonekeeper.replication.view.view import View
from zonekeeper.wire.contract.service import BookieInfo, BookieState

A, B, C = (ZoneName(name) for name in "abc")
RULES = PlacementRules(zones=(A, B, C))


def info(bookie: str, *, total: int = 100, free: int = 60) -> BookieInfo:
    return BookieInfo(
        bookie_id=BookieId(bookie),
        state=BookieState.WRITABLE,
        boot_epoch=1,
        version="test",
        total_bytes=total,
        free_bytes=free,
    )


def test_a_zones_usage_is_the_sum_of_its_bookies() -> None:
    names = [f"{zone}-{number}" for zone in "abc" for number in range(3)]
    infos = {BookieId(name): info(name) for name in names}
    whole = Usage(capacity_bytes=300, used_bytes=120)
    assert usage.by_zone(topology(), infos, rules=RULES) == {A: whole, B: whole, C: whole}


def test_s178_a_disk_that_bookies_share_counts_once() -> None:
    names = [f"{zone}-{number}" for zone in "abc" for number in range(3)]
    infos = {BookieId(name): info(name, total=900, free=540) for name in names}
    on_one_disk = Topology(replace(one, sharers=9) for one in topology())

    found = usage.by_zone(on_one_disk, infos, rules=RULES)

    third = Usage(capacity_bytes=300, used_bytes=120)
    assert found == {A: third, B: third, C: third}


def test_one_bookie_that_is_not_known_leaves_its_zone_unknown() -> None:
    names = [f"{zone}-{number}" for zone in "abc" for number in range(3)]
    infos = {BookieId(name): info(name) for name in names if name != "b-1"}
    found = usage.by_zone(topology(), infos, rules=RULES)
    assert found[B] == Usage(capacity_bytes=None, used_bytes=None)
    assert found[A] == Usage(capacity_bytes=300, used_bytes=120)
    without = usage.by_zone(topology(), infos, rules=RULES, without={BookieId("b-1")})
    assert without[B] == Usage(capacity_bytes=200, used_bytes=80)


def test_room_in_a_zone_that_the_policy_does_not_name_is_no_room() -> None:
    # S130.
    names = [f"{zone}-{number}" for zone in "abc" for number in range(3)]
    infos = {BookieId(name): info(name) for name in names if name != "c-0"}
    found = usage.by_zone(topology(), infos, rules=PlacementRules(zones=(A, B)))
    assert found.keys() == {A, B}
    judged = {one.zone: one for one in headroom.judge(found)}
    assert judged[A].free_bytes == {B: 150}
    assert judged[A].room is Room.FITS, "a bookie there that does not answer costs no answer"


@lab.played()
async def test_real_bookies_are_asked_and_their_last_word_counts_while_they_are_away(
    world: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="zonekeeper.replication.audit.room")
    cluster = await world.cluster()
    view, metrics = View(cluster), AuditorMetrics()
    following = world.tasks.create_task(view.follow())
    await view.known()
    async with world.client() as client:
        room = RoomWatch(view, client.bookies.pool, metrics)
        await room.look()
        before = dict(metrics.headroom_needed_bytes)
        assert metrics.headroom_enough.keys() == {A, B, C}
        await world.crash_zone("b")
        while BookieId("bk-b-0") not in view.missing:
            await view.changed(view.looks)
        await room.look()
        assert metrics.headroom_needed_bytes == before
    following.cancel()


@lab.played()
async def test_neither_the_headroom_nor_a_release_counts_a_zone_that_is_not_named(
    world: Lab,
) -> None:
    # S130.
    cluster = await world.cluster()
    view, metrics = View(cluster), AuditorMetrics()
    following = world.tasks.create_task(view.follow())
    await view.known()
    standing = view.policy
    rules = PlacementRules(zones=(A, B), min_zones=1, desired_zones=2)
    changed = replace(standing, placement=rules, quorums=replace(standing.quorums, ack_zones=1))
    await policy_store.write(cluster, changed, replaces=standing.version)
    while view.policy.placement.zones != (A, B):
        await view.changed(view.looks)
    async with world.client() as client:
        await RoomWatch(view, client.bookies.pool, metrics).look()
        assert metrics.headroom_enough.keys() == {A, B}

        ledger = await client.create()
        await ledger.append(b"one")
        await ledger.close()
        lost = frozenset(one.id for one in view.topology if one.location and one.location.zone == A)
        counted = await releasing.measure(client, view, lost, lambda _: None)
        assert [one.free_bytes.keys() for one in counted.headroom] == [{B}]
    following.cancel()
