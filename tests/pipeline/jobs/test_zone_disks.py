"""Disks of zones and bookies, by what bookies said; what was not said is unknown."""

from tests.replication.decisions.test_checks_placement import topology
from tests.replication.decisions.test_what_if import RULES
from zonekeeper.pipeline.jobs import zone_disks
from zonekeeper.pipeline.reports.fragment_losses import LossScope
from zonekeeper.placement.base.ids import BookieId
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


def test_a_bookie_that_said_nothing_makes_itself_and_its_zone_unknown() -> None:
    infos = {one.id: info(one.id, GIB) for one in topology() if one.id != BookieId("b-1")}
    found = {(one.kind, one.name): one for one in zone_disks.judged(topology(), infos, RULES)}
    silent, zone = found[LossScope.BOOKIE, "b-1"], found[LossScope.ZONE, "b"]
    assert (silent.capacity_bytes, silent.used_bytes) == (None, None)
    assert (zone.capacity_bytes, zone.room) == (None, "unknown")
    assert found[LossScope.ZONE, "a"].room == "unknown", "b may have no room for it"
