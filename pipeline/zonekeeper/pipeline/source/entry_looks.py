"""Look at single entries of a ledger whose end was looked up before.

An entry that was confirmed at one look may be unknown to the next one: bookies are told late what
is confirmed. The caller knows that the entries here are confirmed. So they are read without asking
again.
"""

from contextlib import aclosing

from zonekeeper.client.api.reader import Reader
from zonekeeper.log.base.errors import LogDamaged
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.formats.entries import Entry


async def entry_at(reader: Reader, entry_id: EntryId) -> Entry:
    """Give an entry that is known to be confirmed."""
    async with aclosing(reader.read_unconfirmed(entry_id, entry_id)) as batches:
        async for batch in batches:
            return batch.entries[0]
    raise LogDamaged(
        f"ledger {reader.ledger_id}: entry {entry_id} was confirmed, and no bookie has it; look "
        "at the ledger"
    )


async def last_within(reader: Reader, first: EntryId, last: EntryId, length: int) -> EntryId:
    """Give the last entry up to which the ledger has at most so many bytes.

    ``first - 1`` if ``first`` itself goes beyond. Lengths ascend, so they are searched by halving.
    """
    low, high = first - 1, last
    while low < high:
        middle = EntryId((low + high + 1) // 2)
        if (await entry_at(reader, middle)).length <= length:
            low = middle
        else:
            high = EntryId(middle - 1)
    return EntryId(low)
