"""A bookie that is not reached is dialled when something is asked of it, and not in between."""

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Final

import pytest

from tests.support import fronts
from tests.wire.link.worlds import BOOKIE, PATIENT, Outcomes, Writer, read
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.contract.links import BookieLink, LinkSettings
from zonekeeper.wire.formats import errors
from zonekeeper.wire.grpc import grpc_edge, grpc_link

LEDGER: Final = LedgerId(7)
SETTINGS: Final = dataclasses.replace(PATIENT, back_off_first_ms=1, back_off_max_ms=1)
#: For requests to a peer that says nothing.
IMPATIENT: Final = dataclasses.replace(SETTINGS, connect_timeout_ms=100, call_timeout_ms=100)
#: The longest that gRPC itself, left alone, would wait before it dials again.
REDIAL_MS: Final = dict(grpc_edge.client_options(BOOKIE))["grpc.max_reconnect_backoff_ms"]


async def _tail(link: BookieLink) -> None:
    asked = service.TailRequest(
        ledger_id=LEDGER, first_entry_id=EntryId(0), bytes_max=1, quiet_ms=1
    )
    async with aclosing(link.tail(asked)) as updates:
        await anext(updates)


QUESTIONS: Final[dict[str, Callable[[BookieLink], Awaitable[object]]]] = {
    "a call": lambda link: link.info(),
    "a tail": _tail,
    "an append": lambda link: link.open_fragment(Writer(LEDGER).opening(), Outcomes()),
    "a read": lambda link: link.read(read(LEDGER, 0, 0)),
}


class Door:
    """A port without a bookie; it notes the connections."""

    def __init__(self, *, silent: bool = False) -> None:
        #: The ports from which they come.
        self.came: asyncio.Queue[int] = asyncio.Queue()
        self.port = 0
        #: New connections are left waiting until then.
        self._sends_away = asyncio.Event()
        if not silent:
            self._sends_away.set()

    def send_away(self) -> None:
        """Send those away who stand here, and all who come."""
        self._sends_away.set()

    async def comers(self) -> int:
        """Say how many come from now on, in a while in which gRPC itself would have dialled twice.

        Those who have dialled already, and are not through the door, came before.
        """
        assert isinstance(REDIAL_MS, int)
        _, last = await asyncio.open_connection("127.0.0.1", self.port)
        while await self.came.get() != last.get_extra_info("sockname")[1]:
            pass
        last.transport.abort()
        count = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.5 * REDIAL_MS / 1_000):
                while True:
                    await self.came.get()
                    count += 1
        return count

    async def __call__(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.came.put_nowait(writer.get_extra_info("peername")[1])
        await self._sends_away.wait()
        writer.close()


@asynccontextmanager
async def before(door: Door, settings: LinkSettings = SETTINGS) -> AsyncIterator[BookieLink]:
    """Give a link that leads to a door."""
    server = await asyncio.start_server(door, "127.0.0.1", 0)
    door.port = server.sockets[0].getsockname()[1]
    async with asyncio.timeout(300), asyncio.TaskGroup() as tasks:
        link = grpc_link.connect(
            BOOKIE,
            f"127.0.0.1:{door.port}",
            credentials=None,
            tasks=tasks,
            chance=random.Random(1),
            settings=settings,
        )
        try:
            yield link
        finally:
            door.send_away()
            await link.close()
            await fronts.close(server)


@pytest.mark.parametrize("question", QUESTIONS)
async def test_after_a_question_that_failed_nobody_comes_until_the_next(question: str) -> None:
    door = Door()
    async with before(door) as link:
        with pytest.raises((errors.ConnectionLost, errors.NotConnected)) as caught:
            await QUESTIONS[question](link)
        assert not door.came.empty()
        assert await door.comers() == 0
        assert caught.value.retryable, "the error is kept, and keeps nothing"


@pytest.mark.parametrize("question", QUESTIONS)
async def test_nobody_comes_again_for_a_question_that_was_not_heard_in_time(question: str) -> None:
    door = Door(silent=True)
    async with before(door, IMPATIENT) as link:
        while True:  # on a busy machine the time may be over on the way
            with pytest.raises((errors.Timeout, errors.NotConnected)) as caught:
                await QUESTIONS[question](link)
            if not door.came.empty():
                break
        door.send_away()
        assert await door.comers() <= 1, "one may cross with the giving up"
        assert caught.value.retryable


async def test_a_question_does_not_take_the_way_from_another_one_under_way() -> None:
    door = Door(silent=True)
    async with before(door) as link, asyncio.TaskGroup() as tasks:
        longer = tasks.create_task(_outcome(QUESTIONS["a call"](link)))
        await door.came.get()
        shorter = tasks.create_task(_outcome(QUESTIONS["a tail"](link)))
        await asyncio.sleep(0)
        shorter.cancel()
        await asyncio.wait([longer], timeout=0.3)
        assert not longer.done(), "it has all its time"
        door.send_away()
        await longer


async def _outcome(asking: Awaitable[object]) -> errors.ProtocolError:
    with pytest.raises(errors.ProtocolError) as caught:
        await asking
    return caught.value
