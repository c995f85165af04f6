"""A page of the entries of a ledger that are here, as ranges.

It raises where that is not known for sure: ``IoFailed`` at an entry in a directory that failed.
"""

from zonekeeper.bookie.ledgers import extents
from zonekeeper.bookie.serving import comparing
from zonekeeper.bookie.storage.ledgers import Ledger
from zonekeeper.bookie.storage.storage import Storage
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import entries


async def page(
    storage: Storage, ledger: Ledger, request: service.ListEntriesRequest
) -> service.EntryRanges:
    """Give at most ``ranges_max`` ranges, from ``first_entry_id`` on."""
    ranges: list[tuple[EntryId, EntryId]] = []
    at, end = request.first_entry_id, EntryId(entries.ID_END)
    while at <= end and len(ranges) <= request.ranges_max:
        known = await storage.look_up(ledger, at, end, comparing.LIST_BYTES)
        for first, last in extents.joined(storage.kept(known.extents)):
            if ranges and ranges[-1][1] + 1 == first:
                ranges[-1] = (ranges[-1][0], last)
            else:
                ranges.append((first, last))
        at = EntryId(known.last + 1)
    return service.EntryRanges(
        ranges=tuple(ranges[: request.ranges_max]), complete=len(ranges) <= request.ranges_max
    )
