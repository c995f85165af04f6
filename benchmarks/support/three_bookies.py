"""Three bookies, one in each zone, for benchmarks whose work blocks."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from tests.support.bookie_processes import bookie_processes, make_cluster
from zonekeeper.placement.base.ids import BookieId, ZoneName
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.placement.policy.rules import PlacementRules, Policy

QUORUMS: Final = Quorums(ensemble=3, write=3, ack=2)

Found = TypeVar("Found")


async def measured(folder: Path, work: Callable[[str], Found]) -> Found:
    """Start the bookies, and give what the work gives that is told the metadata's address."""
    address = f"sqlite://{folder}/meta.db"
    bookies = {BookieId(f"bk-{zone}-0"): ZoneName(zone) for zone in ("a", "b", "c")}
    rules = PlacementRules(zones=tuple(sorted(set(bookies.values()))))
    await make_cluster(address, Policy(placement=rules, quorums=QUORUMS))
    with bookie_processes(address, folder, bookies) as running:
        await asyncio.to_thread(running.start)
        return await asyncio.to_thread(work, address)
