"""Disks of zones and bookies, by what bookies said; what was not said is unknown."""

import dataclasses

from tests.replication.audit.test_checks_replicas import CheckWorld, played
from tests.replication.decisions.test_checks_placement import topology
from tests.replication.decisions.test_what_if import RULES
from zonekeeper.pipeline.jobs import zone_disks
from zonekeeper.pipeline.jobs.zone_report import ReportPlan, ZoneReportSource
from zonekeeper.pipeline.planning.id_ranges import IdRange
from zonekeeper.pipeline.planning.job_options import JobOptions
from zonekeeper.pipeline.planning.job_source import TaskWorker
from zonekeeper.pipeline.reports.fragment_losses import LossScope
from zonekeeper.placement.base.ids import BookieId, LedgerId
from zonekeeper.wire.contract.service import BookieInfo, BookieState

GIB = 1 << 30


def info(bookie: BookieId, used_bytes: int) -> BookieInfo:
    return BookieInfo(
        bookie_id=bookie,
        version="1",
        total_bytes=10 * GIB,
        free_bytes=10 * GIB - used_bytes,
        boot_epoch=1,
        state=BookieState.WRITABLE,
    )


def test_zones_and_bookies_have_their_disks_and_zones_their_room() -> None:
    infos = {one.id: info(one.id, GIB) for one in topology()}
    found = {(one.kind, one.name): one for one in zone_disks.judged(topology(), infos, RULES)}
    zone = found[LossScope.ZONE, "a"]
    assert (zone.capacity_bytes, zone.used_bytes, zone.room) == (30 * GIB, 3 * GIB, "fits")
    bookie = found[LossScope.BOOKIE, "b-1"]
    assert (bookie.capacity_bytes, bookie.used_bytes, bookie.room) == (10 * GIB, GIB, None)
    assert len(found) == 3 + 9


def test_of_a_disk_that_two_bookies_share_each_has_its_half() -> None:
    bookies = topology().updated(
        put=[dataclasses.replace(one, sharers=2) for one in topology() if one.id == "c-0"]
    )
    infos = {one.id: info(one.id, GIB) for one in bookies}
    found = {one.name: one for one in zone_disks.judged(bookies, infos, RULES)}
    assert (found["c-0"].capacity_bytes, found["c-0"].used_bytes) == (5 * GIB, GIB // 2)
    assert (found["c-1"].capacity_bytes, found["c-1"].used_bytes) == (10 * GIB, GIB)


@played()
async def test_only_the_task_with_the_first_ids_gives_the_disks(world: CheckWorld) -> None:
    await world.written(3)
    source = ZoneReportSource({})
    worker = TaskWorker(client=world.client, watched=None)
    wanted = IdRange(LedgerId(7), LedgerId(100))
    options = JobOptions(metadata="zk://h/l", wanted=wanted)
    plan = await source.plan(world.client, options)
    assert isinstance(plan, ReportPlan)
    assert {one.kind for one in plan.disks} == {LossScope.ZONE, LossScope.BOOKIE}
    assert len(plan.disks) == 3 + 9
    assert all(one.capacity_bytes for one in plan.disks), "each bookie was asked"
    for first, count in ((7, len(plan.disks)), (8, 0)):
        ranges = (IdRange(LedgerId(first), LedgerId(first)),)
        rows = [row async for portion in source.rows(worker, plan, ranges) for row in portion]
        assert len([row for row in rows if row[-4] is not None]) == count


def test_a_bookie_that_said_nothing_makes_itself_and_its_zone_unknown() -> None:
    infos = {one.id: info(one.id, GIB) for one in topology() if one.id != BookieId("b-1")}
    found = {(one.kind, one.name): one for one in zone_disks.judged(topology(), infos, RULES)}
    silent, zone = found[LossScope.BOOKIE, "b-1"], found[LossScope.ZONE, "b"]
    assert (silent.capacity_bytes, silent.used_bytes) == (None, None)
    assert (zone.capacity_bytes, zone.room) == (None, "unknown")
    assert found[LossScope.ZONE, "a"].room == "unknown", "b may have no room for it"
