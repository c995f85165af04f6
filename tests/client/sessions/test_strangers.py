"""A stranger is at the bookies before a ledger is created: its writer must not notice (S136)."""

import dataclasses

import pytest

from tests.client.api.test_writer import fill
from tests.client.lab import Lab, played
from tests.wire.link.worlds import Outcomes
from zonekeeper.client.api.client import Client
from zonekeeper.placement.base.digests import Digest
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.placement.base.quorums import Quorums
from zonekeeper.wire.formats import digests, errors
from zonekeeper.wire.formats.openings import FragmentOpening

STRANGERS = digests.master_key(b"a stranger's")
#: More than the ids that the ledgers of the test get.
IDS = [LedgerId(number) for number in range(20)]


async def seize(client: Client, lab: Lab, ledger_id: LedgerId) -> None:
    """Fence and open an id on each bookie, as a peer can that reaches them."""
    for bookie in lab.machines:
        link = await client.bookies.pool.link(bookie)
        opening = FragmentOpening(
            ledger_id=ledger_id,
            master_key=STRANGERS,
            quorums=Quorums(ensemble=1, write=1, ack=1),
            digest=Digest.CRC32C,
            first_entry_id=EntryId(0),
            ensemble=(bookie,),
        )
        for token in (0, 99):
            with pytest.raises(errors.LedgerDeleted):
                await link.fence(ledger_id, STRANGERS, token)
            wanted = dataclasses.replace(opening, create_token=token)
            with pytest.raises(errors.LedgerDeleted):
                await link.open_fragment(wanted, Outcomes())


@played()
async def test_s136_ledgers_that_a_stranger_fenced_before_they_were_created_are_written(
    lab: Lab,
) -> None:
    async with lab.client("stranger") as stranger, lab.client("first") as first:
        for ledger_id in IDS:
            await seize(stranger, lab, ledger_id)
        for _ in range(5):
            writer = await first.create()
            assert writer.ledger_id in IDS
            before = writer.ensemble
            await fill(writer, 3)
            await writer.flush()
            assert writer.ensemble == before, "no bookie was taken for one that lost the ledger"
            await writer.close()
