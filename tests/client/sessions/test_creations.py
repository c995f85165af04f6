"""A creation that is cancelled leaves no ledger behind, wherever it stood."""

import asyncio
import logging
from contextlib import suppress

import pytest

from tests.client.lab import Lab, played
from tests.client.sessions.test_newcomers import of_client
from zonekeeper.client.api.client import Client
from zonekeeper.client.api.writer import Writer
from zonekeeper.client.base import errors
from zonekeeper.client.sessions import creations
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage, RequestKind
from zonekeeper.placement.base.ids import LedgerId

#: Each request takes so long: a creation waits in each of its steps.
_SLOW = Passage(there_ms=10, back_ms=10)


async def listed(client: Client) -> list[LedgerId]:
    return [ledger_id async for ledger_id in client.ledgers()]


async def cancelled(creating: asyncio.Future[Writer]) -> bool:
    """Cancel a creation; False: it was done already."""
    creating.cancel()
    with suppress(asyncio.CancelledError):
        (await creating).halt()
        return False
    return True


@played()
async def test_s152_a_creation_that_is_cancelled_at_any_time_leaves_no_ledger(lab: Lab) -> None:
    async with lab.client("other") as other:
        for asked_id in (None, 7):
            after_ms, was_cancelled = 0, True
            while was_cancelled:
                async with lab.client(f"first-{asked_id}-{after_ms}") as client:
                    of_client(client).weather = lambda _: _SLOW
                    creating = asyncio.ensure_future(client.create(ledger_id=asked_id))
                    await asyncio.sleep(after_ms / 1_000)
                    was_cancelled = await cancelled(creating)
                if was_cancelled:
                    assert await listed(other) == [], f"cancelled after {after_ms} ms"
                after_ms += 5
            assert after_ms > 40, "it was cancelled in some of its steps"
            (left,) = await listed(other)
            await other.delete(left)


async def until_it_is_there(other: Client, creating: asyncio.Future[Writer]) -> None:
    for _ in range(2_000):
        if 7 in await listed(other):
            break
        await asyncio.sleep(0.05)
    else:
        pytest.fail("the store never had the ledger")
    assert not creating.done(), "the store has the ledger, and its creator does not know it yet"


@played()
async def test_the_ledger_goes_while_its_client_goes_on(lab: Lab) -> None:
    async with lab.client("other") as other, lab.client() as client:
        of_client(client).weather = lambda _: Passage(back_ms=500)
        creating = asyncio.ensure_future(client.create(ledger_id=7))
        await until_it_is_there(other, creating)
        assert await cancelled(creating)
        await asyncio.sleep(5)
        assert await listed(other) == []
        async with client.create(ledger_id=7):
            pass


@played()
@pytest.mark.parametrize("loss", [ExchangeLoss.ANSWER, ExchangeLoss.REQUEST])
async def test_a_ledger_of_unknown_outcome_is_looked_for(lab: Lab, loss: ExchangeLoss) -> None:
    lost = 0

    def weather(kind: RequestKind) -> Passage:
        nonlocal lost
        if kind is not RequestKind.WRITE:
            return Passage()
        lost += 1
        return Passage(there_ms=500, loss=loss)

    async with lab.client("other") as other, lab.client() as client:
        async with other.create(ledger_id=6):
            pass  # so the folders of its neighbour are there
        of_client(client).weather = weather
        creating = asyncio.ensure_future(client.create(ledger_id=7))
        if loss is ExchangeLoss.ANSWER:
            await until_it_is_there(other, creating)
        else:
            await asyncio.sleep(1)
        assert await cancelled(creating)
        await asyncio.sleep(3)
        of_client(client).weather = lambda _: Passage()
        await asyncio.sleep(60)
        assert await listed(other) == [6]
        assert lost >= 2


@played()
async def test_the_ledger_of_another_creator_is_not_deleted(lab: Lab) -> None:
    async with lab.client("first") as first, lab.client("second") as second:
        of_client(first).weather = lambda _: _SLOW
        creating = asyncio.ensure_future(first.create(ledger_id=7))
        async with second.create(ledger_id=7):
            pass
        assert await cancelled(creating)
        await asyncio.sleep(10)
        assert await listed(second) == [7]


@played()
async def test_the_id_of_a_ledger_that_was_made_anew_is_left_alone(lab: Lab) -> None:
    """The ledger was created, deleted by another client, and its id given out again."""
    async with lab.client("first") as first, lab.client("second") as second:
        of_client(first).weather = lambda _: Passage(back_ms=500)
        creating = asyncio.ensure_future(first.create(ledger_id=7))
        await until_it_is_there(second, creating)
        await second.delete(7)
        async with second.create(ledger_id=7):
            pass
        assert await cancelled(creating)
        await asyncio.sleep(10)
        assert await listed(second) == [7]


@played()
async def test_what_cannot_be_taken_back_is_told(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    async with lab.client("other") as other, lab.client() as client:
        of_client(client).weather = lambda _: Passage(back_ms=4_000)
        creating = asyncio.ensure_future(client.create(ledger_id=7))
        await until_it_is_there(other, creating)
        assert await cancelled(creating)
        with caplog.at_level(logging.WARNING):
            begun_s = asyncio.get_running_loop().time()
            await client.close()
            waited_s = asyncio.get_running_loop().time() - begun_s
            assert creations.SETTLED_S <= waited_s < creations.SETTLED_S + 1
    (told,) = [each for each in caplog.messages if "may have been created" in each]
    assert told.startswith("ledger 7 ")


@played()
async def test_a_refused_creation_raises_as_before(lab: Lab) -> None:
    async with lab.client() as client:
        async with client.create(ledger_id=7):
            pass
        with pytest.raises(errors.MetadataFailed, match="ledger 7 exists"):
            await client.create(ledger_id=7)
        assert await listed(client) == [7]
