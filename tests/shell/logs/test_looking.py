"""What `log show` sees of a log with a wrong password, in virtual time."""

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_passwords import allowed
from tests.log.logging_lab import NAME, message
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.shell.logs import log_work


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
