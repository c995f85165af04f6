"""Disks in the zone report: how full they are, and whether a lost zone would fit."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from zonekeeper.pipeline.reports.fragment_losses import LossScope
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.placement.promises import headroom
from zonekeeper.replication.view import usage
from zonekeeper.wire.contract.service import BookieInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDisk:
    """The disks of a zone or of a bookie; None: unknown."""

    kind: LossScope
    name: str
    capacity_bytes: int | None
    used_bytes: int | None
    #: Of a zone: would the other zones have room for its data, and why.
    room: str | None = None
    why: str | None = None


def judged(
    topology: Topology, infos: Mapping[BookieId, BookieInfo], rules: PlacementRules
) -> Iterator[ReportedDisk]:
    """Give each zone that the policy names, and each bookie.

    Of a disk that several bookies share each bookie has its part.
    """
    by_zone = usage.by_zone(topology, infos, rules=rules)
    for one in headroom.judge(by_zone):
        yield ReportedDisk(
            kind=LossScope.ZONE,
            name=one.zone,
            capacity_bytes=by_zone[one.zone].capacity_bytes,
            used_bytes=by_zone[one.zone].used_bytes,
            room=one.room.value,
            why=one.why,
        )
    for bookie in topology:
        info = infos.get(bookie.id)
        yield ReportedDisk(
            kind=LossScope.BOOKIE,
            name=bookie.id,
            capacity_bytes=None if info is None else info.total_bytes // bookie.sharers,
            used_bytes=None
            if info is None
            else (info.total_bytes - info.free_bytes) // bookie.sharers,
        )
