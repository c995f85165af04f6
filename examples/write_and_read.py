"""Write a ledger, and read it back.

zonekeeper local up && eval "$(zonekeeper local env)"
python examples/write_and_read.py
"""

import asyncio
import os

from zonekeeper.client import connect


async def main() -> None:
    """Write three entries, and print what was read."""
    async with connect(os.environ["ZONEKEEPER_METADATA"]) as client:
        async with client.create(custom={"app": b"orders"}) as writer:
            await writer.append(b"first")  # gives the id; waits for room, never for the network
            await writer.append_many([b"second", b"third"])
            await writer.flush()  # now an ack quorum has all three on disk
        # The end of the block has closed the ledger, so it opens without a word on recovery.
        reader = await client.open(writer.ledger_id)
        async for entry in reader.read_entries():
            print(f"ledger {writer.ledger_id}, entry {entry.entry_id}: {bytes(entry.payload)!r}")


if __name__ == "__main__":
    asyncio.run(main())
