"""A reader that catches up again and again; ``python -m benchmarks.support.catch_up URI LEDGER``.

A reader of old entries is a process of its own, so the work of its client does not slow the
writer's. It prints ``reading``, and ends at a signal.
"""

import asyncio
import sys

from zonekeeper.client.api import client as clients
from zonekeeper.placement.base.ids import EntryId, LedgerId


async def main(address: str, ledger_id: LedgerId) -> None:
    """Read a closed ledger from its first entry to its last, for ever."""
    async with clients.connect(address) as client:
        reader = await client.open(ledger_id, recover=False)
        print("reading", flush=True)
        while True:
            async for _ in reader.read(EntryId(0), reader.last_confirmed):
                pass


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], LedgerId(int(sys.argv[2]))))
