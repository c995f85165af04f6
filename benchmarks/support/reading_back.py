"""No figure without this: what a case wrote is read back and counted, outside its time."""

from collections.abc import Sequence

from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.placement.base.ids import EntryId, LedgerId


async def checked(client: Client, writers: Sequence[Writer], payload: bytes, entries: int) -> None:
    """Close the ledgers, read all of them, and let them go."""
    found = 0
    for writer in writers:
        await writer.close()
        found += await _read(client, writer.ledger_id, payload)
    assert found == entries, f"{found} of {entries} entries were read back"


async def recovered(client: Client, ledger_id: LedgerId, payload: bytes, entries: int) -> None:
    """Recover an open ledger, read all of it, and delete it."""
    found = await _read(client, ledger_id, payload)
    assert found == entries, f"{found} of {entries} entries were read back"


async def _read(client: Client, ledger_id: LedgerId, payload: bytes) -> int:
    """Read a ledger to its end, delete it, and say how many entries it had."""
    found = 0
    reader = await client.open(ledger_id, recover=True)
    async for batch in reader.read(EntryId(0), reader.last_confirmed):
        assert all(entry.payload == payload for entry in batch)
        found += len(batch)
    await client.delete(ledger_id)
    return found


async def since(client: Client, writer: Writer, before: EntryId, payload: bytes) -> None:
    """Read what was appended to a ledger behind an entry, and leave the ledger open."""
    await writer.force()
    await writer.tell_confirmed()
    reader = await client.open(writer.ledger_id, recover=False)
    confirmed, found = await reader.read_last_confirmed(), 0
    assert confirmed == writer.last_appended, f"{confirmed} of {writer.last_appended} is confirmed"
    async for batch in reader.read(before + 1):
        assert all(entry.payload == payload for entry in batch)
        found += len(batch)
    assert found == confirmed - before
