"""A bookie on a port of the socket lane for peers that break a rule, and an honest writer."""

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from tests.support import playing
from tests.support.raw_sockets import LIMIT_S, until
from tests.wire.link.worlds import SocketWorld, World, opened
from zonekeeper.metadata.store.background import alongside
from zonekeeper.placement.base.ids import EntryId, LedgerId
from zonekeeper.wire.contract import messages, service
from zonekeeper.wire.formats import socket_messages
from zonekeeper.wire.formats.socket_messages import CallBegun
from zonekeeper.wire.socket.connection import EndCause
from zonekeeper.wire.socket.socket_server import SocketLimits

#: Of what a peer may take its time for, where a test waits for the end.
SOON_MS = 400


def play(scenario: Callable[[SocketWorld], Awaitable[None]]) -> None:
    async def narrowed(world: World) -> None:
        assert isinstance(world, SocketWorld)
        await scenario(world)

    SocketWorld.run(narrowed)


played = playing.by(play)


class Honest:
    """A writer that goes on, whatever the peers beside it do."""

    def __init__(self, world: SocketWorld) -> None:
        self._link = world.link()
        self.acked = 0
        self._changed = asyncio.Event()

    async def write(self) -> None:
        writer, lane, outcomes = await opened(self._link, 1)
        while True:
            lane.append(writer.frame(b"honest"))
            await outcomes.all_of(self.acked + 1)
            assert not outcomes.failures
            self.acked += 1
            self._changed.set()

    async def goes_on(self) -> None:
        wanted = self.acked + 5
        async with asyncio.timeout(LIMIT_S):
            while self.acked < wanted:
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def honest(world: SocketWorld) -> AsyncIterator[Honest]:
    """Let an honest writer be at work; afterwards it must still be."""
    writer = Honest(world)
    async with alongside(writer.write()):
        await writer.goes_on()
        yield writer
        await writer.goes_on()


async def ended(world: SocketWorld, causes: dict[EndCause, int]) -> None:
    """Wait until exactly these connections have ended: a peer may hear of it first."""
    await until(lambda: world.figures.ended.total() >= sum(causes.values()))
    assert world.figures.ended == causes


async def limited(world: SocketWorld, limits: SocketLimits) -> None:
    """Start the bookie anew with other limits."""
    world.port_limits = limits
    await world.restart()
    world.figures.ended.clear()


def soon(**changed: int) -> SocketLimits:
    limits = SocketLimits(greeting_ms=60_000)
    return dataclasses.replace(limits, times=dataclasses.replace(limits.times, **changed))


def warned(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return any(
        words in record.getMessage() and record.levelno == logging.WARNING
        for record in caplog.records
    )


def call(number: int, name: str = "Info", request: bytes = b"", timeout_ms: int = 0) -> bytes:
    return socket_messages.build(
        CallBegun(number=number, timeout_ms=timeout_ms, name=name, request=request)
    )


def tail(quiet_ms: int) -> bytes:
    asked = service.TailRequest(
        ledger_id=LedgerId(1), first_entry_id=EntryId(0), bytes_max=1, quiet_ms=quiet_ms
    )
    return messages.tail(asked).SerializeToString()
