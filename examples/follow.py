"""Follow a ledger while it is written, with a look at the clock between the entries.

zonekeeper local up && eval "$(zonekeeper local env)"
python examples/follow.py
"""

import asyncio
import os

from zonekeeper.client import Client, connect, errors


async def follow(client: Client, ledger_id: int) -> int:
    """Print each entry as it is confirmed; give how many there were in the end."""
    # recover=False: the writer is not disturbed.
    reader = await client.open(ledger_id, recover=False)
    count = 0
    async with reader.follow() as tail:
        while True:
            try:
                entry = await tail.next(timeout=0.2)
            except errors.WaitTimedOut:
                print("nothing new")  # no entry is lost by that: the next call goes on
                continue
            if entry is None:  # the ledger is closed, and every entry was given
                return count
            print(f"entry {entry.entry_id}: {bytes(entry.payload)!r}")
            count += 1


async def main() -> None:
    """Write ten entries, a pause after each, and follow them."""
    async with connect(os.environ["ZONEKEEPER_METADATA"]) as client:
        async with asyncio.TaskGroup() as tasks, client.create() as writer:
            following = tasks.create_task(follow(client, writer.ledger_id))
            for number in range(10):
                await writer.append_and_wait(f"event {number}".encode())
                await asyncio.sleep(0.1)
        print(f"{following.result()} entries")


if __name__ == "__main__":
    asyncio.run(main())
