"""A rotation whose old ledger is behind: the new one is written and confirmed, and counts for
nothing until the old one is complete. The old one may still end earlier.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Final

import pytest

from tests.client.lab import Door, Lab, played
from tests.log.logging_lab import (
    NAME,
    check_whole,
    create,
    message,
    numbers,
    read_all,
    reader_of,
    record_of,
    writing,
)
from zonekeeper.client.api.client import Client
from zonekeeper.client.base.errors import NoSuchLedger
from zonekeeper.log.api.log_writer import LogWriter
from zonekeeper.log.base.errors import NotInLog
from zonekeeper.metadata.formats.log_record import LogRules, LogTaken
from zonekeeper.metadata.logs import logs
from zonekeeper.placement.base.ids import LedgerId
from zonekeeper.wire.contract import service
from zonekeeper.wire.formats import carriers

RULES: Final = LogRules(rotate_messages=2)
#: The message that is on its way to the old ledger, and those of the new one.
LATE: Final = 1
NEW: Final = (2, 3)


@dataclass(slots=True)
class Rotating:
    """A log whose old ledger waits for appends that are held outside of its bookies."""

    client: Client
    other: Client
    writer: LogWriter
    old: LedgerId
    holding: bool = True
    held: list[tuple[Door, Sequence[carriers.Request], service.Replies]] = field(
        default_factory=list
    )

    def hold(self, door: Door) -> None:
        """Hold what comes for the old ledger."""

        def append(items: Sequence[carriers.Request], replies: service.Replies) -> None:
            late = [one for one in items if self._is_late(one)]
            rest = [one for one in items if not self._is_late(one)]
            if late:
                self.held.append((door, late, replies))
            if rest:
                Door.append(door, rest, replies)

        door.append = append  # type: ignore[method-assign]  # it holds, and is the door

    def _is_late(self, item: carriers.Request) -> bool:
        return (
            self.holding and isinstance(item, carriers.Append) and item.frame.ledger_id == self.old
        )

    def release(self, bookies: int) -> None:
        """Let in what is held, at so many bookies; the rest of it never arrives."""
        self.holding = False
        for door, items, replies in self.held[:bookies]:
            Door.append(door, items, replies)


@asynccontextmanager
async def rotating(lab: Lab) -> AsyncIterator[Rotating]:
    """Give a log in which all bookies of the new ledger have confirmed it."""
    await create(lab, RULES)
    async with (
        lab.client("writer") as client,
        lab.client("other") as other,
        writing(client) as writer,
    ):
        await writer.flushed(await writer.append(message(0)))
        rotation = Rotating(client, other, writer, (await record_of(lab)).ledgers[0].id)
        doors = [machine.doorway for machine in lab.machines.values()]
        for door in doors:
            rotation.hold(door)
        await writer.append(message(LATE))
        await asyncio.sleep(0.5)
        assert len((await record_of(lab)).ledgers) == 2
        await writer.append_many(map(message, NEW))
        await asyncio.sleep(1)
        yield rotation
        for door in doors:
            door.append = Door.append.__get__(door)  # type: ignore[method-assign]  # it holds, and is the door


async def not_acknowledged(writer: LogWriter) -> None:
    for sequence in (LATE, *NEW):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await writer.stored(sequence)


@played()
async def test_nothing_of_the_new_ledger_is_acknowledged_or_shown_before_all_of_the_old_one(
    lab: Lab,
) -> None:
    async with rotating(lab) as rotation:
        new = (await record_of(lab)).ledgers[1].id
        reader = await rotation.other.open(new, recover=False)
        assert reader.last_confirmed > 0, "the new ledger's bookies have it"
        await not_acknowledged(rotation.writer)
        assert len(await read_all(rotation.other)) == 1
        log = reader_of(rotation.other)
        with pytest.raises(NotInLog):
            await log.at_sequence(NEW[0])
        assert await log.at_time(1_001) is None
        assert (await record_of(lab)).ledgers[1].sequence is None
        rotation.release(3)
        await rotation.writer.flushed(NEW[-1])
        assert len(await read_all(rotation.other)) == 4
    await check_whole(lab, 4)
    ends = [one.end and one.end.messages for one in (await record_of(lab)).ledgers]
    assert ends[:2] == [2, 2]


@played()
async def test_where_the_old_ledger_ends_earlier_the_new_one_is_dropped_and_all_is_sent_again(
    lab: Lab,
) -> None:
    async with rotating(lab) as rotation:
        dropped = (await record_of(lab)).ledgers[1].id
        rotation.release(0)
        await rotation.other.open(rotation.old, recover=True)
        await rotation.writer.flushed(NEW[-1])
        found = await check_whole(lab, 4)
        assert dropped not in {one.id.ledger for one in found}
        with pytest.raises(NoSuchLedger):
            await rotation.other.metadata(dropped)
    record = await record_of(lab)
    assert [one.end and one.end.messages for one in record.ledgers[:2]] == [1, 3]
    assert record.epoch == 1


@played()
async def test_where_a_recovery_finds_all_of_the_old_ledger_the_new_one_stays(lab: Lab) -> None:
    """One bookie has the late entry: no ack quorum, and enough for a recovery."""
    async with rotating(lab) as rotation:
        new = (await record_of(lab)).ledgers[1].id
        rotation.release(1)
        await rotation.other.open(rotation.old, recover=True)
        await rotation.writer.flushed(NEW[-1])
        found = await check_whole(lab, 4)
        assert [one.id.ledger for one in found] == [rotation.old] * 2 + [new] * 2


@played()
@pytest.mark.parametrize("released", [0, 1])
async def test_a_writer_that_takes_over_keeps_the_new_ledger_only_if_the_old_one_is_complete(
    lab: Lab, released: int
) -> None:
    kept = 4 if released else 1
    with suppress(LogTaken):
        async with rotating(lab) as rotation:
            rotation.release(released)
            async with writing(rotation.other, "second") as second:
                assert second.next_sequence == kept
                await second.append_many(numbers(kept, 3))
            with pytest.raises(LogTaken):
                await rotation.writer.stored(NEW[-1])
    await check_whole(lab, kept + 3)


@played()
async def test_no_reader_looks_into_a_ledger_that_is_being_dropped(lab: Lab) -> None:
    """It is dropped before the ledger in front of it gets its end."""
    seen: list[tuple[int | None, ...]] = []
    async with rotating(lab) as rotation:
        dropped = (await record_of(lab)).ledgers[1].id
        watching = lab.tasks.create_task(_watched(rotation.other, dropped, seen))
        await asyncio.sleep(0.1)
        rotation.release(0)
        await rotation.other.open(rotation.old, recover=True)
        await rotation.writer.stored(NEW[-1])
        watching.cancel()
    assert seen
    assert all(sequence is None for sequences in seen for sequence in sequences)


async def _watched(client: Client, ledger: LedgerId, seen: list[tuple[int | None, ...]]) -> None:
    """Note the sequences that any record has for a ledger."""
    async with logs.watch(client.cluster, NAME) as states:
        async for state in states:
            if state is not None:
                seen.append(tuple(one.sequence for one in state.ledgers if one.id == ledger))
