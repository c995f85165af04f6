"""A real cluster of bookie processes on this machine, for as long as a block lasts."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zonekeeper.shell.local.local_cluster import LocalCluster


@contextmanager
def cluster(folder: Path, bookies_per_zone: int = 2) -> Iterator[str]:
    """Run three zones of some bookies each, and give the metadata's address."""
    local = LocalCluster(folder)
    asyncio.run(local.up({"bookies_per_zone": bookies_per_zone, "autorecovery": 0}))
    try:
        yield local.address
    finally:
        asyncio.run(local.down(purge=True))
