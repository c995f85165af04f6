"""A writer whose ledger was deleted and collected gets no more acknowledgements."""

import pytest

from tests.client.api.test_writer import fill
from tests.client.lab import Lab, played
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.placement.base.ids import LedgerId


async def collected(lab: Lab, ledger_id: LedgerId) -> None:
    """Let every bookie forget a ledger, as after a proof of its deletion."""
    for machine in lab.machines.values():
        if machine.door is not None:
            await machine.door.bookie._storage.forget([ledger_id])


async def fenced_deleted_and_collected(lab: Lab, writer: Writer, other: Client) -> None:
    await other.open(writer.ledger_id)
    await other.delete(writer.ledger_id)
    await collected(lab, writer.ledger_id)


@played()
async def test_a_fenced_writer_is_not_acknowledged_after_deletion_and_collection(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create()
        await fill(writer, 3)
        await writer.flush()
        await fenced_deleted_and_collected(lab, writer, second)
        with pytest.raises(errors.WriterStopped):
            await writer.append_and_wait(b"too late")
        assert writer.last_confirmed == 2
