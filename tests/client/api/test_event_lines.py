"""What a client logs of the ledgers that it writes: changes and ends, each once."""

import asyncio
import logging

import pytest

from tests.client.lab import Lab, played
from zonekeeper.client.base import errors
from zonekeeper.wire.formats import errors as wire_errors


@played()
async def test_an_ensemble_change_names_the_bookies_the_entry_and_why(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="zonekeeper.client")
    async with lab.client() as client:
        writer = await client.create()
        await writer.append_and_wait(b"one")
        full = writer.ensemble[1]
        lab.door(full).append_error = wire_errors.ReadOnly("no space")
        for _ in range(10):
            await writer.append(b"more")
        await asyncio.sleep(1)
        await writer.flush()
        joined = writer.ensemble[1]
        await writer.close()
        assert client.counters.ensemble_changes == 1
    (record,) = [one for one in caplog.records if "ensemble change" in one.getMessage()]
    text = record.getMessage()
    assert text.startswith(f"ledger {writer.ledger_id}: ensemble change at entry ")
    assert f"replaced {full} by {joined} (" in text
    assert "no space" in text
    facts = record.__dict__
    assert (facts["left"], facts["joined"]) == ([full], [joined])
    assert facts["ledger"] == writer.ledger_id


@played()
async def test_a_writer_that_is_fenced_says_so_once(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="zonekeeper.client")
    async with lab.client() as client, lab.client() as other:
        writer = await client.create()
        await writer.append_and_wait(b"one")
        await other.open(writer.ledger_id, recover=True)
        for _ in range(2):
            with pytest.raises(errors.WriterStopped):
                await writer.append_and_wait(b"two")
    told = [one for one in caplog.messages if "its writer stopped" in one]
    assert len(told) == 1
    assert told[0].startswith(f"ledger {writer.ledger_id}: its writer stopped: ")


@played()
async def test_a_bookie_that_fails_many_ledgers_is_avoided_with_one_line(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="zonekeeper.client")
    async with lab.client() as client:
        failing = next(iter(lab.machines))
        for _ in range(3):
            client.bookies.suspect(failing, wire_errors.ReadOnly("no space"))
    assert len([one for one in caplog.messages if "is avoided for" in one]) == 1
