"""Append to a log, take it over with another writer, and read what both wrote.

zonekeeper local up && eval "$(zonekeeper local env)"
python examples/append_to_a_log.py
"""

import asyncio
import os

from zonekeeper.log import LogMessage, connect

NAME = "examples/orders"


async def main() -> None:
    """Write a thousand messages twice, and count what is read."""
    async with connect(os.environ["ZONEKEEPER_METADATA"]) as logs:
        await logs.create(NAME)
        for round_ in range(2):
            async with logs.writer(NAME) as writer:
                orders = [LogMessage(payload=b"order %d" % number) for number in range(1_000)]
                end = await writer.append_many(orders)
                print(f"round {round_}: the last message is {await writer.flushed(end - 1)}")
        count = 0
        async for messages in logs.reader(NAME).read():
            count += len(messages)
        print(count, "messages")
        await logs.delete(NAME)


if __name__ == "__main__":
    asyncio.run(main())
