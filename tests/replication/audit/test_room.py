"""Headroom, watched: what bookies say, summed up by zone, and what is not known."""

import logging

import pytest

from tests.client import lab
from tests.client.lab import Lab
from tests.replication.decisions.test_checks_placement import topology
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.promises.headroom import Usage
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.audit.room import RoomWatch
from zonekeeper.replication.view import usage
from zonekeeper.replication.view.view import View
from zonekeeper.wire.contract.service import BookieInfo, BookieState

A, B, C = (ZoneName(name) for name in "abc")


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
    assert usage.by_zone(topology(), infos) == {A: whole, B: whole, C: whole}


def test_one_bookie_that_is_not_known_leaves_its_zone_unknown() -> None:
    names = [f"{zone}-{number}" for zone in "abc" for number in range(3)]
    infos = {BookieId(name): info(name) for name in names if name != "b-1"}
    found = usage.by_zone(topology(), infos)
    assert found[B] == Usage(capacity_bytes=None, used_bytes=None)
    assert found[A] == Usage(capacity_bytes=300, used_bytes=120)
    without = usage.by_zone(topology(), infos, without={BookieId("b-1")})
    assert without[B] == Usage(capacity_bytes=200, used_bytes=80)


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
