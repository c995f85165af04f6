"""A process of the takeover game; ``python -m tests.takeover.actor ADDRESS NAME``.

It says ``ready``, then does what each line of its input says, one after the other:

- ``write SEED``: creates a ledger (``ledger N``) and appends to it as fast as it goes, in bursts
  that the seed draws; after each acknowledgement ``acked K``. Ends with ``ended WHY``.
- ``take N``: opens the ledger with recovery, reads it whole: ``read N LAST DIGEST``.
- ``tail N``: follows the ledger to its end, and disturbs no writer: ``read N LAST DIGEST``.

What an entry holds is made from its ledger, its id and the draw of its writer, which no other has.
So a reader can tell an entry that another writer wrote, or that lies at another place; ``read``
says so itself (``foreign N K``).
"""

import asyncio
import hashlib
import random
import sys
from collections.abc import AsyncIterator

from tests.support.python_process import run, tell
from zonekeeper.client.api import client as clients
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.reader import Reader
from zonekeeper.client.base import errors
from zonekeeper.placement.base.ids import NO_ENTRY, EntryId, LedgerId
from zonekeeper.wire.formats.entries import Entry

#: A writer that is not stopped ends by itself, far beyond what a round waits for.
_BURSTS_MAX = 5_000
_BURST_ENTRIES_MAX = 40
_PADDING_BYTES_MAX = 3_000


def payload(ledger_id: LedgerId, entry_id: EntryId, writer: int) -> bytes:
    """Make an entry's content: its name, and padding that follows from it."""
    name = f"{ledger_id}:{entry_id}:{writer}:"
    chance = random.Random(name)
    return name.encode() + chance.randbytes(chance.randrange(_PADDING_BYTES_MAX))


def writer_of(content: bytes) -> int:
    """Give the draw of the writer that made an entry's content."""
    return int(content.split(b":", 3)[2])


async def write(client: Client, seed: int) -> None:
    chance = random.Random(seed)
    writer = await client.create()
    tell(f"ledger {writer.ledger_id}")
    try:
        for _ in range(_BURSTS_MAX):
            for _ in range(chance.randint(1, _BURST_ENTRIES_MAX)):
                entry_id = EntryId(writer.last_appended + 1)
                await writer.append(payload(writer.ledger_id, entry_id, seed))
            if chance.random() < 0.5:
                await writer.flush()
            else:
                await asyncio.sleep(0)
            if writer.last_confirmed != NO_ENTRY:
                tell(f"acked {writer.last_confirmed}")
        await writer.close()
        tell(f"acked {writer.last_confirmed}")
        tell("ended Closed")
    except errors.ClientError as error:
        if writer.last_confirmed != NO_ENTRY:
            tell(f"acked {writer.last_confirmed}")
        writer.halt()
        stopped_by = error.__cause__ if isinstance(error, errors.WriterClosed) else error
        tell(f"ended {type(stopped_by).__name__}")


async def whole(reader: Reader) -> AsyncIterator[Entry]:
    if reader.last_confirmed != NO_ENTRY:
        async for entry in reader.read_entries(EntryId(0), reader.last_confirmed):
            yield entry


async def tell_read(ledger_id: LedgerId, entries: AsyncIterator[Entry]) -> None:
    digest, expected = hashlib.sha256(), EntryId(0)
    writer: int | None = None
    async for entry in entries:
        content = bytes(entry.payload)
        writer = writer_of(content) if writer is None else writer
        if entry.entry_id != expected or content != payload(ledger_id, expected, writer):
            tell(f"foreign {ledger_id} {entry.entry_id}")
        digest.update(content)
        expected = EntryId(expected + 1)
    tell(f"read {ledger_id} {expected - 1} {digest.hexdigest()}")


async def main(address: str) -> None:
    async with clients.connect(address) as client:
        tell("ready")
        while line := await asyncio.to_thread(sys.stdin.readline):
            word, number = line.split()
            if word == "write":
                await write(client, int(number))
                continue
            ledger_id = LedgerId(int(number))
            reader = await client.open(ledger_id, recover=word == "take")
            await tell_read(ledger_id, whole(reader) if word == "take" else reader.follow())


if __name__ == "__main__":
    run(main(sys.argv[1]))
