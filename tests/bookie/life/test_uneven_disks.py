"""Uneven disks fill evenly, though placement knows each room only as it was last published.

Thirty bookies of 1 to 8 TiB in three zones take ledger after ledger. Each takes a copy in each
zone. Measured is how much of the smallest zone's room was used when the first bookie was full.
"""

import random
from dataclasses import replace
from typing import Final

from zonekeeper.bookie.disk.files import Space
from zonekeeper.bookie.life import room_publishing
from zonekeeper.metadata.formats import service_info
from zonekeeper.metadata.formats.service_info import PublishedRoom, ServiceInfo
from zonekeeper.placement.base.ids import BookieId, UpgradeDomain, ZoneName
from zonekeeper.placement.base.locations import Location
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.base.topology import Bookie, Topology
from zonekeeper.placement.base.units import GIB
from zonekeeper.placement.ensembles import selector
from zonekeeper.placement.ensembles.candidates import EnsembleRequest
from zonekeeper.placement.policy.rules import PlacementRules

ZONES: Final = (ZoneName("a"), ZoneName("b"), ZoneName("c"))
LEDGER_BYTES: Final = 16 * GIB
#: A bookie is read-only when so much of its disk is used.
FULL: Final = 0.95


class Disks:
    """The true rooms, and the topology as clients see it."""

    def __init__(self, *, speak: bool) -> None:
        chance = random.Random(4)
        self.speak = speak
        self.total: dict[BookieId, int] = {}
        self.free: dict[BookieId, int] = {}
        self.said: dict[BookieId, PublishedRoom | None] = {}
        self.publications = 0
        self.topology = Topology()
        for zone in ZONES:
            for number in range(10):
                name = BookieId(f"{zone}-{number}")
                self.total[name] = self.free[name] = chance.choice([1, 2, 4, 8]) * 1024 * GIB
                where = Location(zone, UpgradeDomain(f"ud-{number % 3}"))
                self.topology = self.topology.updated(put=[Bookie(id=name, location=where)])
                self.said[name] = None
                self.publish(name)

    def publish(self, name: BookieId) -> None:
        now = room_publishing.of_space(
            Space(total_bytes=self.total[name], free_bytes=self.free[name])
        )
        if not self.speak or not room_publishing.has_moved(self.said[name], now):
            return
        self.publications += 1
        self.said[name] = now
        raw = service_info.render(ServiceInfo(endpoints=()).with_room(now))
        read = service_info.parse(raw).room
        bookie = self.topology.get(name)
        assert bookie is not None
        assert read is not None
        told = replace(bookie, free_bytes=read.free_bytes, total_bytes=read.total_bytes)
        self.topology = self.topology.updated(put=[told])

    def used_when_the_first_is_full(self) -> float:
        """Write ledgers until a bookie is full; give the used share of the smallest zone."""
        chance = random.Random(5)
        rules = PlacementRules(zones=ZONES)
        quorums = Quorums(ensemble=3, write=3, ack=2)
        while all(self.free[name] > (1 - FULL) * self.total[name] for name in self.total):
            asked = EnsembleRequest(topology=self.topology, quorums=quorums, rules=rules)
            for name in selector.choose(asked, chance).ensemble:
                self.free[name] -= LEDGER_BYTES
                self.publish(name)
        totals = {zone: self._of(zone, self.total) for zone in ZONES}
        smallest = min(ZONES, key=totals.__getitem__)
        return 1 - self._of(smallest, self.free) / totals[smallest]

    def _of(self, zone: ZoneName, bytes_of: dict[BookieId, int]) -> int:
        return sum(size for name, size in bytes_of.items() if name[0] == zone)


def test_disks_fill_evenly_by_published_rooms_and_not_without() -> None:
    silent, spoken = Disks(speak=False), Disks(speak=True)

    used_without, used_with = (disks.used_when_the_first_is_full() for disks in (silent, spoken))

    assert used_without < 0.5
    assert used_with > 0.8
    assert silent.publications == 0
    assert spoken.publications <= 30 * 40, "a disk is published in few steps"
