"""A writer that is dropped says so: its ledger stays open, and its entries may be lost."""

import asyncio
import gc
import logging
import warnings

import pytest

from tests.client.api.test_writer import outcome
from tests.client.lab import Lab, played
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.base.config import ClientConfig

#: A writer that waits for entries is kept until they are acknowledged, or it has stopped.
_SETTLED_S = 30.0
_HASTY = ClientConfig(add_timeout_ms=10_000)


async def dropped_ones() -> list[str]:
    """Wait until what was dropped is gone; give the warnings."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        await asyncio.sleep(_SETTLED_S)
        gc.collect()
    return [str(each.message) for each in told if each.category is ResourceWarning]


@played()
async def test_a_writer_that_is_never_closed_is_told_and_its_entries_still_go_out(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        writer = await first.create(ledger_id=7)
        writer.append_nowait(b"one")
        del writer
        (told,) = await dropped_ones()
        assert told.startswith("ledger 7: its writer was dropped and never closed: the ledger")
        assert (await second.open(7, recover=True)).last_confirmed == 0


@played()
async def test_entries_that_are_not_acknowledged_are_named(lab: Lab) -> None:
    async with lab.client(config=_HASTY) as client:
        writer = await client.create(ledger_id=7)
        await writer.append_and_wait(b"one")
        for who in writer.ensemble:
            lab.door(who).holding = True
        for machine in lab.machines.values():
            machine.doorway.holding = True
        await writer.append_many([b"two", b"three"])
        del writer
        (told,) = await dropped_ones()
        assert told.startswith("ledger 7: its writer was dropped and never closed, and 1 to 2 are")
        for machine in lab.machines.values():
            machine.doorway.release()


async def closed(_: Lab, writer: Writer) -> None:
    await writer.close()


async def halted(_: Lab, writer: Writer) -> None:
    writer.halt()


async def stopped_and_told(lab: Lab, writer: Writer) -> None:
    for machine in lab.machines.values():
        machine.doorway.holding = True
    assert isinstance(await outcome(writer.append_and_wait(b"two")), errors.WriterStopped)
    for machine in lab.machines.values():
        machine.doorway.release()


@pytest.mark.parametrize("ended", [closed, halted, stopped_and_told])
@played()
async def test_a_writer_that_the_application_has_done_with_is_not_told(
    lab: Lab, ended: object
) -> None:
    assert callable(ended)
    async with lab.client(config=_HASTY) as client:
        writer = await client.create()
        await writer.append_and_wait(b"one")
        await ended(lab, writer)
        del writer
        assert await dropped_ones() == []


@played()
async def test_the_end_of_the_client_names_what_is_not_acknowledged(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with lab.client() as client:
            quiet, busy = await client.create(ledger_id=7), await client.create(ledger_id=8)
            await quiet.append_and_wait(b"one")
            for machine in lab.machines.values():
                machine.doorway.holding = True
            busy.append_nowait(b"one")
    (told,) = [each for each in caplog.messages if "not acknowledged" in each]
    assert told.startswith("ledger 8: the client ends, and entries 0 to 0 were appended and not")
    del quiet, busy
    assert await dropped_ones() == []
