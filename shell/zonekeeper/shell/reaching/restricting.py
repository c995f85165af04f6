"""Reading what keeps bookies from new data: the reason, who and since when, as the store says it.

Only a bookie that is read-only or draining costs reads, two each. What cannot be read of a bookie
is unknown: its other half is shown all the same.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from zonekeeper.metadata.bookies import bookie_records, registration, restrictions
from zonekeeper.metadata.bookies.bookie_records import BookieRecord
from zonekeeper.metadata.bookies.restrictions import Restriction
from zonekeeper.metadata.cluster.cluster import Cluster
from zonekeeper.metadata.formats.malformed import UnreadableError
from zonekeeper.placement.base.ids import BookieId
from zonekeeper.placement.base.topology import Bookie, Registration

#: This many bookies are read at the same time.
_AT_ONCE: Final = 16

Restrictions = dict[BookieId, tuple[Restriction, ...]]


async def read(cluster: Cluster, bookies: Iterable[Bookie]) -> Restrictions:
    """Give the restrictions of each bookie that has one, by its id, sorted."""
    turn = asyncio.Semaphore(_AT_ONCE)

    async def look(bookie: Bookie) -> tuple[Restriction, ...]:
        async with turn:
            return await _read(cluster, bookie)

    wanted = [one for one in bookies if one.draining or one.registration is Registration.READ_ONLY]
    found = await asyncio.gather(*map(look, wanted))
    return {one.id: some for one, some in zip(wanted, found, strict=True) if some}


async def _read(cluster: Cluster, bookie: Bookie) -> tuple[Restriction, ...]:
    try:
        record = await bookie_records.read(cluster, bookie.id)
    except UnreadableError:
        record = BookieRecord()
    read_only = bookie.registration is Registration.READ_ONLY
    try:
        info = await registration.read_service_info(cluster, bookie.id) if read_only else None
    except UnreadableError:
        info = None
    published = () if info is None else info.read_only
    return restrictions.of_bookie(bookie.id, record, published, read_only=read_only)
