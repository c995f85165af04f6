"""Headroom, watched: could the other zones take the data of a lost zone?

The auditor asks bookies from time to time how full they are. While a bookie does not answer, its
last answer counts. A bookie that never answered makes its zone unknown, and with it every answer
that needs the zone. A change of a zone's headroom is a line of the log. It is a warning unless the
data fits.
"""

import logging
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.promises import headroom
from zonekeeper.placement.promises.headroom import Headroom, Room
from zonekeeper.replication.audit.auditor_metrics import AuditorMetrics
from zonekeeper.replication.view import usage
from zonekeeper.replication.view.view import View
from zonekeeper.wire.contract.service import BookieInfo

#: The share of each bookie's disk that repair leaves free.
MIN_FREE: Final = Fraction(1, 10)

_logger = logging.getLogger(__name__)


class RoomWatch:
    """What one process knows of the room in the zones."""

    def __init__(self, view: View, pool: LinkPool, metrics: AuditorMetrics) -> None:
        self._view = view
        self._pool = pool
        self._metrics = metrics
        self._said: Mapping[BookieId, BookieInfo] = {}
        self._told: dict[ZoneName, Room] = {}

    async def look(self) -> None:
        """Ask all bookies, and judge the loss of each zone."""
        topology = self._view.topology
        heard = await usage.survey(self._pool, [one.id for one in topology if one.readable])
        self._said = {
            bookie: info for bookie, info in {**self._said, **heard}.items() if bookie in topology
        }
        rules, gone = self._view.policy.placement, self._view.written_off
        by_zone = usage.by_zone(topology, self._said, rules=rules, without=gone)
        judged = headroom.judge(by_zone, min_free=MIN_FREE)
        known = [one for one in judged if one.room is not Room.UNKNOWN]
        metrics = self._metrics
        metrics.headroom_enough = Counter({one.zone: int(one.room is Room.FITS) for one in known})
        metrics.headroom_needed_bytes = Counter(
            {one.zone: one.needed_bytes for one in known if one.needed_bytes is not None}
        )
        metrics.headroom_free_bytes = Counter(
            {one.zone: sum(one.free_bytes.values()) for one in known}
        )
        for one in judged:
            self._tell(one)

    def _tell(self, judged: Headroom) -> None:
        if self._told.get(judged.zone, Room.FITS) is judged.room:
            return
        self._told[judged.zone] = judged.room
        level = logging.INFO if judged.room is Room.FITS else logging.WARNING
        _logger.log(
            level,
            "if zone %s is lost, room for its data is: %s, %s",
            judged.zone,
            judged.room.value,
            judged.why,
        )
