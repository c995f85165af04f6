"""How full are the bookies? Each bookie is asked, and the answers are summed up by zone.

A bookie that does not answer is left out, and the usage of its zone is unknown: the bookie's data
may be gone or have grown. A bookie's disk may hold more than entries; that room is not free,
either. A disk that several bookies share counts once: each of them counts its part of the disk.
"""

import asyncio
from collections.abc import Iterable, Mapping, Set
from typing import Final

from zonekeeper.client.bookies.link_pool import LinkPool
from zonekeeper.metadata.store.background import together
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.topology import Topology
from zonekeeper.placement.policy.rules import PlacementRules
from zonekeeper.placement.promises.headroom import Usage
from zonekeeper.wire.contract.service import BookieInfo
from zonekeeper.wire.formats import errors

ASKED_AT_ONCE_MAX: Final = 32


async def survey(pool: LinkPool, bookies: Iterable[BookieId]) -> dict[BookieId, BookieInfo]:
    """Ask bookies for their room; a bookie that does not answer is left out."""
    gate = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

    async def one(bookie: BookieId) -> BookieInfo | None:
        async with gate:
            try:
                return await (await pool.link(bookie)).info()
            except errors.ProtocolError:
                return None

    asked = sorted(bookies)
    said = await together(one(bookie) for bookie in asked)
    return {bookie: info for bookie, info in zip(asked, said, strict=True) if info is not None}


def by_zone(
    topology: Topology,
    infos: Mapping[BookieId, BookieInfo],
    *,
    rules: PlacementRules,
    without: Set[BookieId] = frozenset(),
) -> dict[ZoneName, Usage]:
    """Sum up the usage of each zone. A bookie without an info makes its zone's usage unknown.

    Zones that the policy does not name are left out: no copy is made there. The bookies of
    ``without`` do not count, because what they held is elsewhere by now.
    """
    named = [zone for zone in topology.zones if zone in rules.zones]
    usage = dict.fromkeys(named, Usage(capacity_bytes=0, used_bytes=0))
    for bookie in topology:
        if bookie.location is None or bookie.location.zone not in usage or bookie.id in without:
            continue
        zone, info = bookie.location.zone, infos.get(bookie.id)
        so_far = usage[zone]
        if info is None or so_far.capacity_bytes is None or so_far.used_bytes is None:
            usage[zone] = Usage(capacity_bytes=None, used_bytes=None)
        else:
            used_bytes = info.total_bytes - info.free_bytes
            usage[zone] = Usage(
                capacity_bytes=so_far.capacity_bytes + info.total_bytes // bookie.sharers,
                used_bytes=so_far.used_bytes + used_bytes // bookie.sharers,
            )
    return usage
