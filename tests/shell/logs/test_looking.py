"""What `log show` sees of an open log that it cannot read to its end, in virtual time."""

from dataclasses import replace

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_passwords import allowed
from tests.log.logging_lab import NAME, message
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.shell.logs import log_text, log_work


class _DiesError(Exception):
    """It ends a writer, whose log stays open."""


async def dies(log: LogClient) -> None:
    async with log.writer(NAME) as writer:
        await writer.append_and_wait(message(0))
        raise _DiesError


@played()
async def test_a_wrong_password_is_told_from_silent_bookies(lab: Lab) -> None:
    async with allowed(lab) as log:
        await log.create(NAME)
        with pytest.raises(_DiesError):
            await dies(log)
        seen = await log_work.look(log, NAME, 1, every=True)
        assert (seen.end, seen.wrong_password) == (1, False)
        assert seen.confirmed.keys() == {seen.ledgers[-1].id}

    async with allowed(lab, b"another", "stranger") as log:
        seen = await log_work.look(log, NAME, 1, every=True)
        assert (seen.end, seen.confirmed, seen.wrong_password) == (None, {}, True)

    for machine in lab.machines.values():
        await machine.crash()
    async with allowed(lab, name="third") as log:
        seen = await log_work.look(log, NAME, 1, every=True)
        assert (seen.end, seen.confirmed, seen.wrong_password) == (None, {}, False)


@played()
async def test_a_ledger_that_somebody_deleted_is_named(lab: Lab) -> None:
    """Its bookies are asked nothing, so they are not said to be silent."""
    async with allowed(lab) as log:
        await log.create(NAME)
        with pytest.raises(_DiesError):
            await dies(log)
        [ledger] = (await log.record(NAME)).unended
        await log.client.delete(ledger.id)
        seen = await log_work.look(log, NAME, 1, every=True)
        assert (seen.end, seen.confirmed, seen.deleted) == (None, {}, {ledger.id})
        rows = dict(log_text.rows(seen))
        said = "unknown: another program deleted ledger 0, so what is in it is lost"
        assert rows["end"] == said
        assert rows["pending"] == "ledger 0 has no end, and was deleted by another program"
        assert log_text.plain(seen)["deletedLedgers"] == [0]


@played()
async def test_a_ledger_that_the_writer_dropped_meanwhile_was_deleted_by_nobody(lab: Lab) -> None:
    async with allowed(lab) as log:
        await log.create(NAME)
        with pytest.raises(_DiesError):
            await dies(log)
        old = await log.record(NAME)
        async with log.writer(NAME):
            pass
        dropped = replace(old, ledgers=(replace(old.ledgers[0], id=LedgerId(99)),))
        assert await log_work._deleted(log, NAME, dropped) == frozenset()
