"""A bookie follows its own record beside its cookie: what persons ordered, and who they are.

The record says who told the bookie to be read-only, and who drains it. The bookie decides nothing
by it: it shows it on ``/state``, so that a person who looks at the bookie alone knows whom to ask.
A record that cannot be read changes nothing of what was read before.
"""

import logging

from zonekeeper.metadata.bookies import bookie_records, restrictions
from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.metadata.bookies.restrictions import Restriction
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.service_info import ReadOnlyReason
from zonekeeper.placement.base.ids import BookieId

_logger = logging.getLogger(__name__)


class OwnRecord:
    """The newest record of this bookie that could be read."""

    def __init__(self, cluster: Cluster, bookie: BookieId) -> None:
        self._cluster = cluster
        self._bookie = bookie
        self.record = BookieRecord()

    async def follow(self) -> None:
        """Follow the record until cancelled."""
        async with bookie_records.watch(self._cluster, self._bookie) as states:
            async for state in states:
                if state is None or isinstance(state, BookieRecord):
                    before, self.record = self.record, state or BookieRecord()
                    _log(before, self.record)

    def restrictions(self, reasons: tuple[ReadOnlyReason, ...]) -> tuple[Restriction, ...]:
        """Give what keeps the bookie from new data, if it is read-only for these reasons."""
        return restrictions.of_bookie(self._bookie, self.record, reasons, read_only=bool(reasons))


def _log(before: BookieRecord, now: BookieRecord) -> None:
    """Log that a draining begins or ends; read-only is logged where the bookie hears of it."""
    was, mark = before.draining is not None, now.draining
    if mark is not None and not was:
        _logger.info("draining, by %s: %s", mark.by, mark.reason, extra={"reason": mark.reason})
    elif mark is None and was:
        _logger.info("draining no longer")
