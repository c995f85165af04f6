"""A ledger whose stamp cannot be read can be read, and cannot be recovered.

``tests/metadata/formats/test_placement_stamp.py`` says which stamps those are.
"""

import dataclasses

import pytest

from tests.client.lab import Lab, played
from tests.client.recovery_world import data, payloads, written
from zonekeeper.client.api.client import Client
from zonekeeper.client.base import errors
from zonekeeper.metadata.formats import ledger_format, placement_stamp
from zonekeeper.metadata.formats.ledger_metadata import LedgerState
from zonekeeper.metadata.ledgers import ledgers
from zonekeeper.placement.base.ids import LedgerId


async def damage(client: Client, ledger_id: LedgerId) -> None:
    """Let a newer program, or a hand, have written the stamp."""
    stored = await ledgers.read(client.cluster, ledger_id, sync=True)
    assert stored is not None
    custom = ((placement_stamp.KEY, b'{"ackZones":2,"format":2}'),)
    raw = ledger_format.render(dataclasses.replace(stored.metadata, custom=custom))
    await client.cluster.store.put(
        ledgers.path(client.cluster, ledger_id), raw, version=stored.version
    )


@pytest.mark.parametrize("state", [LedgerState.OPEN, LedgerState.IN_RECOVERY])
@played()
async def test_it_is_not_recovered_under_a_weaker_promise_and_its_writer_goes_on(
    lab: Lab, state: LedgerState
) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 20, told=True)
        if state is LedgerState.IN_RECOVERY:
            await ledgers.change(
                second.cluster,
                writer.ledger_id,
                lambda ledger: dataclasses.replace(ledger, state=state),
            )
        await damage(second, writer.ledger_id)
        with pytest.raises(errors.MetadataFailed) as refused:
            await second.open(writer.ledger_id, recover=True)
        assert not refused.value.retryable
        assert "a stamp of format 2" in str(refused.value)
        assert "recover=False" in str(refused.value)
        assert (await second.metadata(writer.ledger_id)).state is state
        await writer.append_and_wait(data(20))


@played()
async def test_what_is_confirmed_of_it_can_be_read(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 20, told=True)
        await damage(second, writer.ledger_id)
        reader = await second.open(writer.ledger_id, recover=False)
        assert await payloads(reader) == [data(n) for n in range(20)]


@played()
async def test_once_it_is_closed_it_is_opened_as_any_other(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await written(first, 20)
        await writer.close()
        await damage(second, writer.ledger_id)
        reader = await second.open(writer.ledger_id)
        assert await payloads(reader) == [data(n) for n in range(20)]
