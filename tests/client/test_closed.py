"""What a client says that is over, whoever ended it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.client.lab import Lab, play
from zonekeeper.client import client as clients
from zonekeeper.client import errors
from zonekeeper.placement.ids import LedgerId


async def listed(client: clients.Client) -> list[LedgerId]:
    return [ledger_id async for ledger_id in client.ledgers()]


def test_after_its_block_a_client_begins_nothing() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client, await client.create() as writer:
            ledger_id = writer.ledger_id
        asked: list[Callable[[], Awaitable[object]]] = [
            client.create,
            lambda: client.open(ledger_id),
            lambda: client.metadata(ledger_id),
            lambda: client.delete(ledger_id),
            lambda: listed(client),
        ]
        for ask in asked:
            with pytest.raises(errors.ClientClosed, match="connect again") as refused:
                await ask()
            assert not refused.value.maybe_applied
        async with lab.client() as other:
            assert await listed(other) == [ledger_id]

    play(scenario)


def test_a_ledger_that_is_created_when_its_client_has_ended_gets_no_writer() -> None:
    async def scenario(lab: Lab) -> None:
        async with lab.client() as client:
            creating = asyncio.ensure_future(client.create())
            await asyncio.sleep(0)
        with pytest.raises(errors.ClientClosed, match="ledger 0 was created") as ended:
            await creating
        assert ended.value.maybe_applied
        async with lab.client() as other:
            assert await listed(other) == [LedgerId(0)]

    play(scenario)
