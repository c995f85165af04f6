"""The password of a log: another one is refused in words, before anything is changed."""

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeAlias

import pytest

from tests.client.lab import Lab, played
from tests.log.api.test_log_client import fill, sequences
from tests.log.api.test_store_away import drained
from tests.log.logging_lab import NAME, WallClock, message
from tests.log.sessions.test_rebuilding import lose
from zonekeeper.client.api.client import Surroundings
from zonekeeper.client.base.config import ClientConfig
from zonekeeper.client.base.errors import Unauthorized
from zonekeeper.log.api.log_client import LogClient
from zonekeeper.metadata.formats.log_record import LogRules, LogTaken
from zonekeeper.placement.base.ids import ZoneName

PASSWORD: Final = b"open sesame"
RULES: Final = LogRules(rotate_messages=10)
Call: TypeAlias = Callable[[LogClient], Awaitable[object]]


@asynccontextmanager
async def allowed(
    lab: Lab, password: bytes = PASSWORD, name: str = "application"
) -> AsyncIterator[LogClient]:
    config = ClientConfig(zone=ZoneName("a"), password=password)
    async with lab.client(name, config) as client:
        chance = random.Random(lab.chance.randrange(1 << 30))
        yield LogClient(client, Surroundings(chance, WallClock()))


async def written(log: LogClient) -> None:
    async with log.writer(NAME):
        pass


async def sought(log: LogClient) -> None:
    cursor = await log.cursor(NAME, "billing")
    await cursor.seek(await log.reader(NAME).at_sequence(3))


@played()
async def test_a_log_has_the_password_of_its_client(lab: Lab) -> None:
    async with allowed(lab) as log:
        await log.create(NAME, RULES)
        await fill(log, 25)
        await fill(log, 5)
        assert await sequences(log) == list(range(30))
        for one in (await log.record(NAME)).ledgers:
            assert (await log.client.metadata(one.id)).password == PASSWORD
        await lose(log)
        assert len((await log.rebuild(NAME, rules=RULES)).record.ledgers) == 4
        await log.trim(NAME, 15)
        await fill(log, 1)
        assert await sequences(log) == list(range(15, 31))


REFUSED: dict[str, Call] = {
    "write": written,
    "read": lambda log: drained(log.reader(NAME).read()),
    "follow": lambda log: drained(log.reader(NAME).follow()),
    "end": lambda log: log.reader(NAME).end(),
    "trim": lambda log: log.trim(NAME, 15),
    "seek": sought,
    "rebuild": lambda log: log.rebuild(NAME),
}


@played()
@pytest.mark.parametrize("password", [b"", b"open sesam"])
@pytest.mark.parametrize("name", REFUSED)
async def test_another_password_is_refused_and_nothing_is_changed(
    lab: Lab, name: str, password: bytes
) -> None:
    async with allowed(lab) as log, allowed(lab, password, "stranger") as stranger:
        await log.create(NAME, RULES)
        await fill(log, 15)
        async with log.writer(NAME) as writer:
            await writer.append_and_wait(message(15))
            before = await log.record(NAME)
            with pytest.raises(Unauthorized, match="has another password") as caught:
                await REFUSED[name](stranger)
            assert (caught.value.retryable, caught.value.maybe_applied) == (False, False)
            assert "sesam" not in str(caught.value)
            assert await log.record(NAME) == before
            await writer.append_and_wait(message(16))
        assert await sequences(log) == list(range(17))


@played()
async def test_a_lost_record_is_not_made_anew_with_another_password(lab: Lab) -> None:
    async with allowed(lab) as log, allowed(lab, b"", "stranger") as stranger:
        await log.create(NAME, RULES)
        with pytest.raises(LogTaken):
            await rebuilt_beside_a_writer(log, stranger)
        assert await sequences(log) == [0, 1]


async def rebuilt_beside_a_writer(log: LogClient, stranger: LogClient) -> None:
    """Only the rebuild that has the password ends the writer."""
    async with log.writer(NAME) as writer:
        await writer.append_and_wait(message(0))
        await lose(log)
        with pytest.raises(Unauthorized, match=f"of log {NAME} has another password"):
            await stranger.rebuild(NAME)
        await writer.append_and_wait(message(1), stored=True)
        [ledger] = [one async for one in log.client.ledgers()]
        assert not (await log.client.metadata(ledger)).is_closed
        assert (await log.rebuild(NAME)).left_out == ()


@played()
async def test_what_reads_no_message_needs_no_password(lab: Lab) -> None:
    """As for a ledger, a deletion needs none; retention is done by autorecovery."""
    async with allowed(lab) as log, allowed(lab, b"", "keeper") as keeper:
        await log.create(NAME, LogRules(rotate_messages=10, keep_bytes=1))
        await fill(log, 25)
        assert await keeper.trim_by_rules(NAME)
        assert await sequences(log) == list(range(20, 25))
        await keeper.delete(NAME)
        assert [one async for one in log.client.ledgers()] == []


def test_no_configuration_shows_its_password() -> None:
    config = ClientConfig(password=PASSWORD)
    assert "sesame" not in f"{config!r} {config}"
    with pytest.raises(TypeError, match="password"):
        ClientConfig(password="text")  # type: ignore[arg-type]  # a wrong kind
