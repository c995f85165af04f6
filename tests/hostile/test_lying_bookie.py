"""One bookie that lies about what it holds changes no end of a ledger and no byte of an entry."""

from dataclasses import replace

import pytest

from tests.client.lab import Lab, play
from zonekeeper.placement.base.ids import EntryId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import errors

ENTRIES = [b"entry %d" % number for number in range(12)]


def denies_all(reply: service.ReadReply) -> service.ReadReply:
    """Say of all entries that they are not here, and that none was ever confirmed."""
    last = reply.next_entry_id
    return replace(reply, frames=(), next_entry_id=EntryId(last), last_add_confirmed=None)


@pytest.mark.parametrize("liar", range(3))
@pytest.mark.parametrize("how", ["denies", "empty"])
def test_a_recovery_ends_at_the_last_entry_that_was_acknowledged(liar: int, how: str) -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client("writer") as client, lab.client("heir") as heir:
            writer = await client.create(ledger_id=7)
            for entry in ENTRIES:
                await writer.append_and_wait(entry)
            door = lab.door(writer.ensemble[liar])
            if how == "denies":
                door.read_error = errors.NoSuchEntry("no such entry")
            else:
                door.spoil = denies_all
            reader = await heir.open(7, recover=True)
            assert reader.last_confirmed == len(ENTRIES) - 1
            found = [entry.payload async for entry in reader.read_entries(0, len(ENTRIES) - 1)]
            assert found == ENTRIES
            writer.halt()

    play(scenario)
