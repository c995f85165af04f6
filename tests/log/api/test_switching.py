"""An opening and a rotation, in which something happens at each step.

A step is a request of the writer to the store, or items of its append stream at a bookie. Each play
has a log of its own, whose ledgers take two messages. At one step something happens: the writer
dies, another one takes the log, a replicator recovers a ledger, an answer is lost. Then the log is
read: every acknowledged message is in it once and in order, and a reader that followed has seen the
same messages.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

import pytest

from tests.client.lab import Door, Lab, played
from tests.client.sessions.test_newcomers import of_client
from tests.log import logging_lab
from tests.log.logging_lab import NEW, message, numbers
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.errors import ClientError
from zonekeeper.log.api.log_reader import ReadMessage
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.errors import LogEnded
from zonekeeper.metadata.formats.log_record import LogRecord, LogRules, LogTaken
from zonekeeper.metadata.logs import logs
from zonekeeper.metadata.stores.memory import ExchangeLoss, Passage, RequestKind
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers

pytestmark = pytest.mark.simulation

RULES: Final = LogRules(rotate_messages=2)
#: Of the first writer: a rotation, and a part of the second ledger.
MESSAGES: Final = 3
#: Of the writer after it.
MORE: Final = 3
STEPS_MIN: Final = 20
#: There are fewer steps than this in any play.
STEPS_MAX: Final = 400


@dataclass(slots=True)
class Steps:
    """Counts steps, and rings at one of them."""

    at: int
    seen: int = 0
    came: asyncio.Event = field(default_factory=asyncio.Event)
    #: Is the passage of the store's request at that step lost?
    loss: ExchangeLoss = ExchangeLoss.NOTHING

    def step(self) -> bool:
        """Count a step; is it the one?"""
        self.seen += 1
        if self.seen == self.at:
            self.came.set()
        return self.seen == self.at

    def weather(self, kind: RequestKind) -> Passage:
        del kind
        return Passage(back_ms=1, loss=self.loss if self.step() else ExchangeLoss.NOTHING)


@asynccontextmanager
async def watched(lab: Lab, client: Client, steps: Steps) -> AsyncIterator[None]:
    """Count what a client asks of the store, and what comes to bookies, in a block."""
    store = of_client(client)
    store.weather = steps.weather
    doors = [machine.doorway for machine in lab.machines.values() if machine.door is not None]
    for door in doors:
        _count(door, steps)
    try:
        yield
    finally:
        store.weather = lambda _: Passage()
        for door in doors:
            door.append = Door.append.__get__(door)  # type: ignore[method-assign]  # it counts, and is the door


def _count(door: Door, steps: Steps) -> None:
    def append(items: Sequence[carriers.Request], replies: service.Replies) -> None:
        steps.step()
        Door.append(door, items, replies)

    door.append = append  # type: ignore[method-assign]  # it counts, and is the door


@dataclass(slots=True)
class Play:
    """One log, its first writer, and who reads along."""

    lab: Lab
    client: Client
    #: Another client, of the program that interferes.
    other: Client
    name: str
    steps: Steps
    #: Messages below this sequence were acknowledged to the first writer.
    acked: int = 0
    #: What the ids of messages were said to be.
    flushed: dict[int, object] = field(default_factory=dict)
    failure: Exception | None = None
    followed: list[ReadMessage] = field(default_factory=list)

    async def record(self) -> LogRecord:
        return await logs.find(self.other.cluster, self.name)

    async def write(self) -> None:
        """Be the first writer: append, hear of it, and close."""
        try:
            async with (
                logging_lab.writing(self.client, "first", name=self.name) as writer,
                asyncio.TaskGroup() as tasks,
            ):
                for number in range(MESSAGES):
                    tasks.create_task(self._hear(writer, await writer.append(message(number))))
                    await asyncio.sleep(0.002)
        except* (LogTaken, LogEnded) as errors:
            self.failure = errors

    async def _hear(self, writer: LogWriter, sequence: int) -> None:
        await writer.stored(sequence)
        self.acked = max(self.acked, sequence + 1)
        self.flushed[sequence] = await writer.flushed(sequence)

    async def follow(self) -> None:
        async for many in logging_lab.reader_of(self.other, self.name).follow():
            self.followed += many


async def dies(play: Play, writing: asyncio.Task[None]) -> None:
    writing.cancel()


async def is_taken(play: Play, writing: asyncio.Task[None]) -> None:
    del writing
    async with logging_lab.writing(play.other, "second", name=play.name) as writer:
        first = writer.next_sequence
        await writer.append_many(numbers(first, MORE))


async def _recovered(play: Play, which: int) -> None:
    """Recover a ledger without an end, as a replicator does for a writer that seems to be gone."""
    unended = (await play.record()).unended
    if unended:
        with suppress(ClientError):
            await play.other.open(unended[which].id, recover=True)


async def is_fenced(play: Play, writing: asyncio.Task[None]) -> None:
    del writing
    await _recovered(play, 0)


async def is_fenced_in_its_new_ledger(play: Play, writing: asyncio.Task[None]) -> None:
    del writing
    await _recovered(play, -1)


async def nothing_else(play: Play, writing: asyncio.Task[None]) -> None:
    del play, writing


Happens = Callable[[Play, "asyncio.Task[None]"], Awaitable[None]]


async def check(play: Play) -> None:
    """Hold that the log is whole, and that nobody has seen anything else."""
    found = [
        one async for many in logging_lab.reader_of(play.other, play.name).read() for one in many
    ]
    count = len(found)
    assert count > max(play.flushed, default=-1)
    assert [one.sequence for one in found] == list(range(count))
    assert [one.message for one in found] == list(numbers(0, count))
    assert [one.id for one in found] == sorted({one.id for one in found})
    for sequence, known in play.flushed.items():
        assert found[sequence].id == known
    assert play.followed == found[: len(play.followed)], "a reader saw what was dropped"


async def played_at(play: Play, happens: Happens) -> None:
    """Let something happen at a step, and then let the log be taken over and read."""
    await logs.create(play.other.cluster, play.name, replace(NEW, rules=RULES))
    following = play.lab.tasks.create_task(play.follow())
    async with watched(play.lab, play.client, play.steps):
        writing = play.lab.tasks.create_task(play.write())
        came = play.lab.tasks.create_task(play.steps.came.wait())
        await asyncio.wait([writing, came], return_when=asyncio.FIRST_COMPLETED)
        if play.steps.came.is_set():
            await happens(play, writing)
        await asyncio.wait([writing])
        came.cancel()
    if not writing.cancelled():
        await writing
    await check(play)
    async with logging_lab.writing(play.other, "last", name=play.name) as writer:
        assert writer.next_sequence >= play.acked
        await writer.append_many(numbers(writer.next_sequence, MORE))
    await check(play)
    record = await play.record()
    assert record.unended == ()
    await asyncio.sleep(1)
    assert len(play.followed) == sum(one.end.messages for one in record.ledgers if one.end)
    following.cancel()


LOSSES: Final = (ExchangeLoss.REQUEST, ExchangeLoss.ANSWER)


async def at_every_step(
    lab: Lab, happens: Happens, loss: ExchangeLoss = ExchangeLoss.NOTHING
) -> list[Play]:
    """Play once for each step, until a play has no further step."""
    plays: list[Play] = []
    async with lab.client("writer") as client, lab.client("other") as other:
        for at in range(1, STEPS_MAX):
            play = Play(lab, client, other, f"plays/{at}", Steps(at, loss=loss))
            plays.append(play)
            await played_at(play, happens)
            if not play.steps.came.is_set():
                return plays
    raise AssertionError("the plays have no end")


@played()
@pytest.mark.parametrize(
    "happens",
    [dies, is_taken, is_fenced, is_fenced_in_its_new_ledger],
    ids=lambda one: one.__name__,
)
async def test_whatever_happens_at_whatever_step_the_log_is_whole(
    lab: Lab, happens: Happens
) -> None:
    plays = await at_every_step(lab, happens)
    assert len(plays) > STEPS_MIN
    if happens not in (dies, is_taken):
        assert all(play.failure is None and play.acked == MESSAGES for play in plays)


@played()
@pytest.mark.parametrize("loss", LOSSES)
async def test_an_exchange_with_the_store_is_lost_at_any_step(lab: Lab, loss: ExchangeLoss) -> None:
    plays = await at_every_step(lab, nothing_else, loss)
    assert len(plays) > STEPS_MIN
    assert all(play.failure is None and play.acked == MESSAGES for play in plays)
